//! One look at key files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use chancery_core::pem::PublicKeys;

use crate::source::parts;

/// A thousand keys fit; a log or a device given by mistake does not.
const LONGEST_FILE: u64 = 1 << 20;

/// What of a folder counts as a key file: the names that kubeadm, cert-manager, OpenShift and openssl users give.
const EXTENSIONS: [&str; 3] = ["pub", "pem", "crt"];

/// What every file that exists shows.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Each file by its path, in the order to publish.
    pub parts: Vec<(String, Result<PublicKeys, String>)>,
    /// What is wrong with the given paths themselves.
    pub missing: Vec<String>,
}

/// Looks at `paths`. A folder that cannot be listed stands in with those of its files that are in `known`.
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
                let error = format!("cannot list its folder: {error}");
                let lost = known.iter().filter(|name| Path::new(name).parent() == Some(folder));
                let before = self.parts.len();
                self.parts.extend(lost.map(|name| (name.clone(), Err(error.clone()))));
                if self.parts.len() == before {
                    self.missing.push(format!("{}: {error}", folder.display()));
                }
            }
        }
    }

    /// Adds a file, unless it is not there.
    fn file(&mut self, path: &Path) -> bool {
        let outcome = match read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return false,
            Err(error) => Err(format!("cannot read it: {error}")),
            Ok(text) => parts::public_keys(&text),
        };
        self.parts.push((path.display().to_string(), outcome));
        true
    }
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

fn read(path: &Path) -> io::Result<String> {
    // Before opening: to open a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("longer than 1 MiB, so hardly a key file"));
    }
    let der = "not text; convert a DER key with `openssl pkey -pubin -inform DER -in FILE -out FILE.pub`";
    String::from_utf8(bytes).map_err(|_| io::Error::other(der))
}
