//! The private service: signs ServiceAccount tokens for kube-apiserver, over a unix socket, by Kubernetes' external JWT
//! signer (KEP-740, <https://github.com/kubernetes/enhancements/tree/master/keps/sig-auth/740-service-account-external-signing>).
//!
//! It holds private keys and no write credential of a cloud, and answers to nobody outside of its machine.
//!
//! | room | what is in it |
//! |---|---|
//! | [`config`] | what a signer is told |
//! | [`signer`] | one signer, opened and run |
//! | [`messages`] | the messages of KEP-740 |
//! | [`grpc`] | its calls, of both packages, on one connection |
//! | [`serve`] | connections of kube-apiserver |
//! | [`service`] | what the calls are answered |
//! | [`claims`] | what may be signed: pure |
//! | [`signing`] | the key that signs, and the second look at what it signed |
//! | [`admission`] | how many signatures are waited for |
//! | [`signer_keys`] | the keys of the moment, swapped whole |
//! | [`key_files`] | keys in plain files |
//! | [`ring_source`], [`ring_choice`] | keys of a ring, and which of two rings to sign by: the latter pure |
//! | `cluster_api` | a control plane of Cluster API, whose machines are made from a Secret, as a signer of a ring (feature `kube`) |
//! | `key_file_node` | a node whose kube-apiserver reads key files at its start, as a signer of a ring (feature `kube`) |
//! | `ring_follower` | what the two have in common (feature `kube`) |
//! | [`rotation`] | carries out what is planned for a ring |
//! | [`acknowledgement`] | what this signer says of itself to whoever rotates |
//! | [`vault`] | custody of private halves |
//! | [`private_memory`] | what keeps private keys within this process |
//! | [`record`] | the longest lifetimes that were signed, and the newest ring |
//! | [`admin`], [`metrics`] | the operators' port, and what it shows |

pub mod acknowledgement;
pub mod admin;
pub mod admission;
pub mod claims;
#[cfg(feature = "kube")]
pub mod cluster_api;
pub mod config;
pub mod grpc;
#[cfg(feature = "kube")]
pub mod key_file_node;
pub mod key_files;
pub mod messages;
pub mod metrics;
pub mod private_memory;
pub mod record;
pub mod ring_choice;
pub mod ring_source;
pub mod rotation;
pub mod serve;
pub mod service;
pub mod signer;
pub mod signer_keys;
pub mod signing;
pub mod vault;

mod log_pace;
#[cfg(feature = "kube")]
mod ring_follower;
mod source;

pub use config::{KeySource, RingConfig, RingPlace, SignerConfig, VaultPlace};
pub use key_files::KeyFilesConfig;
pub use rotation::{RotationConfig, RotationController};
pub use signer::{Signer, SignerError, check};
