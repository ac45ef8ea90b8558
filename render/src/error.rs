//! Why something cannot be rendered, with the remedy.

use crate::version::Version;

/// Why something cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The version is older than everything that is known.
    #[error("{distribution} {version} is too old: nothing before {oldest} can be told its issuer; {remedy}")]
    TooOld {
        /// Of whom.
        distribution: &'static str,
        /// What came.
        version: Version,
        /// The oldest one that is known.
        oldest: Version,
        /// What to do.
        remedy: &'static str,
    },
    /// It takes one issuer, and a change needs two.
    #[error("{distribution} {version} cannot accept a second issuer: {why}; {remedy}")]
    OneIssuer {
        /// Who.
        distribution: &'static str,
        /// Its version, or "here".
        version: String,
        /// Why.
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// It makes two phases one.
    #[error("{distribution} has no phase `accept` of its own: {why}; {remedy}")]
    NoAccept {
        /// Who.
        distribution: &'static str,
        /// Why.
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Its keys cannot be changed, or not by files.
    #[error("{distribution} {version} cannot change its signing key this way: {why}; {remedy}")]
    OneKey {
        /// Who.
        distribution: &'static str,
        /// Its version, or "here".
        version: String,
        /// Why.
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// It takes RSA alone.
    #[error(
        "key {key_id} is {kind}, and {distribution} takes RSA keys alone; make one with `chancery keygen new --algorithm rsa-2048`"
    )]
    RsaOnly {
        /// Who refuses.
        distribution: &'static str,
        /// The key.
        key_id: String,
        /// Its kind.
        kind: String,
    },
    /// An issuer is given twice.
    #[error("{0} is given twice, and kube-apiserver does not start with an issuer twice; give each once")]
    Twice(String),
    /// An issuer or an audience that cannot stand in every file.
    #[error(
        "{0:?} cannot be written into a flag; expected what --service-account-issuer has, printable ASCII without spaces, commas, quotes and backslashes"
    )]
    NotAFlag(String),
    /// A change without the issuer that is changed.
    #[error("a phase changes an issuer, and none is given; say the one that the cluster has with --from")]
    NoFrom,
    /// An issuer that is no URL, where the distribution takes URLs alone.
    #[error(
        "{distribution} takes URLs alone as issuers, and {issuer:?} is none; render for 1.13, whose form takes it and is still read"
    )]
    NotAUrl {
        /// Who refuses.
        distribution: &'static str,
        /// The issuer.
        issuer: String,
    },
}
