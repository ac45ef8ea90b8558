//! The writer key as a file: how a pipeline and a service come to the same one.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::publication::first_decision;
use chancery_core::writer_key::{WriterKey, WriterKeyError};
use chancery_files::{Bounds, FileError, read_secret};
use rustls::crypto::aws_lc_rs::default_provider;

/// A key has 43 characters; the file may end in a newline or two.
const BOUNDS: Bounds = Bounds::regular(64, Duration::from_secs(10));

/// A key of 256 random bits.
pub fn random_writer_key() -> WriterKey {
    let mut bits = [0; 32];
    #[expect(clippy::expect_used, reason = "a system without random numbers serves no TLS either")]
    default_provider().secure_random.fill(&mut bits).expect("random numbers");
    WriterKey::new(bits)
}

/// Reads a writer key from a file.
///
/// # Errors
/// When the file cannot be read, or holds something else.
pub fn read_writer_key(path: &Path) -> Result<WriterKey, WriterKeyFileError> {
    let file = read_secret(path, BOUNDS)?;
    let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
    text.parse().map_err(|problem| WriterKeyFileError::Content { path: path.to_owned(), problem })
}

/// The number of the first decision of a writer that begins now.
pub fn first_decision_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    first_decision(since.map_or(0, |since| since.as_secs()))
}

/// Why a file gives no writer key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriterKeyFileError {
    /// The file cannot be read or made.
    #[error("the writer key: {0}")]
    File(#[from] FileError),
    /// It holds something else.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without repeating what it holds.
        problem: WriterKeyError,
    },
}
