//! Relying parties, and what each one accepts, as data.
//!
//! The columns are the fields of [`Profile`], the rows are in the one table behind [`RelyingParty::profile`], each
//! with its sources. Nothing here decides: [`crate::lint`] holds issuers and keys against the rows.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Algorithm;

mod table;

/// A kind of relying party: whoever verifies our tokens with the keys we publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum RelyingParty {
    /// Another kube-apiserver, by structured authentication (KEP-3331) or the `--oidc-*` flags.
    Kubernetes,
    /// AWS: an IAM OIDC provider and STS `AssumeRoleWithWebIdentity`.
    Aws,
    /// Azure: an Entra federated identity credential.
    Azure,
    /// Google Cloud: a workload identity pool provider.
    Gcp,
    /// HashiCorp Vault or OpenBao, JWT auth method.
    Vault,
    /// MinIO STS `AssumeRoleWithWebIdentity`.
    Minio,
    /// The common denominator: what every relying party we know takes, including those we have no profile of.
    Common,
}

impl RelyingParty {
    /// All relying parties, in the order in which they are printed.
    pub const ALL: [Self; 7] =
        [Self::Kubernetes, Self::Aws, Self::Azure, Self::Gcp, Self::Vault, Self::Minio, Self::Common];

    /// The lower-case name, as it is given on the command line and in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::Vault => "vault",
            Self::Minio => "minio",
            Self::Common => "common",
        }
    }

    /// What it accepts.
    pub const fn profile(self) -> &'static Profile {
        table::row(self)
    }
}

impl fmt::Display for RelyingParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RelyingParty {
    type Err = RelyingPartyError;

    /// Reads a name as [`RelyingParty::as_str`] writes it; `openbao` is another name of `vault`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|party| party.as_str() == text);
        known
            .or_else(|| (text == "openbao").then_some(Self::Vault))
            .ok_or_else(|| RelyingPartyError(text.to_owned()))
    }
}

impl TryFrom<String> for RelyingParty {
    type Error = RelyingPartyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RelyingParty> for &'static str {
    fn from(party: RelyingParty) -> Self {
        party.as_str()
    }
}

/// A name that is none of [`RelyingParty::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "relying party {0:?} is not known; expected one of kubernetes, aws, azure, gcp, vault (or openbao), minio, common"
)]
pub struct RelyingPartyError(String);

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
