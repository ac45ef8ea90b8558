//! How long and how large: every request of registrations, doctors and sinks. Targets and sinks that configuration
//! names have a limit of their own in it.

use std::time::Duration;

/// One call of an API of AWS.
#[cfg(feature = "s3")]
pub(crate) const AWS_CALL: Duration = Duration::from_secs(20);
/// Everything that the chain of AWS's credentials asks on its way.
#[cfg(feature = "s3")]
pub(crate) const AWS_CREDENTIALS: Duration = Duration::from_secs(60);
/// One call of Azure Resource Manager or Microsoft Graph, which take seconds at times.
#[cfg(feature = "azure")]
pub(crate) const AZURE_CALL: Duration = Duration::from_secs(30);
/// A token of Entra, with everything that is asked on the way to it; `az` may take seconds to start.
#[cfg(feature = "azure")]
pub(crate) const AZURE_TOKEN: Duration = Duration::from_secs(60);
/// One call of an API of Google's.
#[cfg(feature = "gcp")]
pub(crate) const GOOGLE_CALL: Duration = Duration::from_secs(30);
/// A long-running operation of Google's, which takes seconds.
#[cfg(feature = "gcp")]
pub(crate) const GOOGLE_OPERATION: Duration = Duration::from_secs(60);
/// One document, read as anybody would.
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
pub(crate) const ANONYMOUS_READ: Duration = Duration::from_secs(10);
/// One request to a Kubernetes API server, which answers in milliseconds.
#[cfg(feature = "kube")]
pub(crate) const CONFIG_MAP: Duration = Duration::from_secs(10);

/// The largest answer of an API, in bytes: lists of a hundred entries have some ten kilobytes.
#[cfg(any(feature = "s3", feature = "azure"))]
pub(crate) const API_ANSWER: usize = 1 << 20;
/// How much of an answer's text is told.
#[cfg_attr(
    not(any(feature = "s3", feature = "azure", feature = "gcp")),
    allow(dead_code, reason = "no cloud is built in")
)]
pub(crate) const EXCERPT: usize = 400;

/// The largest token in a file, in bytes: no header carries more.
pub(crate) const TOKEN_FILE: usize = 64 << 10;
/// The largest file of a sink's certificate authorities, in bytes: the roots of a whole machine have 250 kB.
pub(crate) const CA_FILE: usize = 1 << 20;
/// How long one of these files may take to be read.
pub(crate) const FILE_READ: Duration = Duration::from_secs(5);
