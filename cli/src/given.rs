//! Files that a person names on the command line.

use std::path::Path;
use std::time::Duration;

use chancery_files::{Bounds, FileError, Kinds, read_secret};
use zeroize::Zeroizing;

/// Larger than every key file and JWKS that makes sense, and nothing to a machine. A pipe is read as well, as a
/// shell's `<(command)` gives one; its command may take a while.
const BOUNDS: Bounds = Bounds { bytes: 16 << 20, time: Duration::from_secs(60), kinds: Kinds::RegularOrPipe };

/// The content of a key file, a JWKS or a certificate. It is wiped on drop, since somebody may give a private key by
/// mistake.
///
/// # Errors
/// Names the path and what is wrong with it.
pub fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    read_secret(path, BOUNDS).map(|file| file.bytes)
}
