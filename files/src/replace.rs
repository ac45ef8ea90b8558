//! One file replaced whole: readers see the old content or the new one, also after a loss of power.

use std::fs::ReadDir;
use std::path::Path;
use std::time::Duration;

use crate::target::{Target, random_tag};
use crate::{FileError, NewFile, within};

/// What ends the name of a temporary file of [`replace`](replace()). Hidden, and beside its target.
const TEMPORARY: &str = ".chancery-new";

/// Puts `file` in the place of what has its name, or where nothing has: a temporary file with a random name in the
/// same folder, created exclusively and synced, takes the name; then the folder is synced. A symbolic link at the
/// name is replaced, never written through.
///
/// # Errors
/// Which path and what failed. The old content is there then, except after [`FileError::Hanging`], which does not say
/// which of the two is; nothing overtakes the work that hangs.
pub fn replace(file: NewFile, time: Duration) -> Result<(), FileError> {
    let path = file.path.clone();
    within(time, "replace", &path, move || replace_blocking(&file))
}

/// As [`replace`](replace()), without its time limit: for work that is itself [`within`] one.
///
/// # Errors
/// As [`replace`](replace()), except for the time.
pub fn replace_blocking(file: &NewFile) -> Result<(), FileError> {
    let target = Target::open(&file.path)?;
    let tag = random_tag().map_err(|source| FileError::io("write", &file.path, source))?;
    let name = target.temporary_name(&tag, TEMPORARY);
    let temporary = target.write_temporary(name, file.access.mode(), &file.bytes)?;
    if let Err(error) = target.name_replacing(&temporary.name) {
        target.remove(&temporary.name);
        return Err(error);
    }
    target.sync_directory()
}

/// Removes the temporary files that processes which were killed in [`replace`](replace()) have left in `folder`.
///
/// The caller holds the lock that everybody takes who replaces files there: what somebody is about to rename cannot
/// be told from what was left. What cannot be removed stays; it is in nobody's way.
///
/// # Errors
/// When the folder cannot be listed.
pub fn remove_leftovers(folder: &Path) -> Result<(), FileError> {
    let failed = |source| FileError::io("list", folder, source);
    let entries: ReadDir = std::fs::read_dir(folder).map_err(failed)?;
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b".") && bytes.ends_with(TEMPORARY.as_bytes()) {
            let _ = std::fs::remove_file(folder.join(&name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::Access;

    const TIME: Duration = Duration::from_secs(60);

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_new_content_takes_the_name_with_its_mode_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for (access, mode) in [(Access::Private, 0o600), (Access::Public, 0o644)] {
            let bytes = format!("{access:?}").into_bytes();
            replace(NewFile { access, ..NewFile::public(path.clone(), bytes.clone()) }, TIME).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(names(folder.path()), ["state.json"]);
        }
    }

    #[test]
    fn a_reader_keeps_what_it_has_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        fs::write(&path, "old").unwrap();
        let old = fs::File::open(&path).unwrap();
        replace(NewFile::public(path.clone(), b"new".to_vec()), TIME).unwrap();
        assert_eq!(std::io::read_to_string(old).unwrap(), "old");
        assert_eq!(fs::read_to_string(path).unwrap(), "new");
    }

    #[test]
    fn a_link_is_replaced_and_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("state.json"), folder.path().join("elsewhere"));
        fs::write(&elsewhere, "theirs").unwrap();
        symlink(&elsewhere, &path).unwrap();
        replace(NewFile::public(path.clone(), b"ours".to_vec()), TIME).unwrap();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_failure_leaves_the_old_content_and_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let error = replace(NewFile::public(path.clone(), b"new".to_vec()), TIME).unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(names(folder.path()), ["taken"]);
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        let missing = folder.path().join("missing/file");
        assert!(matches!(
            replace(NewFile::public(missing, Vec::new()), TIME),
            Err(FileError::NoDirectory(_))
        ));
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".state.json.00ff.chancery-new", "state.json", "mine.chancery-new", ".hidden"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        remove_leftovers(folder.path()).unwrap();
        assert_eq!(names(folder.path()), [".hidden", "mine.chancery-new", "state.json"]);
    }
}
