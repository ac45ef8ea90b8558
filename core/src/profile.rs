//! Relying parties, and what each one accepts, as data.
//!
//! The columns are the fields of [`Profile`], the rows are in the one table behind [`RelyingParty::profile`], each
//! with its sources. [`crate::lint`] holds issuers and keys against the rows; [`pre_publication_wait`] and
//! [`after_withdrawal`] read from them how long a new key must wait, and how long an old one is still accepted.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Algorithm;

mod cache;
mod libraries;
mod party;
mod table;

pub use cache::{
    AlgorithmsFixed, CacheRules, IgnoredClaim, Lifetime, StillAccepting, UnknownKid, Until, Wait,
    after_withdrawal, pre_publication_wait,
};
pub use party::{RelyingParty, RelyingPartyError, list};

impl RelyingParty {
    /// What it accepts.
    pub const fn profile(self) -> &'static Profile {
        table::row(self)
    }
}

/// What one relying party accepts: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whose row this is.
    pub party: RelyingParty,
    /// How a person calls it: `AWS IAM and STS`.
    pub title: &'static str,
    /// What it accepts as an issuer URL.
    pub issuer: IssuerRules,
    /// Which algorithms it verifies.
    pub algorithms: AlgorithmRules,
    /// What it accepts as a key set.
    pub keys: KeyRules,
    /// How it gets the documents.
    pub fetch: FetchRules,
    /// How long it keeps them, and what makes it read them again.
    pub cache: CacheRules,
    /// Claims of a token that it does not look at. What it ignores, its own policy must not rest on.
    pub ignored_claims: &'static [IgnoredClaim],
}

/// Whether a relying party takes something, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acceptance {
    /// It does, by documentation, source or test.
    Accepts,
    /// Nothing promises it, or it takes it under a condition; reports of failures exist.
    Doubtful,
    /// It does not, or its documentation or the standard says not to.
    Refuses,
}

/// What a relying party accepts as an issuer URL, beyond what every one demands (an `https` URL without user
/// information, query and fragment: [`crate::IssuerUrl`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRules {
    /// A port, even the default one.
    pub port: Acceptance,
    /// An IP address as host.
    pub ip_host: Acceptance,
    /// Upper-case letters in the host, which some parties lower before they compare.
    pub upper_case_host: Acceptance,
    /// A slash at the end, which some parties cut off before they compare.
    pub trailing_slash: Acceptance,
    /// The longest URL in characters, if there is a limit.
    pub max_length: Option<usize>,
}

/// Which algorithms a relying party verifies, of those kube-apiserver signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmRules {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    pub rs256: Acceptance,
    /// ECDSA on P-256.
    pub es256: Acceptance,
    /// ECDSA on P-384.
    pub es384: Acceptance,
    /// ECDSA on P-521.
    pub es512: Acceptance,
}

impl AlgorithmRules {
    /// The column of one algorithm.
    pub const fn of(&self, algorithm: Algorithm) -> Acceptance {
        match algorithm {
            Algorithm::Rs256 => self.rs256,
            Algorithm::Es256 => self.es256,
            Algorithm::Es384 => self.es384,
            Algorithm::Es512 => self.es512,
        }
    }
}

/// What a relying party accepts as a key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// Bits of an RSA modulus for which it is known to work.
    pub rsa_bits: RangeInclusive<usize>,
    /// The most keys of each kind and together.
    pub budget: KeyBudget,
    /// The key types (`kty`) it can parse.
    pub key_types: &'static [&'static str],
    /// What a key that it cannot parse does to the others.
    pub unknown_key: UnknownKey,
    /// Algorithms of which one key in the set makes it refuse all of them.
    pub fatal_algorithms: &'static [Algorithm],
    /// The only members that a JWK may have, if there is such a list.
    pub only_members: Option<&'static [&'static str]>,
    /// Members that make it refuse a key.
    pub refused_members: &'static [&'static str],
    /// Members that it checks, so that a wrong value makes it refuse a key, or on which it promises nothing.
    pub checked_members: &'static [&'static str],
    /// A key without `kid`, or with an empty one. Kubernetes' tokens always name their key.
    pub without_kid: Acceptance,
    /// Two keys with one `kid`.
    pub repeated_kid: Acceptance,
    /// A `use` other than `sig`.
    pub other_use: Acceptance,
    /// An `alg` other than the one that kube-apiserver signs with using that key.
    pub other_algorithm: Acceptance,
}

/// The most keys that a relying party takes from one set; `None` where no limit is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBudget {
    /// RSA keys.
    pub rsa: Option<usize>,
    /// EC keys.
    pub ec: Option<usize>,
    /// Keys of all kinds.
    pub total: Option<usize>,
    /// What it does with more.
    pub beyond: Acceptance,
}

/// What a key that a relying party cannot parse does to the rest of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKey {
    /// It is passed over, as RFC 7517 section 5 recommends.
    Ignored,
    /// Nobody has written down what happens.
    Undocumented,
    /// The whole set is refused, and with it every token.
    RejectsSet,
}

/// How a relying party gets the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRules {
    /// From where it must be able to read them.
    pub reach: Reach,
    /// Time for the discovery document and the JWKS together, if a limit is known.
    pub budget: Option<Duration>,
    /// Members of the discovery document that it demands although Kubernetes' documents do not have them.
    pub demanded_members: &'static [&'static str],
}

/// From where a relying party reads an issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From wherever it runs, be that next to the issuer.
    Network,
    /// From the internet, unless the keys are uploaded to it.
    InternetOrUpload,
    /// From the internet.
    Internet,
}

#[cfg(test)]
mod tests;
