//! A census of copied tokens: what lies in Secrets, ConfigMaps and files, signed by a key of the ring and good still.
//!
//! A key leaves when the longest token that it is known to have signed is dead. Nobody knows of tokens that were signed before
//! there was a ring, or by kube-controller-manager, which signs those of `kubernetes.io/service-account-token` Secrets: they do not
//! expire. Found is what its signature proves: whoever may write a ConfigMap holds up no rotation with words. A token is dropped
//! as soon as it was looked at, and nothing here shows one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::ring::WallTime;
use chancery_core::token::TokenFacts;
use chancery_core::{KeyId, KeyRing};
use chancery_files::{Bounds, FileError};
use chancery_keygen::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::times::Time;

#[cfg(feature = "kube")]
mod cluster;

#[cfg(feature = "kube")]
pub use cluster::{CensusError, count_cluster};
#[cfg(feature = "kube")]
pub(super) use cluster::{CensusSeen, begin};

/// A kubeconfig has a few thousand bytes.
const FILE: Bounds = Bounds::regular(4 << 20, Duration::from_secs(10));

/// The time between two when nothing is said.
const USUALLY_EVERY: Duration = Duration::from_secs(600);

/// So many are named; of the others only the number is kept.
const MOST_NAMED: usize = 10_000;

/// No token of Kubernetes is longer.
const LONGEST_TOKEN: usize = 64 << 10;

/// Where a cluster is counted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CensusConfig {
    /// Credentials and authority; the cluster in which this process is a pod when missing.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it.
    pub context: Option<String>,
    every: Option<Time>,
}

impl CensusConfig {
    /// The time between two.
    pub fn every(&self) -> Duration {
        self.every.map_or(USUALLY_EVERY, |every| every.0)
    }
}

/// A copy of a token. Never the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopiedToken {
    /// The key that has signed it.
    pub kid: KeyId,
    /// Where it lies: `Secret NAMESPACE/NAME KEY`, `ConfigMap NAMESPACE/NAME KEY`, `file PATH`.
    pub place: String,
    /// When it expires, if ever, in seconds since 1970.
    pub expires: Option<u64>,
    /// The day on which kube-apiserver saw it in use last, such as `2026-11-22`, of a Secret whose label says so.
    pub last_used: Option<String>,
}

impl CopiedToken {
    /// Whether it is good still.
    pub fn is_alive(&self, now: WallTime) -> bool {
        self.expires.is_none_or(|expires| expires > now.0)
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The copies, as they were found.
    pub tokens: Vec<CopiedToken>,
    /// How many more there are by key, which are not named: taken for alive.
    pub unnamed: BTreeMap<KeyId, usize>,
}

impl Census {
    /// How many copies of tokens live still, by key.
    pub fn alive(&self, now: WallTime) -> BTreeMap<KeyId, usize> {
        let mut alive = self.unnamed.clone();
        for token in self.tokens.iter().filter(|token| token.is_alive(now)) {
            *alive.entry(token.kid.clone()).or_default() += 1;
        }
        alive
    }

    /// How long ago a token of a key was seen in use, as far as the labels of Secrets say: to a day.
    pub fn last_use(&self, now: WallTime) -> BTreeMap<KeyId, Duration> {
        let mut last_use = BTreeMap::new();
        for token in &self.tokens {
            let Some(over) = token.last_used.as_deref().and_then(end_of_day) else { continue };
            let ago = Duration::from_secs(now.0.saturating_sub(over));
            let last: &mut Duration = last_use.entry(token.kid.clone()).or_insert(ago);
            *last = ago.min(*last);
        }
        last_use
    }

    fn add(&mut self, token: CopiedToken) {
        match self.tokens.len() < MOST_NAMED {
            true => self.tokens.push(token),
            false => *self.unnamed.entry(token.kid).or_default() += 1,
        }
    }
}

/// The last second of a day in UTC, since 1970.
fn end_of_day(day: &str) -> Option<u64> {
    let day: jiff::civil::Date = day.parse().ok()?;
    let next = day.tomorrow().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    u64::try_from(next.timestamp().as_second()).ok()?.checked_sub(1)
}

/// Counts the tokens of one ring.
pub struct Counter {
    keys: BTreeMap<KeyId, VerifyingKey>,
    census: Census,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").field("census", &self.census).finish_non_exhaustive()
    }
}

impl Counter {
    /// Counts what the keys of a ring have signed that are not over.
    pub fn new(ring: &KeyRing) -> Self {
        let keys = ring.keys().iter().filter_map(|key| {
            let key = &key.public_key;
            Some((key.key_id().clone(), VerifyingKey::new(key)?))
        });
        Self { keys: keys.collect(), census: Census::default() }
    }

    /// What was found.
    pub fn over(self) -> Census {
        self.census
    }

    /// Counts the tokens in a text, which lies at `place`.
    pub fn read(&mut self, text: &str, place: &str, last_used: Option<&str>) {
        let mut found: Vec<(KeyId, Option<u64>)> =
            tokens_in(text).filter_map(|token| self.signed(token)).collect();
        // A kubeconfig may name one token twice.
        found.dedup();
        for (kid, expires) in found {
            let (place, last_used) = (place.to_owned(), last_used.map(str::to_owned));
            self.census.add(CopiedToken { kid, place, expires, last_used });
        }
    }

    /// Counts the tokens in a file, such as a kubeconfig that a network plugin wrote.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_file(&mut self, path: &Path) -> Result<(), FileError> {
        let bytes = chancery_files::read_secret(path, FILE)?.bytes;
        self.read(&String::from_utf8_lossy(&bytes), &format!("file {}", path.display()), None);
        Ok(())
    }

    /// The key of a token that one of the ring's has signed, and when it expires.
    fn signed(&self, token: &str) -> Option<(KeyId, Option<u64>)> {
        let facts = TokenFacts::read(token)?;
        let kid: KeyId = facts.kid.parse().ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self.keys.get(&kid)?.verifies(signed.as_bytes(), &signature) {
            return None;
        }
        Some((kid, facts.expires))
    }
}

/// What in a text looks like a token: three parts in base64url, the first one a JSON object.
fn tokens_in(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '-' | '_' | '.');
    let runs = text.split(move |byte| !is_part(byte)).map(|run| run.trim_matches('.'));
    runs.filter(|run| run.starts_with("eyJ") && run.len() <= LONGEST_TOKEN)
}

#[cfg(test)]
mod tests {
    use chancery_core::ring::{AdoptedKey, Custody, Request};
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;
    use crate::signing::ActiveKey;

    fn key() -> ActiveKey {
        ActiveKey::new(PrivateKey::generate(KeySpec::P256).unwrap().into_signing_key()).unwrap()
    }

    fn ring(key: &ActiveKey) -> KeyRing {
        let adopted =
            AdoptedKey { public_key: key.public_key().clone(), signs: true, custody: Custody::Held };
        KeyRing::new().request(&Request::Adopt(vec![adopted])).unwrap()
    }

    fn token(key: &ActiveKey, claims: &str) -> String {
        let claims = URL_SAFE_NO_PAD.encode(claims);
        [key.header(), &claims, &key.sign(&claims).unwrap()].join(".")
    }

    #[test]
    fn what_a_key_of_the_ring_has_signed_is_found_wherever_it_stands() {
        let (ours, others) = (key(), key());
        let mut counter = Counter::new(&ring(&ours));
        let endless = token(&ours, r#"{"iss":"kubernetes/serviceaccount"}"#);
        let dated = token(&ours, r#"{"iss":"https://id.example.com","exp":1000}"#);
        counter.read(&endless, "Secret a/b token", Some("2026-11-22"));
        counter.read(
            &format!("users:\n- user: {{ token: \"{dated}\" }}\n# {dated}."),
            "file /etc/cni/x",
            None,
        );
        let forged = [token(&others, r#"{"iss":"a"}"#).as_str(), "x"].concat();
        let planted = endless.replacen(
            endless.split('.').nth(1).unwrap(),
            &URL_SAFE_NO_PAD.encode(r#"{"iss":"b"}"#),
            1,
        );
        for no in [forged, planted, token(&others, r#"{"iss":"a"}"#), "eyJ.eyJ.x".to_owned()] {
            counter.read(&no, "ConfigMap a/c key", None);
        }
        let census = counter.over();
        let places: Vec<_> =
            census.tokens.iter().map(|token| (token.place.as_str(), token.expires)).collect();
        assert_eq!(places, [("Secret a/b token", None), ("file /etc/cni/x", Some(1000))]);
        assert!(!format!("{census:?}").contains("eyJ"));

        let kid = ours.public_key().key_id();
        assert_eq!(census.alive(WallTime(999)).get(kid), Some(&2));
        assert_eq!(census.alive(WallTime(1000)).get(kid), Some(&1));
        let noon = 1_795_348_800;
        assert_eq!(census.last_use(WallTime(noon)).get(kid), Some(&Duration::ZERO));
        let later = census.last_use(WallTime(noon + 86_400)).get(kid).copied();
        assert_eq!(later, Some(Duration::from_secs(43_201)));
    }

    #[test]
    fn beyond_a_number_copies_are_counted_and_not_named() {
        let ours = key();
        let kid = ours.public_key().key_id().clone();
        let mut census = Census::default();
        for number in 0..MOST_NAMED + 3 {
            let place = format!("Secret a/{number} token");
            census.add(CopiedToken { kid: kid.clone(), place, expires: None, last_used: None });
        }
        assert_eq!(
            (census.tokens.len(), census.alive(WallTime(0)).get(&kid)),
            (MOST_NAMED, Some(&(MOST_NAMED + 3)))
        );
    }
}
