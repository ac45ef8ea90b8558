//! All or none: the executor of the rules at the head of [`crate::files`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::target::{Identity, Target};
use super::{Existing, FileError, NewFile};

/// Files that have their names. Dropped before [`Placed::keep`], they are gone again and what they replaced is back.
#[must_use = "the files are removed again unless they are kept"]
pub struct Placed {
    steps: Vec<Step>,
    created_directories: Vec<PathBuf>,
    kept: bool,
}

/// How far one file has come.
struct Step {
    target: Target,
    temporary: Option<OsString>,
    aside: Option<OsString>,
    placed: Option<Identity>,
}

/// Creates all of `files` or none, in their order.
///
/// # Errors
/// Says which file could not be created and why; then nothing was changed.
pub fn place(files: &[NewFile], existing: Existing) -> Result<Placed, FileError> {
    let mut placed = stage(files, existing)?;
    placed.name_all(existing)?;
    Ok(placed)
}

/// Rules 1 and 2: looks at every target, then writes every temporary file.
fn stage(files: &[NewFile], existing: Existing) -> Result<Placed, FileError> {
    let mut steps: Vec<Step> = Vec::new();
    for file in files {
        let target = Target::open(&file.path)?;
        if steps.iter().any(|step| step.target.is_same_name(&target)) {
            return Err(FileError::Twice(file.path.clone()));
        }
        if target.existing()?.is_some() && existing == Existing::Keep {
            return Err(FileError::Exists(file.path.clone()));
        }
        steps.push(Step { target, temporary: None, aside: None, placed: None });
    }
    let mut placed = Placed { steps, created_directories: Vec::new(), kept: false };
    for (step, file) in placed.steps.iter_mut().zip(files) {
        step.temporary = Some(step.target.write_temporary(file.access, &file.bytes)?);
    }
    Ok(placed)
}

impl Placed {
    /// Rules 3 and 4.
    fn name_all(&mut self, existing: Existing) -> Result<(), FileError> {
        for step in &mut self.steps {
            step.name(existing)?;
        }
        self.steps.iter().try_for_each(|step| step.target.sync_directory())
    }

    /// The paths, in the order given.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().map(|step| step.target.path())
    }

    /// Keeps the files, and forgets what they replaced.
    pub fn keep(mut self) {
        self.kept = true;
        for step in &self.steps {
            if let Some(aside) = &step.aside {
                step.target.remove(aside);
                // The new file is durable already; that the old one is gone is not worth a failure.
                let _ = step.target.sync_directory();
            }
        }
    }

    pub(super) fn remember_directories(&mut self, created: Vec<PathBuf>) {
        self.created_directories = created;
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The public half first, so that it never stands alone.
        for step in self.steps.iter_mut().rev() {
            step.undo();
        }
        for directory in self.created_directories.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl Step {
    fn name(&mut self, existing: Existing) -> Result<(), FileError> {
        if existing == Existing::Replace && self.target.existing()?.is_some() {
            self.aside = Some(self.target.set_aside()?);
        }
        let Some(temporary) = &self.temporary else { return Ok(()) };
        if self.aside.is_some() {
            self.target.name_replacing(temporary)?;
        } else {
            self.target.name_without_replacing(temporary)?;
        }
        self.temporary = None;
        self.placed = self.target.identity();
        Ok(())
    }

    fn undo(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            self.target.remove(&temporary);
        }
        match self.aside.take() {
            Some(aside) => {
                let _ = self.target.name_replacing(&aside);
                // Renaming between two names of one file does nothing, so the second name may still be there.
                self.target.remove(&aside);
            }
            None if self.placed.is_some() => self.target.remove_placed(self.placed),
            None => {}
        }
        let _ = self.target.sync_directory();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use zeroize::Zeroizing;

    use super::*;
    use crate::files::Access;

    fn pair(directory: &Path) -> [NewFile; 2] {
        let file = |name: &str, access| NewFile {
            path: directory.join(name),
            access,
            bytes: Zeroizing::new(format!("new {name}").into_bytes()),
        };
        [file("sa.key", Access::Private), file("sa.pub", Access::Public)]
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn both_files_appear_with_their_modes_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        place(&pair(directory.path()), Existing::Keep).unwrap().keep();
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
        for (name, mode) in [("sa.key", 0o600), ("sa.pub", 0o644)] {
            let path = directory.path().join(name);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("new {name}"));
        }
    }

    #[test]
    fn an_existing_file_stops_everything_and_stays() {
        for taken in ["sa.key", "sa.pub"] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(taken), "old").unwrap();
            let error = place(&pair(directory.path()), Existing::Keep).err().unwrap();
            assert!(matches!(error, FileError::Exists(_)), "{error}");
            assert_eq!(names(directory.path()), [taken]);
            assert_eq!(fs::read_to_string(directory.path().join(taken)).unwrap(), "old");
        }
    }

    #[test]
    fn a_name_taken_between_looking_and_naming_takes_the_other_half_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut staged = stage(&pair(directory.path()), Existing::Keep).unwrap();
        fs::write(directory.path().join("sa.pub"), "theirs").unwrap();
        let error = staged.name_all(Existing::Keep).unwrap_err();
        assert!(matches!(error, FileError::Exists(_)), "{error}");
        drop(staged);
        assert_eq!(names(directory.path()), ["sa.pub"]);
        assert_eq!(fs::read_to_string(directory.path().join("sa.pub")).unwrap(), "theirs");
    }

    #[test]
    fn replacing_keeps_the_old_until_the_new_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let content = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        fs::write(directory.path().join("sa.key"), "old").unwrap();

        drop(place(&pair(directory.path()), Existing::Replace).unwrap());
        assert_eq!((names(directory.path()), content("sa.key")), (vec!["sa.key".into()], "old".into()));

        place(&pair(directory.path()), Existing::Replace).unwrap().keep();
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
        assert_eq!(content("sa.key"), "new sa.key");
    }

    #[test]
    fn a_target_that_breaks_half_way_brings_the_old_pair_back() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["sa.key", "sa.pub"] {
            fs::write(directory.path().join(name), "old").unwrap();
        }
        let mut staged = stage(&pair(directory.path()), Existing::Replace).unwrap();
        fs::remove_file(directory.path().join("sa.pub")).unwrap();
        fs::create_dir(directory.path().join("sa.pub")).unwrap();
        assert!(matches!(staged.name_all(Existing::Replace), Err(FileError::NotAFile(_))));
        drop(staged);
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
        assert_eq!(fs::read_to_string(directory.path().join("sa.key")).unwrap(), "old");
    }

    #[test]
    fn symbolic_links_are_neither_followed_nor_replaced() {
        for existing in [Existing::Keep, Existing::Replace] {
            let directory = tempfile::tempdir().unwrap();
            let elsewhere = directory.path().join("elsewhere");
            symlink(&elsewhere, directory.path().join("sa.pub")).unwrap();
            let error = place(&pair(directory.path()), existing).err().unwrap();
            assert!(error.to_string().contains("elsewhere"), "{error}");
            assert_eq!(names(directory.path()), ["sa.pub"]);
        }
    }

    #[test]
    fn one_path_for_two_files_is_refused_however_it_is_spelled() {
        let directory = tempfile::tempdir().unwrap();
        let [private, mut public] = pair(directory.path());
        public.path = directory.path().join(".").join("sa.key");
        assert!(matches!(place(&[private, public], Existing::Replace), Err(FileError::Twice(_))));
        assert!(names(directory.path()).is_empty());
    }
}
