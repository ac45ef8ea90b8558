//! Files in a tree below one directory.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use crate::{Existing, FileError, NewFile, place};

/// Creates all of `files` or none below `root`, which must exist; their paths are relative to it. Directories that
/// are missing on the way are created for the owner alone, and removed again with the files.
///
/// # Errors
/// As [`place`], and when a directory on the way is a symbolic link.
pub fn place_below(root: &Path, files: Vec<NewFile>, existing: Existing) -> Result<(), FileError> {
    if !root.is_dir() {
        let missing = !root.exists();
        let root = root.to_owned();
        return Err(if missing { FileError::NoDirectory(root) } else { FileError::NotADirectory(root) });
    }
    let mut created = Created(Vec::new());
    let mut absolute = Vec::new();
    for file in files {
        created.make_parents(root, &file.path)?;
        absolute.push(NewFile { path: root.join(&file.path), ..file });
    }
    place(&absolute, existing)?;
    created.0.clear();
    Ok(())
}

/// Directories of ours, removed on drop while they are empty.
struct Created(Vec<PathBuf>);

impl Created {
    fn make_parents(&mut self, root: &Path, relative: &Path) -> Result<(), FileError> {
        let mut directory = root.to_owned();
        for component in relative.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = component else {
                return Err(FileError::NoName(relative.to_owned()));
            };
            directory.push(name);
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => self.0.push(directory.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(&directory)?,
                Err(error) => return Err(FileError::io("create directory", &directory, error)),
            }
        }
        Ok(())
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        for directory in self.0.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn check(directory: &Path) -> Result<(), FileError> {
    if let Ok(target) = std::fs::read_link(directory) {
        return Err(FileError::SymbolicLink { path: directory.to_owned(), target });
    }
    if directory.is_dir() { Ok(()) } else { Err(FileError::NotADirectory(directory.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use zeroize::Zeroizing;

    use super::*;
    use crate::Access;

    fn file(path: &str) -> NewFile {
        NewFile { path: path.into(), access: Access::Private, bytes: Zeroizing::new(b"x".to_vec()) }
    }

    #[test]
    fn directories_come_and_go_with_the_files() {
        let root = tempfile::tempdir().unwrap();
        assert!(place_below(root.path(), vec![file("a/b/c"), file("a/b/c")], Existing::Keep).is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        place_below(root.path(), vec![file("a/b/c"), file("a/d")], Existing::Keep).unwrap();
        assert!(root.path().join("a/b/c").is_file() && root.path().join("a/d").is_file());
    }

    #[test]
    fn a_linked_directory_or_a_way_out_is_refused_without_a_trace() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(elsewhere.path(), root.path().join("pki")).unwrap();
        for path in ["pki/sa.key", "../sa.key"] {
            assert!(place_below(root.path(), vec![file("new/x"), file(path)], Existing::Keep).is_err());
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert!(!root.path().join("new").exists());
    }
}
