//! Pod admission: a pod that asks for credentials of AWS, Azure or Google Cloud gets the projected token and the settings
//! that each cloud's SDK expects, of several clouds side by side.
//!
//! | room | what is in it |
//! |---|---|
//! | [`pod`] | a pod as it came, read where it lies |
//! | [`asked`] | what a pod and its ServiceAccount say, and by whom it counts |
//! | [`aws`], [`azure`], [`gcp`] | annotations into what a cloud asks of a pod |
//! | [`cloud`] | what that is, in the same words for all |
//! | [`plan`] | what is added to which container, and why |
//! | [`patch`] | the plan as a JSON patch that only adds |
//! | [`misspelt`] | keys that look like one of ours |
//! | [`decision`] | all of it together |
//! | [`explain`] | a decision in words |
//!
//! So far everything is a function of values. What talks:
//!
//! | room | what is in it |
//! |---|---|
//! | [`admission`] | the words of admission v1 |
//! | [`accounts`] | ServiceAccounts, kept by a watch |
//! | [`server`] | answers kube-apiserver, and operators |
//! | [`registration`] | what tells kube-apiserver to ask us |
//! | [`authority`], [`own_certificate`] | certificates that the webhook makes itself, and where it keeps them |
//! | [`registered`] | whether kube-apiserver would believe the certificate that we show |
//! | [`audit`] | running pods that were let in without what they ask for |
//! | [`config`], [`metrics`] | what is configured and counted |

pub mod accounts;
pub mod admission;
pub mod asked;
pub mod audit;
pub mod authority;
pub mod aws;
pub mod azure;
pub mod cloud;
pub mod config;
pub mod decision;
pub mod explain;
pub mod gcp;
pub mod metrics;
pub mod misspelt;
pub mod own_certificate;
pub mod patch;
pub mod plan;
pub mod pod;
pub mod registered;
pub mod registration;
pub mod server;
pub mod settings;

pub use config::Config;
pub use decision::{Decision, Undecided, decide};
pub use pod::Pod;
pub use server::Webhook;
pub use settings::{Account, Settings};
