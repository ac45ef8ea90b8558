//! Files that are replaced whole, and survive a loss of power once they are.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Web servers run as another user.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Puts `bytes` at `path`, whose directory exists. Readers see the old content or the new one.
///
/// The caller holds the lock of the directory: the temporary file's name is the same each time, so that a crash
/// leaves one behind and not many.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let temporary = folder.join(format!(".{}.chancery-new", name.display()));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` follows no link that somebody may have put there.
    let mut file = File::options().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
    file.write_all(bytes)?;
    // The umask may have taken the readers' bits away.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(folder)
}

/// Makes `directory` and every missing one above it. What is there keeps its mode.
pub(super) fn make_directories(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|ancestor| !ancestor.is_dir()).collect();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => {}
            // Another writer was faster; if it is a file, the next step says so.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))?;
        directory.parent().map_or(Ok(()), sync_directory)?;
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
