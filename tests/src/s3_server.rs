//! The S3 servers of the suites, each written independently of the others.

use std::ops::Deref;

use anyhow::Result;

use crate::minio::Minio;
use crate::versitygw::Versitygw;

mod server;

pub(crate) use server::{ROOT_PASSWORD, ROOT_USER};
pub use server::{S3Server, credentials_file};

/// The S3 servers that a suite runs against, each written independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    /// [`Minio`]
    Minio,
    /// [`Versitygw`]
    Versitygw,
}

impl Brand {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Minio, Self::Versitygw];

    /// What [`crate::binary`] calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minio => "minio",
            Self::Versitygw => "versitygw",
        }
    }

    /// Starts a plain one.
    pub async fn start(self) -> Result<Running> {
        Ok(match self {
            Self::Minio => Running::Minio(Minio::start().await?),
            Self::Versitygw => Running::Versitygw(Versitygw::start().await?),
        })
    }
}

/// A running server of one [`Brand`].
#[derive(Debug)]
pub enum Running {
    /// A MinIO.
    Minio(Minio),
    /// A versitygw.
    Versitygw(Versitygw),
}

impl Deref for Running {
    type Target = S3Server;

    fn deref(&self) -> &S3Server {
        match self {
            Self::Minio(minio) => minio,
            Self::Versitygw(versitygw) => versitygw,
        }
    }
}
