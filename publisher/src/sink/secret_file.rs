//! Files that hold a token.

use std::path::Path;

use chancery_files::Bounds;
use chancery_wire::Secret;

use crate::limits::{FILE_READ, TOKEN_FILE};
use crate::store::{Failure, StoreErrorKind};

/// The content of a file that holds a token, without the space around it.
pub(super) async fn read_secret(path: &Path) -> Result<Secret, Failure> {
    let refuse = |problem: String| {
        Failure::new(StoreErrorKind::Misconfigured, problem, "give the path of a file with the token in it")
    };
    let place = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        chancery_files::read_secret(&place, Bounds::regular(TOKEN_FILE, FILE_READ))
    });
    let read = read.await.map_err(|error| refuse(error.to_string()))?;
    let file = read.map_err(|error| refuse(error.to_string()))?;
    let text =
        std::str::from_utf8(&file.bytes).map_err(|_| refuse(format!("{} is not text", path.display())))?;
    match text.trim() {
        "" => Err(refuse(format!("{} is empty", path.display()))),
        token => Ok(Secret::new(token.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_holds_no_token_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (content, problem) in [("", "empty"), (" \n", "empty"), (&*"x".repeat(TOKEN_FILE + 1), "bytes")] {
            std::fs::write(&path, content).unwrap();
            let cause = read_secret(&path).await.unwrap_err().cause.to_string();
            assert!(cause.contains(problem) && cause.contains(path.to_str().unwrap()), "{cause}");
        }
        std::fs::write(&path, "hunter2\n").unwrap();
        assert_eq!(read_secret(&path).await.unwrap().expose(), "hunter2");
        let folder = read_secret(dir.path()).await.unwrap_err().cause.to_string();
        assert!(folder.contains(dir.path().to_str().unwrap()), "{folder}");
    }
}
