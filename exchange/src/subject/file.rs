//! A token in a file, such as one that kubelet projects into a pod
//! (<https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken>).
//!
//! The file is read anew for every exchange: kubelet replaces it at 80 % of the token's life, and a token that is kept
//! beyond that dies in somebody's hands.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::quoted::escaped;
use chancery_files::{Bounds, FileError, read_secret_blocking, within};

use super::{SubjectTokenSource, missing};
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::limits;
use crate::token::{TokenError, UnverifiedToken};

/// What stands in an atomic volume of kubelet's: a link to the folder of the day.
const VOLUME_MARK: &str = "..data";

/// Where nothing projected lies whose audience is not the API server's.
const DEFAULT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long it is waited before a file is read again that was empty: somebody may be writing it.
const MID_WRITE: Duration = Duration::from_millis(100);

/// A token in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

enum Trouble {
    File(FileError),
    Exposed(&'static str),
    Token(TokenError),
}

impl TokenFile {
    /// A token in the file at `path`.
    ///
    /// # Errors
    /// When it is the default mount of a pod, whose token opens the API server.
    pub fn new(path: PathBuf) -> Result<Self, ExchangeError> {
        if path.starts_with(DEFAULT_MOUNT) {
            return Err(ExchangeError::configuration("default-token")
                .came("the token of the pod's default mount opens the API server")
                .expected("a projected token with an audience of its own")
                .remedy(
                    "add a `serviceAccountToken` projection with the audience of the other side to the pod",
                ));
        }
        Ok(Self { path })
    }

    fn in_words(&self, trouble: Trouble) -> ExchangeError {
        let path = escaped(self.path.display());
        match trouble {
            Trouble::File(error) => missing("subject-token-file")
                .came(&error.to_string())
                .remedy("check the path, and that the volume is mounted"),
            Trouble::Token(error) => error.at(&path.to_string()),
            Trouble::Exposed(why) => missing("subject-token-file-exposed")
                .came(&format!("{path} {why}"))
                .expected("a token that its owner alone can read and write")
                .remedy("chmod 600 it, and have it owned by this user"),
        }
    }
}

#[async_trait]
impl SubjectTokenSource for TokenFile {
    fn origin(&self) -> String {
        format!("the file {}", escaped(self.path.display()))
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        key.text("source", "file").text("path", &self.path.to_string_lossy());
    }

    async fn token(&self, _audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let first = read(self.path.clone()).await;
        let read = match first {
            Err(Trouble::Token(TokenError::Empty)) => {
                tokio::time::sleep(MID_WRITE).await;
                read(self.path.clone()).await
            }
            other => other,
        };
        read.map_err(|trouble| self.in_words(trouble))
    }
}

async fn read(path: PathBuf) -> Result<UnverifiedToken, Trouble> {
    let hung = |_| Trouble::Exposed("was not read: the process is ending");
    let work = move || {
        let place = path.clone();
        within(limits::FILE, "read", &path, move || {
            let exposed = exposure(&place);
            read_secret_blocking(&place, Bounds::regular(limits::TOKEN, limits::FILE))
                .map(|file| (exposed, file))
        })
    };
    let (exposed, file) = tokio::task::spawn_blocking(work).await.map_err(hung)?.map_err(Trouble::File)?;
    if let Some(why) = exposed {
        return Err(Trouble::Exposed(why));
    }
    let text = std::str::from_utf8(&file.bytes).map_err(|_| Trouble::Token(TokenError::OtherCharacters))?;
    UnverifiedToken::parse(text).map_err(Trouble::Token)
}

/// Why others of this machine may have read or replaced a token (W-02). In kubelet's volumes the mode is not ours to
/// choose: it follows from the pod.
fn exposure(path: &Path) -> Option<&'static str> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if std::fs::symlink_metadata(folder.join(VOLUME_MARK)).is_ok_and(|mark| mark.is_symlink()) {
        return None;
    }
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if metadata.mode() & 0o007 != 0 {
        return Some("can be read or written by everybody");
    }
    let own = rustix::process::geteuid().as_raw();
    (metadata.uid() != own && metadata.uid() != 0).then_some("belongs to another user")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::error::Class;

    const ONE: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvbmUifQ.c2ln";
    const TWO: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ0d28ifQ.c2ln";

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn subject(file: &TokenFile) -> Result<String, ExchangeError> {
        file.token("x").await.map(|token| token.claims().sub.clone().unwrap())
    }

    #[tokio::test]
    async fn w_02_files_are_read_anew_and_refused_where_others_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile::new(path.clone()).unwrap();
        assert_eq!(subject(&file).await.unwrap_err().class(), Class::Source);
        write(&path, &format!("{ONE}\n"), 0o600);
        assert_eq!(subject(&file).await.unwrap(), "one");
        write(&path, TWO, 0o640);
        assert_eq!(subject(&file).await.unwrap(), "two");
        write(&path, TWO, 0o644);
        assert_eq!(subject(&file).await.unwrap_err().code(), "subject-token-file-exposed");
        symlink("somewhere", folder.path().join(VOLUME_MARK)).unwrap();
        assert_eq!(subject(&file).await.unwrap(), "two", "kubelet's volumes have kubelet's modes");
    }

    #[tokio::test]
    async fn an_empty_or_foreign_file_is_an_error_that_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile::new(path.clone()).unwrap();
        for (text, words) in [("", "it is empty"), ("hello world", "characters that no JWT has")] {
            write(&path, text, 0o600);
            let error = subject(&file).await.unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("token"), "{error}");
        }
        let mount = format!("{DEFAULT_MOUNT}/token");
        assert_eq!(TokenFile::new(mount.into()).unwrap_err().code(), "default-token");
    }
}
