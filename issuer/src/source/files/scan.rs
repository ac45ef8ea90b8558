//! One look at key files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::key_file::PublicKeys;
use chancery_files::{Bounds, FileError, SecretFile};

use crate::source::parts::{self, PartLook, PartProblem};

/// A thousand keys fit; a log or a device given by mistake does not.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));

/// What of a folder counts as a key file: the names that kubeadm, cert-manager, OpenShift and openssl users give.
const EXTENSIONS: [&str; 3] = ["pub", "pem", "crt"];

/// What every file that exists shows.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Each file by its path, in the order to publish.
    pub parts: Vec<PartLook>,
    /// What is wrong with the given paths themselves.
    pub missing: Vec<String>,
}

/// Looks at `paths`. A folder that cannot be listed stands in with those of its files that are in `known`, or by itself.
pub(super) fn scan(paths: &[PathBuf], known: &BTreeSet<String>) -> Scan {
    let mut scan = Scan::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => scan.folder(path, known),
            // Nothing there may be a folder that was unmounted: then it has files that we know.
            Err(_) if known.iter().any(|name| Path::new(name).parent() == Some(path)) => {
                scan.folder(path, known);
            }
            _ => {
                if !scan.file(path) {
                    scan.missing.push(format!("{} is not there any more", path.display()));
                }
            }
        }
    }
    scan
}

impl Scan {
    fn folder(&mut self, folder: &Path, known: &BTreeSet<String>) {
        match key_files(folder) {
            Ok(files) => {
                for file in files {
                    self.file(&file);
                }
            }
            Err(error) => {
                let problem =
                    |text: &str| Err(PartProblem::Unreadable(format!("cannot list {text}: {error}")));
                let lost = known.iter().filter(|name| Path::new(name).parent() == Some(folder));
                let before = self.parts.len();
                self.parts.extend(lost.map(|name| (name.clone(), problem("its folder"))));
                if self.parts.len() == before {
                    self.parts.push((folder.display().to_string(), problem("it")));
                }
            }
        }
    }

    /// Adds a file, unless it is not there.
    fn file(&mut self, path: &Path) -> bool {
        let outcome = match read(path) {
            Err(_) if is_missing(path) => return false,
            Err(error) => Err(PartProblem::Unreadable(crate::error_chain(&error))),
            Ok(file) => public_keys(&file),
        };
        self.parts.push((path.display().to_string(), outcome));
        true
    }
}

fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn key_files(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let named = path.extension().and_then(|extension| extension.to_str());
        let hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        if !hidden && named.is_some_and(|extension| EXTENSIONS.contains(&extension)) && !path.is_dir() {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Whether `path` is a folder that can be listed or a file that can be read.
pub(super) fn readable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return fs::read_dir(path).map(drop);
    }
    chancery_files::read_secret(path, BOUNDS).map(drop).map_err(io::Error::other)
}

/// The PEM in a file, wiped on drop: it may hold a private key that was put there by mistake.
fn read(path: &Path) -> Result<SecretFile, FileError> {
    // The look as a whole has its time limit.
    chancery_files::read_secret_blocking(path, BOUNDS)
}

fn public_keys(file: &SecretFile) -> Result<PublicKeys, PartProblem> {
    let der = "not text; convert a DER key with `openssl pkey -pubin -inform DER -in FILE -out FILE.pub`";
    let text = std::str::from_utf8(&file.bytes).map_err(|_| PartProblem::Unreadable(der.to_owned()))?;
    parts::public_keys(text)
}
