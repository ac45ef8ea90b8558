//! One file: a credential, whose it is, and when it came by both clocks.

use std::time::Duration;

use chancery_wire::Secret;
use chancery_wire::sigv4::AwsKeys;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::cache::schedule::{Freshness, Schedule};
use crate::cache::{LabelsAsText, Reading};
use crate::credential::{BearerToken, Credential, CredentialKind, RegistryLogin};
use crate::error::ExchangeError;
use crate::output;
use crate::service_account::ServiceAccountName;
use crate::subject::TokenIdentity;

/// The version of the files. Another one is not read, and is over.
const VERSION: u32 = 1;
/// What tells one start of the machine from another.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A file. Fields that are not known are let be.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    version: u32,
    pub(super) labels: Labels,
    issued_at: Timestamp,
    expires_at: Timestamp,
    /// When it came by the clock that nobody sets, in milliseconds, and in which start of the machine that counts.
    came_at: u64,
    boot: String,
    held: Held,
}

/// Whose a credential is.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Labels {
    provider: String,
    identity: String,
    service_account: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Held {
    Aws { access_key_id: String, secret_access_key: Kept, session_token: Option<Kept> },
    Bearer { token: Kept, issued_type: Option<String>, scope: Option<String> },
    Registry { host: String, username: String, password: Kept },
}

/// A secret, as it lies in a file of its owner's.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(transparent)]
struct Kept(String);

/// A credential that was read, and when it came.
pub(super) struct Stored {
    pub(super) credential: Credential,
    came: Reading,
    is_this_boot: bool,
}

impl Labels {
    /// Those of a chain; the ServiceAccount is that of the token, where the chain does not name one.
    pub(super) fn of(labels: &crate::cache::Labels, identity: &TokenIdentity) -> Self {
        let named = labels.service_account.as_ref().map(ToString::to_string);
        let of_token = || ServiceAccountName::of_subject(&identity.sub).map(|name| name.to_string());
        Self {
            provider: labels.provider.to_owned(),
            identity: labels.identity.clone(),
            service_account: named.or_else(of_token),
        }
    }

    pub(super) fn as_text(&self) -> LabelsAsText<'_> {
        LabelsAsText {
            provider: &self.provider,
            identity: &self.identity,
            service_account: self.service_account.as_deref(),
        }
    }
}

impl Entry {
    pub(super) fn of(credential: &Credential, labels: Labels, now: Reading) -> Self {
        let keep = |secret: &Secret| Kept(secret.expose().to_owned());
        let held = match &credential.kind {
            CredentialKind::Aws(keys) => Held::Aws {
                access_key_id: keys.access_key_id.clone(),
                secret_access_key: keep(&keys.secret_access_key),
                session_token: keys.session_token.as_ref().map(keep),
            },
            CredentialKind::Bearer(bearer) => Held::Bearer {
                token: keep(&bearer.token),
                issued_type: bearer.issued_type.clone(),
                scope: bearer.scope.clone(),
            },
            CredentialKind::Registry(login) => Held::Registry {
                host: login.host.clone(),
                username: login.username.clone(),
                password: keep(&login.password),
            },
        };
        Self {
            version: VERSION,
            labels,
            issued_at: credential.issued_at,
            expires_at: credential.expires_at,
            came_at: u64::try_from(now.elapsed.as_millis()).unwrap_or(u64::MAX),
            boot: boot(),
            held,
        }
    }

    /// What a file holds, unless it is none of this version.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|entry: &Self| entry.version == VERSION)
    }

    pub(super) fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>, ExchangeError> {
        let mut text = output::json(self)?;
        Ok(Zeroizing::new(std::mem::take(&mut *text).into_bytes()))
    }

    /// Whether it is good for nothing any longer.
    pub(super) fn is_over(&self) -> bool {
        self.expires_at <= Timestamp::now()
    }

    pub(super) fn into_stored(self) -> Stored {
        let open = |mut kept: Kept| Secret::new(std::mem::take(&mut kept.0));
        let kind = match self.held {
            Held::Aws { access_key_id, secret_access_key, session_token } => CredentialKind::Aws(AwsKeys {
                access_key_id,
                secret_access_key: open(secret_access_key),
                session_token: session_token.map(open),
            }),
            Held::Bearer { token, issued_type, scope } => {
                CredentialKind::Bearer(BearerToken { token: open(token), issued_type, scope })
            }
            Held::Registry { host, username, password } => {
                CredentialKind::Registry(RegistryLogin { host, username, password: open(password) })
            }
        };
        let credential = Credential::new(kind, self.issued_at, Some(self.expires_at));
        let came = Reading { wall: self.issued_at, elapsed: Duration::from_millis(self.came_at) };
        Stored { credential, came, is_this_boot: !self.boot.is_empty() && self.boot == boot() }
    }
}

impl Stored {
    /// What is done with it at a moment; nothing where it is over, or came in a future that a clock was set back from.
    pub(super) fn at(&self, now: Reading, longest: Duration) -> Option<Freshness> {
        if self.came.wall > now.wall {
            return None;
        }
        // The clock that nobody sets says nothing across a start of the machine.
        let came = if self.is_this_boot { self.came } else { Reading { elapsed: now.elapsed, ..self.came } };
        let freshness = Schedule::new(self.credential.lifetime(), longest, 0.5)?.at(now.since(&came));
        (freshness != Freshness::Gone).then_some(freshness)
    }
}

fn boot() -> String {
    std::fs::read_to_string(BOOT).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(wall: i64, elapsed: u64) -> Reading {
        Reading { wall: Timestamp::from_second(wall).unwrap(), elapsed: Duration::from_secs(elapsed) }
    }

    fn stored(is_this_boot: bool) -> Stored {
        let expires_at = Some(Timestamp::from_second(13_600).unwrap());
        let token = Secret::new("t".to_owned());
        let credential = Credential::bearer(token, Timestamp::from_second(10_000).unwrap(), expires_at);
        Stored { credential, came: at(10_000, 500), is_this_boot }
    }

    #[test]
    fn c_11_a_file_is_as_old_as_the_more_pessimistic_clock_says() {
        let hour = Duration::from_secs(3600);
        for (now, is_this_boot, freshness) in [
            (at(10_100, 600), true, Some(Freshness::Fresh)),
            (at(13_000, 600), true, Some(Freshness::Aging)),
            (at(13_590, 600), true, None),
            (at(10_100, 3500), true, Some(Freshness::Aging)),
            (at(10_100, 9000), true, None),
            (at(10_100, 9000), false, Some(Freshness::Fresh)),
            (at(13_000, 10), false, Some(Freshness::Aging)),
            (at(9_999, 600), true, None),
        ] {
            assert_eq!(stored(is_this_boot).at(now, hour), freshness, "{now:?} {is_this_boot}");
        }
        assert_eq!(stored(true).at(at(10_100, 600), Duration::from_secs(60)), None, "the operator's limit");
    }

    #[test]
    fn a_file_holds_what_was_kept_and_is_printed_nowhere() {
        let labels = Labels { provider: "aws".to_owned(), identity: "r".to_owned(), service_account: None };
        let secret = |text: &str| Secret::new(text.to_owned());
        let keys = AwsKeys {
            access_key_id: "A".to_owned(),
            secret_access_key: secret("S"),
            session_token: Some(secret("T")),
        };
        let login = RegistryLogin { host: "h".to_owned(), username: "u".to_owned(), password: secret("S") };
        let bearer = BearerToken { token: secret("S"), issued_type: None, scope: Some("s".to_owned()) };
        for kind in
            [CredentialKind::Aws(keys), CredentialKind::Registry(login), CredentialKind::Bearer(bearer)]
        {
            let now = at(10_000, 500);
            let credential = Credential::new(kind, now.wall, Some(at(10_600, 0).wall));
            let bytes = Entry::of(&credential, labels.clone(), now).to_bytes().unwrap();
            let back = Entry::parse(&bytes).unwrap().into_stored();
            let json = |credential: &Credential| output::render(credential, output::Form::Json).unwrap();
            assert_eq!(*json(&back.credential), *json(&credential));
            assert!(back.is_this_boot);
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), place in 0_usize..400, byte in any::<u8>()) {
            _ = Entry::parse(&bytes).map(Entry::into_stored);
            let labels = Labels { provider: "p".to_owned(), identity: "i".to_owned(), service_account: None };
            let mut kept = Entry::of(&stored(true).credential, labels, at(10_000, 500)).to_bytes().unwrap();
            if let Some(broken) = kept.get_mut(place) {
                *broken = byte;
            }
            _ = Entry::parse(&kept).map(|entry| entry.into_stored().at(at(10_000, 0), Duration::from_secs(60)));
        }
    }
}
