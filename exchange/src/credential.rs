//! What an exchange yields.

use std::time::Duration;

use chancery_wire::Secret;
use chancery_wire::sigv4::AwsKeys;
use jiff::Timestamp;

use crate::error::{Class, ExchangeError, Stage};
use crate::limits;

/// A credential and its time. What is secret in it is wiped when it is dropped, and never printed.
#[derive(Clone, Debug)]
pub struct Credential {
    /// What it is.
    pub kind: CredentialKind,
    /// When it came.
    pub issued_at: Timestamp,
    /// When it ends. Where the answer does not say, and the token does not either, after
    /// [`limits::UNKNOWN_LIFETIME`].
    pub expires_at: Timestamp,
}

/// What a credential opens.
#[derive(Clone, Debug)]
pub enum CredentialKind {
    /// AWS, by signed requests.
    Aws(AwsKeys),
    /// Whoever takes this bearer token (RFC 6750).
    Bearer(BearerToken),
    /// A container registry.
    Registry(RegistryLogin),
}

/// A bearer token.
#[derive(Clone, Debug)]
pub struct BearerToken {
    /// The token.
    pub token: Secret,
    /// `issued_token_type` of RFC 8693, where the answer names it.
    pub issued_type: Option<String>,
    /// `scope`, where the answer names it.
    pub scope: Option<String>,
}

/// A user and a password of a registry.
#[derive(Clone, Debug)]
pub struct RegistryLogin {
    /// The host that it may be sent to, and no other.
    pub host: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

impl Credential {
    /// A credential that came at `issued_at` and ends at `expires_at`, if that is known.
    pub fn new(kind: CredentialKind, issued_at: Timestamp, expires_at: Option<Timestamp>) -> Self {
        let unknown = || issued_at.checked_add(limits::UNKNOWN_LIFETIME).unwrap_or(issued_at);
        Self { kind, issued_at, expires_at: expires_at.unwrap_or_else(unknown) }
    }

    /// A bearer token and nothing more.
    pub fn bearer(token: Secret, issued_at: Timestamp, expires_at: Option<Timestamp>) -> Self {
        let bearer = BearerToken { token, issued_type: None, scope: None };
        Self::new(CredentialKind::Bearer(bearer), issued_at, expires_at)
    }

    /// How long it is still good for; nothing once it has ended.
    pub fn duration(&self, now: Timestamp) -> Duration {
        let left = self.expires_at.duration_since(now);
        if left.is_negative() { Duration::ZERO } else { left.unsigned_abs() }
    }

    /// How long it was good for when it came.
    pub fn lifetime(&self) -> Duration {
        self.duration(self.issued_at)
    }

    /// Whether it is good for `asked` more, and that within 80 % of its life: with more, each call would be an exchange.
    ///
    /// # Errors
    /// When it is not.
    pub fn lasts(&self, asked: Duration, now: Timestamp) -> Result<(), ExchangeError> {
        let left = self.duration(now);
        if asked <= left && (asked.is_zero() || asked <= self.lifetime().mul_f64(0.8)) {
            return Ok(());
        }
        Err(ExchangeError::new(Class::Permanent, Stage::Cache, "min-ttl-too-long")
            .came(&format!(
                "a credential that lives {} s, of which {} s are left",
                self.lifetime().as_secs(),
                left.as_secs()
            ))
            .expected(format!("one that is good for {} s, and that within 80 % of its life", asked.as_secs()))
            .remedy("ask for less with --min-ttl, or have the provider give longer lives"))
    }

    /// What it is called in a message.
    pub fn kind_in_words(&self) -> &'static str {
        match self.kind {
            CredentialKind::Aws(_) => "AWS keys",
            CredentialKind::Bearer(_) => "a bearer token",
            CredentialKind::Registry(_) => "a registry's user and password",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r0_18_every_kind_tells_how_long_it_is_good_for() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let secret = || Secret::new("hunter2".to_owned());
        let login =
            RegistryLogin { host: "r.example".to_owned(), username: "AWS".to_owned(), password: secret() };
        let keys = AwsKeys {
            access_key_id: "AKIA".to_owned(),
            secret_access_key: secret(),
            session_token: Some(secret()),
        };
        let bearer = BearerToken { token: secret(), issued_type: None, scope: None };
        for kind in
            [CredentialKind::Registry(login), CredentialKind::Aws(keys), CredentialKind::Bearer(bearer)]
        {
            let credential = Credential::new(kind.clone(), at(1000), Some(at(1600)));
            assert_eq!(credential.duration(at(1100)), Duration::from_secs(500));
            assert_eq!(credential.duration(at(1700)), Duration::ZERO);
            assert_eq!(credential.lifetime(), Duration::from_secs(600));
            assert_eq!(Credential::new(kind, at(0), None).lifetime(), limits::UNKNOWN_LIFETIME);
            assert!(!format!("{credential:?}").contains("hunter2"));
        }
    }
}
