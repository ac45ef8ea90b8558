//! What a process that was killed in the middle of [`place`](crate::place()) has left, and its end.
//!
//! The name of every temporary file carries a digest of the first file of its set. When the first file has that
//! content, the set was complete and was taking its names: the rest takes theirs now. Otherwise nothing had its name
//! yet, or somebody has since put another file there: the temporary files are removed. Either way all files of
//! the set are there or none, and nothing of it lies under a name that nobody looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use crate::FileError;
use crate::placement::{TEMPORARY, mark_of};
use crate::target::Target;

/// The largest first file that is looked at, in bytes: no key file is so long.
const LARGEST: usize = 16 << 20;

/// A set of files that was not placed to its end, by somebody who does not live any more.
pub struct Unfinished {
    /// The targets of the set, in the order in which they were placed, with what is left beside each.
    steps: Vec<(Target, OsString)>,
    first_is_placed: bool,
}

/// How a set was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// These had not yet taken their names, and have now.
    Finished(Vec<PathBuf>),
    /// Nothing had its name: what was beside these was removed.
    Removed(Vec<PathBuf>),
}

/// The unfinished sets of files among `paths`, which are in the order in which they are placed. A path whose directory is
/// missing has nothing beside it.
///
/// # Errors
/// When a directory cannot be listed, or the first file cannot be read.
pub fn unfinished(paths: &[PathBuf]) -> Result<Vec<Unfinished>, FileError> {
    let mut left: BTreeMap<String, BTreeMap<usize, OsString>> = BTreeMap::new();
    let mut alive: BTreeSet<String> = BTreeSet::new();
    for (index, path) in paths.iter().enumerate() {
        let target = match Target::open(path) {
            Ok(target) => target,
            Err(FileError::NoDirectory(_)) => continue,
            Err(error) => return Err(error),
        };
        for (tag, name) in target.temporaries(TEMPORARY)? {
            if target.is_held(&name) {
                alive.insert(tag.clone());
            }
            left.entry(tag).or_default().insert(index, name);
        }
    }
    left.retain(|tag, _| !alive.contains(tag));
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let first = match paths.first().map(|first| Target::open(first)) {
        None | Some(Err(FileError::NoDirectory(_))) => None,
        Some(target) => target?.content(LARGEST)?.map(|content| mark_of(&content.bytes)),
    };
    let mut sets = Vec::new();
    for (tag, names) in left {
        let mut steps = Vec::new();
        for (index, name) in names {
            if let Some(path) = paths.get(index) {
                steps.push((Target::open(path)?, name));
            }
        }
        let first_is_placed = first.as_ref().is_some_and(|mark| tag.starts_with(mark.as_str()));
        sets.push(Unfinished { steps, first_is_placed });
    }
    Ok(sets)
}

impl Unfinished {
    /// Whether the first file has its name, so that the rest is to take theirs.
    pub fn is_placed_in_part(&self) -> bool {
        self.first_is_placed
    }

    /// What is left, beside the names it was to take.
    pub fn temporaries(&self) -> Vec<PathBuf> {
        self.steps.iter().map(|(target, name)| target.beside(name)).collect()
    }

    /// Brings the set to its end.
    ///
    /// # Errors
    /// When a file cannot take its name. Settling it again goes on from there.
    pub fn settle(self) -> Result<Settled, FileError> {
        let mut settled = Vec::new();
        // Removed from the last to the first, placed from the first to the last, as if it had not been interrupted.
        if self.first_is_placed {
            for (target, name) in &self.steps {
                // Refuses what has become a link or a directory.
                target.existing()?;
                target.name_replacing(name)?;
                settled.push(target.path().to_owned());
            }
        } else {
            for (target, name) in self.steps.iter().rev() {
                target.remove(name);
                settled.push(target.path().to_owned());
            }
        }
        self.steps.iter().try_for_each(|(target, _)| target.sync_directory())?;
        Ok(if self.first_is_placed { Settled::Finished(settled) } else { Settled::Removed(settled) })
    }
}
