//! Custody of private signing keys: make, import, read, write, seal and export them. Offline; no clock, no network.
//!
//! | room | what is in it |
//! |---|---|
//! | [`key_error`] | what can fail with a key that is in our hands |
//! | [`key_spec`] | [`KeySpec`], the kinds of key that can be made |
//! | [`private_key`] | [`PrivateKey`], the only type of the project that holds private material |
//! | [`signing_key`], [`verifying_key`] | [`SigningKey`], which signs bytes, and [`VerifyingKey`], which verifies them |
//! | [`pem_file`] | [`PemFile`], every block of a file named, readable or not |
//! | [`unusable`] | why a block gives no key, with the remedy |
//! | [`kube_apiserver`] | what kube-apiserver makes of the same block |
//! | [`passphrase`], [`seal`] | PBES2 PKCS#8, which OpenSSL opens |
//! | [`key_pair`] | the two files of a key, written and read back |
//! | [`secret_file`] | reading what may hold a private key |
//! | [`bundle`] | several keys for later, vouched for by a bundle key |
//! | [`export`] | the files that a distribution takes, as pure functions |
//!
//! Data flows one way: bytes -> [`PemFile`] -> [`Key`] -> rendered files -> [`chancery_files::place`].

pub mod bundle;
pub mod export;
pub mod key_error;
pub mod key_pair;
pub mod key_spec;
pub mod kube_apiserver;
pub mod passphrase;
pub mod pem_file;
pub mod private_key;
pub mod seal;
pub mod secret_file;
pub mod signing_key;
pub mod unusable;
pub mod verifying_key;

mod algorithm_name;
mod library_key;

pub use key_error::KeyError;
pub use key_spec::KeySpec;
pub use passphrase::Passphrase;
pub use pem_file::{Key, PemFile};
pub use private_key::PrivateKey;
pub use signing_key::SigningKey;
pub use unusable::Unusable;
pub use verifying_key::VerifyingKey;
