//! Folders that a web server can look into.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use chancery_files::FileError;

use super::refusal::refused;
use crate::store::Failure;

/// Web servers run as another user.
const MODE: u32 = 0o755;

/// Makes `directory` and every missing one above it. What is there keeps its mode.
pub(super) fn make(directory: &Path) -> Result<(), Failure> {
    make_missing(directory).map_err(|error| refused(&FileError::io("make", directory, error)))
}

fn make_missing(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|ancestor| !ancestor.is_dir()).collect();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => {}
            // Another writer was faster; if it is a file, the next step says so.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        fs::set_permissions(directory, Permissions::from_mode(MODE))?;
        directory.parent().map_or(Ok(()), sync)?;
    }
    Ok(())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
