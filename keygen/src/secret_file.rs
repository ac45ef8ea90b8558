//! Reading what may hold a private key.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use chancery_files::{Bounds, FileError, Kinds, SecretFile, read_secret};

/// What is read as a key or passphrase file. A cluster's whole history of keys takes a hundredth of the size; a
/// password manager at the other end of a pipe may ask a person first.
const BOUNDS: Bounds = Bounds { bytes: 1 << 20, time: Duration::from_secs(300), kinds: Kinds::RegularOrPipe };

/// Reads a key or passphrase file of at most 1 MiB; `-` is standard input, which is waited for without limit.
///
/// # Errors
/// Says which file, what failed and what to do.
pub fn read(path: &Path) -> Result<SecretFile, FileError> {
    if path != Path::new("-") {
        return read_secret(path, BOUNDS);
    }
    let failed = |source| FileError::io("read", path, source);
    // Past the buffer of the standard library, which is not wiped.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let bytes = chancery_files::read_all(&mut input, 0, BOUNDS.bytes).map_err(failed)?;
    let too_large = || FileError::TooLarge { path: path.to_owned(), limit: BOUNDS.bytes };
    Ok(SecretFile { bytes: bytes.ok_or_else(too_large)?, readable_by_others: false })
}
