//! Several new files, all or none, whatever interrupts.
//!
//! [`stage`] and [`Staged::place`] proceed by these rules, in this order:
//!
//! 1. Every target is looked at before anything is written: its directory must exist, its name must be free or,
//!    when replacing, a regular file, of which a copy is kept in memory. A symbolic link is never followed, replaced or
//!    written through.
//! 2. Every file is written under a temporary name beside its target, created exclusively with mode 0600, given
//!    its mode and synced, with its directory. A file system that cannot keep the mode is refused.
//! 3. The temporary files take their names in the order given, without replacing unless that was asked for.
//! 4. The directories are synced.
//! 5. Whatever fails is undone: temporary files are removed, and what has its name already gives way to what was there.
//!
//! A process that is killed leaves some of this, which [`unfinished`](crate::unfinished()) finds and settles. So no old
//! content is ever kept under a second name: it would outlive the process and, where a sealed key replaces one that
//! is not sealed, lie there for anybody who looks.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::target::{Content, Identity, Target, Temporary, random_tag};
use crate::{Existing, FileError, NewFile};

/// What ends the name of a temporary file.
pub(crate) const TEMPORARY: &str = ".chancery-part";

/// The largest file that is replaced, in bytes: a copy of it is held while it is.
const LARGEST_REPLACED: usize = 16 << 20;

/// Complete files beside the names that they are to take. Dropped, they are gone again.
#[must_use = "the files are removed again unless they are placed"]
pub struct Staged {
    steps: Vec<Step>,
    existing: Existing,
}

/// How far one file has come.
struct Step {
    target: Target,
    temporary: Option<Temporary>,
    old: Option<Content>,
    placed: Option<Identity>,
}

/// Creates all of `files` or none, in their order.
///
/// # Errors
/// Says which file could not be created and why; then nothing was changed.
pub fn place(files: &[NewFile], existing: Existing) -> Result<(), FileError> {
    stage(files, existing)?.place()
}

/// Rules 1 and 2: looks at every target, then writes every temporary file.
///
/// # Errors
/// As [`place`].
pub fn stage(files: &[NewFile], existing: Existing) -> Result<Staged, FileError> {
    let mut staged = Staged { steps: Vec::new(), existing };
    for file in files {
        let target = Target::open(&file.path)?;
        if staged.steps.iter().any(|step| step.target.is_same_name(&target)) {
            return Err(FileError::Twice(file.path.clone()));
        }
        let old = match existing {
            Existing::Replace => target.content(LARGEST_REPLACED)?,
            Existing::Keep if target.existing()?.is_some() => {
                return Err(FileError::Exists(file.path.clone()));
            }
            Existing::Keep => None,
        };
        staged.steps.push(Step { target, temporary: None, old, placed: None });
    }
    let Some(first) = files.first() else { return Ok(staged) };
    let random = random_tag().map_err(|source| FileError::io("write", &first.path, source))?;
    let tag = format!("{}-{random}", mark_of(&first.bytes));
    for (step, file) in staged.steps.iter_mut().zip(files) {
        let name = step.target.temporary_name(&tag, TEMPORARY);
        step.temporary = Some(step.target.write_temporary(name, file.access.mode(), &file.bytes)?);
    }
    staged.sync()?;
    Ok(staged)
}

/// What tells in the names of temporary files which first file they belong to: 16 characters of its digest.
pub(crate) fn mark_of(first: &[u8]) -> String {
    Sha256::digest(first).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Staged {
    /// Where each file lies until it is placed, in the order given: what is written can be read back first.
    pub fn temporaries(&self) -> impl Iterator<Item = PathBuf> {
        let beside = |step: &Step| step.temporary.as_ref().map(|it| step.target.beside(&it.name));
        self.steps.iter().filter_map(beside)
    }

    /// Rules 3 and 4.
    ///
    /// # Errors
    /// Says which file could not be created and why; then everything is undone.
    pub fn place(mut self) -> Result<(), FileError> {
        let existing = self.existing;
        let placed =
            self.steps.iter_mut().try_for_each(|step| step.name(existing)).and_then(|()| self.sync());
        if placed.is_err() {
            self.steps.iter_mut().rev().for_each(Step::undo);
        }
        placed
    }

    fn sync(&self) -> Result<(), FileError> {
        self.steps.iter().try_for_each(|step| step.target.sync_directory())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // The first file's last: while it is there, nothing has its name.
        self.steps.iter_mut().rev().for_each(Step::discard);
    }
}

impl Step {
    fn name(&mut self, existing: Existing) -> Result<(), FileError> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        if existing == Existing::Replace && self.target.existing()?.is_some() {
            self.target.name_replacing(&temporary.name)?;
        } else {
            self.target.name_without_replacing(&temporary.name)?;
        }
        self.temporary = None;
        self.placed = self.target.identity();
        Ok(())
    }

    /// Brings back what was at the name, unless somebody else has taken it since.
    fn undo(&mut self) {
        if !self.target.is_at_name(self.placed.take()) {
            return;
        }
        let Some(old) = &self.old else { return self.target.remove_target() };
        let Ok(random) = random_tag() else { return };
        let name = self.target.temporary_name(&random, TEMPORARY);
        let Ok(temporary) = self.target.write_temporary(name, old.mode, &old.bytes) else { return };
        if self.target.name_replacing(&temporary.name).is_err() {
            self.target.remove(&temporary.name);
        }
        let _ = self.target.sync_directory();
    }

    fn discard(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            self.target.remove(&temporary.name);
            let _ = self.target.sync_directory();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use zeroize::Zeroizing;

    use super::*;
    use crate::{Access, unfinished};

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
        place(&pair(directory.path()), Existing::Keep).unwrap();
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
        let staged = stage(&pair(directory.path()), Existing::Keep).unwrap();
        fs::write(directory.path().join("sa.pub"), "theirs").unwrap();
        let error = staged.place().unwrap_err();
        assert!(matches!(error, FileError::Exists(_)), "{error}");
        assert_eq!(names(directory.path()), ["sa.pub"]);
        assert_eq!(fs::read_to_string(directory.path().join("sa.pub")).unwrap(), "theirs");
    }

    #[test]
    fn what_is_staged_and_not_placed_leaves_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let content = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        fs::write(directory.path().join("sa.key"), "old").unwrap();

        let staged = stage(&pair(directory.path()), Existing::Replace).unwrap();
        let written: Vec<String> =
            staged.temporaries().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(written, ["new sa.key", "new sa.pub"]);
        drop(staged);
        assert_eq!((names(directory.path()), content("sa.key")), (vec!["sa.key".into()], "old".into()));

        place(&pair(directory.path()), Existing::Replace).unwrap();
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
        assert_eq!(content("sa.key"), "new sa.key");
    }

    #[test]
    fn a_target_that_breaks_half_way_brings_the_old_pair_back() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["sa.key", "sa.pub"] {
            fs::write(directory.path().join(name), "old").unwrap();
        }
        fs::set_permissions(directory.path().join("sa.key"), fs::Permissions::from_mode(0o400)).unwrap();
        let staged = stage(&pair(directory.path()), Existing::Replace).unwrap();
        fs::remove_file(directory.path().join("sa.pub")).unwrap();
        fs::create_dir(directory.path().join("sa.pub")).unwrap();
        assert!(matches!(staged.place(), Err(FileError::NotAFile(_))));
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
        let key = directory.path().join("sa.key");
        assert_eq!(fs::read_to_string(&key).unwrap(), "old");
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o400);
    }

    /// Leaves `staged` as a process leaves it that is killed after `placed` of its files have their names.
    fn killed(mut staged: Staged, placed: usize) {
        for step in staged.steps.iter_mut().take(placed) {
            step.name(Existing::Replace).unwrap();
        }
        for step in &mut staged.steps {
            step.temporary = None;
        }
    }

    #[test]
    fn a_process_killed_anywhere_leaves_what_the_next_one_brings_to_both_or_neither() {
        for (before, placed) in
            [(&[][..], 0), (&[][..], 1), (&["sa.key", "sa.pub"], 0), (&["sa.key", "sa.pub"], 1)]
        {
            let directory = tempfile::tempdir().unwrap();
            for name in before {
                fs::write(directory.path().join(name), format!("old {name}")).unwrap();
            }
            let files = pair(directory.path());
            killed(stage(&files, Existing::Replace).unwrap(), placed);
            let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
            let left = unfinished(&paths).unwrap();
            assert_eq!(left.len(), 1, "{before:?} {placed}");
            for set in left {
                assert_eq!(set.is_placed_in_part(), placed == 1);
                set.settle().unwrap();
            }
            let expected = if placed == 1 { "new" } else { "old" };
            let there: &[&str] = if placed == 1 { &["sa.key", "sa.pub"] } else { before };
            assert_eq!(names(directory.path()), there);
            for name in there {
                let content = fs::read_to_string(directory.path().join(name)).unwrap();
                assert_eq!(content, format!("{expected} {name}"));
            }
            assert!(unfinished(&paths).unwrap().is_empty());
        }
    }

    #[test]
    fn nobody_settles_what_somebody_is_still_at() {
        let directory = tempfile::tempdir().unwrap();
        let files = pair(directory.path());
        let staged = stage(&files, Existing::Keep).unwrap();
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        assert!(unfinished(&paths).unwrap().is_empty());
        staged.place().unwrap();
        assert_eq!(names(directory.path()), ["sa.key", "sa.pub"]);
    }

    #[test]
    fn a_first_file_that_somebody_has_since_replaced_gets_no_foreign_other_half() {
        let directory = tempfile::tempdir().unwrap();
        let files = pair(directory.path());
        killed(stage(&files, Existing::Replace).unwrap(), 1);
        fs::write(directory.path().join("sa.key"), "another").unwrap();
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        for set in unfinished(&paths).unwrap() {
            assert!(!set.is_placed_in_part());
            set.settle().unwrap();
        }
        assert_eq!(names(directory.path()), ["sa.key"]);
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
