//! The pure floor of Chancery: what an issuer is, what it publishes, and what must be written to get there.
//!
//! Nothing here reads a clock, a file, the network or a random number, and no private key exists here.
//! Decisions are functions from values to values; the crates above carry them out.
//!
//! | room | what is in it |
//! |---|---|
//! | [`issuer_url`] | [`IssuerUrl`], kept byte for byte since it must equal `iss` |
//! | [`key`] | [`PublicKey`], [`Algorithm`], [`KeyId`] |
//! | [`pem`] | public keys out of PEM files, read as kube-apiserver reads them |
//! | [`jwks`] | [`Jwks`], rendered as kube-apiserver renders it, and the tolerant reader of other people's sets |
//! | [`discovery`] | [`Discovery`], the five fields kube-apiserver serves |
//! | [`document`] | every object we may write, with its path, media type and cache policy |
//! | [`profile`] | what each relying party accepts, as one table with sources |
//! | [`lint`] | an issuer URL and a key set held against those profiles |
//! | [`residence`] | the union of what several key sources show, and how long a vanished key stays |
//! | [`marker`] | whose an object is and how new, as its metadata says it |
//! | [`publication`] | the difference between what a target holds and what it should, as conditional writes in safe order |
//! | [`visibility`] | which key is seen from outside, where, and for how long without a gap |
//! | [`drift`] | what changed on a target although we did not write it |
//! | [`upload`] | the same for a relying party that is given the keys themselves |
//! | [`trust`] | the calls that make a cloud trust an issuer |

pub mod discovery;
pub mod document;
pub mod drift;
pub mod issuer_url;
pub mod jwks;
pub mod key;
pub mod lint;
pub mod marker;
pub mod pem;
pub mod profile;
pub mod publication;
pub mod residence;
pub mod trust;
pub mod upload;
pub mod visibility;

mod json;

pub use discovery::Discovery;
pub use document::{CachePolicy, Document, DocumentKind, DocumentSet};
pub use issuer_url::IssuerUrl;
pub use jwks::Jwks;
pub use key::{Algorithm, KeyId, PublicKey};
pub use marker::{Marker, Owner};
