//! How each distribution of Kubernetes is told of its issuer, when the cluster is made and in each phase of a change:
//! files, steps, what to check before the next phase, and the kube-apiserver flags that come of it. Everything is a
//! value; nothing is read or written here, and no private key comes near.
//!
//! | room | what is in it |
//! |---|---|
//! | [`distribution`] | the table: one file for each distribution, with its versions, what it cannot do and why |
//! | [`request`] | what is asked for: issuers, keys, phase |
//! | [`state`] | what that means for kube-apiserver: issuers in order, keys in order, flags |
//! | [`output`] | what is answered |
//! | [`guide`] | what is to be checked, and what is known to break: the same everywhere |
//! | [`readme`] | an answer as Markdown |

pub mod distribution;
pub mod error;
pub mod guide;
pub mod name;
pub mod output;
pub mod readme;
pub mod request;
pub mod row;
pub mod state;
pub mod version;

mod patch;
mod yaml;

#[cfg(test)]
mod tests;

pub use distribution::Distribution;
pub use error::RenderError;
pub use name::{KubernetesName, KubernetesNameError};
pub use output::{Flag, Rendered, RenderedFile, Step};
pub use request::{Keys, Phase, Place, Request, Stage};
pub use version::Version;
