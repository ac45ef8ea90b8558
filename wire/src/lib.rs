//! The wire: how a request of ours leaves this process, and what is believed of the answer.
//!
//! One HTTP client whose every request has a limit of time and size, one retry, one look-up of names, and one type for
//! the places that may be given a secret. No SDK of a cloud is linked here: their credential chains live above.
//!
//! | module | what is in it |
//! |---|---|
//! | [`client`] | [`HttpClient`]: requests to an [`Endpoint`] with secrets, anonymous reads of any URL |
//! | [`endpoint`] | [`Endpoint`] and the [`EndpointRule`] by which a URL may be given a secret |
//! | [`host_pattern`] | [`HostPattern`]: host names matched label by label |
//! | [`client::certificates`] | whose certificates are believed |
//! | [`resolve`] | names to addresses, in bounded time |
//! | [`transport`] | [`TransportError`]: why no answer came, told apart so that the remedy can be named |
//! | [`retry`] | [`RetryBudget`]: how often and how long a call is made again; `Retry-After` |
//! | [`secret`] | [`Secret`]: text that is wiped from memory and never printed |
//! | [`form`] | bodies as HTML forms send them |
//! | [`error_chain`] | what lies behind an error, as one line that is safe to print |
//! | [`limits`] | every limit of this crate |
//! | `sigv4` | requests signed as AWS wants them (feature `aws`) |
//! | `xml` | AWS's answers (feature `aws`) |

pub mod client;
pub mod endpoint;
pub mod error_chain;
pub mod form;
pub mod host_pattern;
pub mod limits;
pub mod resolve;
pub mod retry;
pub mod secret;
#[cfg(feature = "aws")]
pub mod sigv4;
pub mod transport;
#[cfg(feature = "aws")]
pub mod xml;

pub use client::certificates::CertificateTrust;
pub use client::{ClientError, ClientOptions, HttpClient, HttpRequest, HttpResponse, Proxies};
pub use endpoint::{Endpoint, EndpointError, EndpointRule};
pub use host_pattern::HostPattern;
pub use resolve::GivenAddresses;
pub use retry::{CallError, Pauses, RetryBudget};
pub use secret::Secret;
pub use transport::{CertificateFault, TransportError};
