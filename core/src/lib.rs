//! The pure floor of Chancery: what an issuer is, what it publishes, and what must be written to get there.
//!
//! Nothing here reads a clock, a file, the network or a random number, and no private key exists here.
//! Decisions are functions from values to values; the crates above carry them out.
//!
//! | room | what is in it |
//! |---|---|
//! | [`host_scope`] | from where an address or a name can be reached |
//! | [`issuer_url`] | [`IssuerUrl`], kept byte for byte since it must equal `iss` |
//! | [`key`] | [`PublicKey`], [`Algorithm`], [`KeyId`] |
//! | [`key_bundle`] | [`KeyBundle`](key_bundle::KeyBundle): keys from a machine without a network, in the order in which they are to sign |
//! | [`pem`] | PEM blocks, found as Go finds them |
//! | [`key_file`] | public keys out of PEM files, read as kube-apiserver reads them |
//! | [`jwks`] | [`Jwks`], rendered as kube-apiserver renders it, and the tolerant reader of other people's sets |
//! | [`discovery`] | [`Discovery`], the five fields kube-apiserver serves |
//! | [`document`] | every object we may write, with its path, media type and cache policy |
//! | [`quoted`] | what somebody else wrote, fit for a terminal or a log |
//! | [`profile`] | what each relying party accepts, as one table with sources |
//! | [`lint`] | an issuer URL and a key set held against those profiles |
//! | [`retention`] | what several observing sources show, and how long a vanished key stays |
//! | [`withdrawal`] | which keys are withdrawn, for which cause, by which decision |
//! | [`issuer_keys`] | every key of an issuer, and what of them is to be published |
//! | [`marker`] | whose an object is, how new, and who says so, as its metadata says it |
//! | [`writer_key`] | the key by which an issuer's writers know each other's work |
//! | [`provenance`] | what to make of an object's marker |
//! | [`publication`] | the difference between what a target holds and what it should, as conditional writes in safe order |
//! | [`visibility`] | which key is seen from outside, where, and for how long without a gap |
//! | [`ring`] | [`KeyRing`]: the keys of an issuer, what each is for, and what must be remembered to change that |
//! | [`rotation`] | what is to be done with a ring now, and which guard is in the way |
//! | [`rollout`] | what a node does next whose kube-apiserver reads key files at its start |
//! | [`token`] | what a token says of itself that may be shown |
//! | [`drift`] | what changed on a target although we did not write it |
//! | [`upload`] | the same for a relying party that is given the keys themselves |
//! | [`migration`] | what is to be done to change the issuer of a cluster, and what is out of order |
//! | [`trust`] | the calls that make a cloud trust an issuer |

pub mod discovery;
pub mod document;
pub mod drift;
pub mod host_scope;
pub mod issuer_keys;
pub mod issuer_url;
pub mod jwks;
pub mod key;
pub mod key_bundle;
pub mod key_file;
pub mod lint;
pub mod marker;
pub mod migration;
pub mod pem;
pub mod profile;
pub mod provenance;
pub mod publication;
pub mod quoted;
pub mod retention;
pub mod ring;
pub mod rollout;
pub mod rotation;
pub mod token;
pub mod trust;
pub mod upload;
pub mod visibility;
pub mod withdrawal;

mod in_words;
mod json;
mod listed;

pub use discovery::Discovery;
pub use document::{CachePolicy, Document, DocumentKind, DocumentSet};
pub use in_words::in_words;
pub use issuer_url::IssuerUrl;
pub use jwks::Jwks;
pub use key::{Algorithm, KeyId, PublicKey};
pub use listed::listed;
pub use marker::writer_key::{self, WriterKey};
pub use marker::{Marker, Owner};
pub use ring::KeyRing;
pub use withdrawal::{WithdrawalCause, Withdrawals};
