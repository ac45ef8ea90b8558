//! The token by which a client shows that it may ask an agent: the content of a file that its clients can read and
//! nobody else.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::quoted::escaped;
use chancery_files::{Bounds, Existing, FileError, NewFile, place, read_secret_blocking, within};
use chancery_wire::Secret;
use zeroize::Zeroizing;

use crate::error::ExchangeError;
use crate::limits;

/// What 128 bits have at least in base64.
const SHORTEST: usize = 22;
/// The longest secret that is read, in bytes.
const LONGEST: usize = 4096;
/// How many random bytes a new one has.
const BYTES: usize = 32;

/// The secret in a file, which is made, for its owner alone, where there is none. Blocks for [`limits::FILE`] at most.
///
/// # Errors
/// When others can read the file, it holds less than a secret, or it cannot be made.
pub fn of_file(path: &Path) -> Result<Secret, ExchangeError> {
    let place = path.to_owned();
    let read = within(limits::FILE, "read", path, move || {
        match read_secret_blocking(&place, Bounds::regular(LONGEST, limits::FILE)) {
            Ok(file) => Ok(Some(file)),
            Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let unusable = |came: &str| {
        ExchangeError::configuration("agent-token-file")
            .came(came)
            .expected(format!(
                "a file for its owner alone (0600) with one line of {SHORTEST} characters or more"
            ))
            .remedy("remove it, and a new one is made")
    };
    let name = escaped(path.display());
    let Some(file) = read.map_err(|error| unusable(&error.to_string()))? else {
        return make(path).map_err(|error| unusable(&error.to_string()));
    };
    if file.readable_by_others {
        return Err(unusable(&format!("others can read {name}")));
    }
    let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable(&format!("{name} holds no secret")));
    }
    Ok(Secret::new(text.to_owned()))
}

fn make(path: &Path) -> Result<Secret, FileError> {
    let mut random = Zeroizing::new([0; BYTES]);
    getrandom::fill(random.as_mut())
        .map_err(|error| FileError::io("write", path, std::io::Error::other(error.to_string())))?;
    let secret = Secret::new(URL_SAFE_NO_PAD.encode(random.as_ref()));
    // Without a newline: SDKs send what the file holds, and a header cannot hold one.
    let bytes = Zeroizing::new(secret.expose().as_bytes().to_vec());
    let file = NewFile::private(path.to_owned(), bytes);
    within(limits::FILE, "write", path, move || place(&[file], Existing::Keep))?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = of_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(made.expose().len(), 43);
        assert_eq!(fs::read_to_string(&path).unwrap(), made.expose());
        assert_eq!(of_file(&path).unwrap().expose(), made.expose());
    }

    #[test]
    fn a_secret_that_is_none_or_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            of_file(&path)
        };
        assert!(write("0123456789012345678901\n", 0o600).is_ok());
        for (text, mode) in
            [("0123456789012345678901", 0o644), ("short", 0o600), ("0123456789 012345678901", 0o600)]
        {
            assert_eq!(write(text, mode).unwrap_err().code(), "agent-token-file", "{text}");
        }
        assert_eq!(of_file(folder.path()).unwrap_err().code(), "agent-token-file");
    }
}
