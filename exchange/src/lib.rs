//! The workload's end of the wire: a subject token of the platform becomes a credential of AWS, Azure, Google Cloud, a
//! registry, or any server that speaks RFC 8693 or RFC 7523.
//!
//! ```text
//! source ──UnverifiedToken──▶ preflight ──▶ provider: pure request → one call → pure parser ──▶ registry ──▶ Credential
//!                                                                                                             │
//!                              output: credential_process, ExecCredential, docker, env, JSON, file ◀── cache ─┘
//! ```
//!
//! No SDK of a cloud is linked. Every request goes through [`transport`], and a token through nothing but the body or
//! `Authorization` of a request to an endpoint that was matched label by label.
//!
//! | room | what is in it |
//! |---|---|
//! | [`token`] | [`UnverifiedToken`]: what a subject token says of itself |
//! | [`preflight`] | a token held against what the other side expects, the differences in words |
//! | [`subject`] | where subject tokens come from: a file, a ServiceAccount, a pipeline, a variable, SPIFFE (feature `spiffe`) |
//! | [`service_account`] | ServiceAccounts and TokenRequest as values |
//! | `cluster` | the same over a client of Kubernetes (feature `kube`) |
//! | [`provider`] | AWS STS, Entra, Google STS, RFC 8693, RFC 7523, nobody at all |
//! | [`registry`] | logins of ECR, ECR Public, ACR and Artifact Registry |
//! | [`oauth`] | what token endpoints answer |
//! | [`credential`] | what comes of it |
//! | [`error`](mod@error) | what failed, sorted by what can be done |
//! | [`key`] | the name of a credential in the cache |
//! | [`cache`] | one exchange at a time for each key, renewed before it ends |
//! | [`metrics`] | how often whom it gave what |
//! | [`disk`] | the same in files, for commands that begin anew each time |
//! | [`chain`] | all of it in order, with what is tried again |
//! | [`tenancy`] | Flux's RFC-0010: a ServiceAccount's annotations into an identity |
//! | [`eks`], [`git`] | tokens of EKS's clusters, logins of Azure DevOps and CodeCommit |
//! | [`output`] | credentials in the forms that tools read |
//! | `agent` | the same over HTTP, as clouds' SDKs fetch it (feature `agent`) |
//! | `bridge` | the same for the clouds' SDKs for Rust (features `aws-sdk`, `azure-sdk`, `google-sdk`) |
//! | [`argocd`] | the same for Argo CD's repositories |
//! | [`kubelet`] | the same as an image credential provider of kubelet |
//! | [`explain`](mod@explain) | a chain step by step, and the trust that would make it pass |
//! | [`transport`] | the one way out |
//! | [`limits`] | every limit |

#[cfg(feature = "agent")]
pub mod agent;
pub mod argocd;
#[cfg(any(feature = "aws-sdk", feature = "azure-sdk", feature = "google-sdk"))]
pub mod bridge;
pub mod cache;
pub mod chain;
#[cfg(feature = "kube")]
pub mod cluster;
pub mod credential;
pub mod disk;
pub mod eks;
pub mod error;
pub mod explain;
pub mod git;
pub mod key;
pub mod kubelet;
pub mod limits;
pub mod metrics;
pub mod oauth;
pub mod output;
pub mod preflight;
pub mod provider;
pub mod registry;
pub mod service_account;
pub mod subject;
pub mod tenancy;
pub mod token;
pub mod transport;

pub use chain::{Chain, Runner};
pub use credential::{Credential, CredentialKind};
pub use error::{Class, ExchangeError, Stage};
pub use provider::Provider;
pub use subject::SubjectTokenSource;
pub use token::UnverifiedToken;
