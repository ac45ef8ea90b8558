//! Shared access signatures: a credential that travels as the query of a URL.

use std::fmt;
use std::path::{Path, PathBuf};

use azure_core::error::{Error, ErrorKind};
use azure_core::http::Url;

/// The variable that Microsoft's own tools read.
pub(crate) const VARIABLE: &str = "AZURE_STORAGE_SAS_TOKEN";

/// Where a signature is kept. The signature itself is in no text that this gives.
#[derive(Clone)]
pub(crate) enum Sas {
    /// Read for each request, so that a renewed one is used at once.
    File(PathBuf),
    /// As it was when the process started.
    Fixed(String),
}

impl Sas {
    /// A file that must hold a signature now.
    pub(crate) fn of_file(path: &Path) -> Result<Self, String> {
        read(path)?;
        Ok(Self::File(path.to_owned()))
    }

    /// The value of [`VARIABLE`].
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        query(text).map(|query| Self::Fixed(query.to_owned()))
    }

    /// Makes it the query of a URL, behind what the URL asks already.
    pub(crate) fn sign(&self, url: &mut Url) -> azure_core::Result<()> {
        let query = match self {
            Self::Fixed(query) => query.clone(),
            Self::File(path) => {
                read(path).map_err(|error| Error::with_message(ErrorKind::Credential, error))?
            }
        };
        let whole = [url.query().unwrap_or_default(), &query];
        let whole: Vec<&str> = whole.into_iter().filter(|part| !part.is_empty()).collect();
        url.set_query(Some(&whole.join("&")));
        Ok(())
    }
}

impl fmt::Debug for Sas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Fixed(_) => f.write_str("Fixed(REDACTED)"),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let place = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("the file {place} cannot be read: {error}"))?;
    query(&text).map(str::to_owned).map_err(|problem| format!("the file {place} {problem}"))
}

/// The query alone, of whatever people copy from the portal.
fn query(text: &str) -> Result<&str, String> {
    let text = text.trim();
    let query = text.strip_prefix('?').unwrap_or(text);
    let signed = query.split('&').any(|part| part.strip_prefix("sig=").is_some_and(|sig| !sig.is_empty()));
    let whole_url = query.contains("://") || query.contains(['?', '#']);
    if signed && !whole_url && query.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(query);
    }
    Err("holds no shared access signature; expected one line, the query of its URL: `sv=…&sig=…`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_query_of_a_url_and_repeats_nothing_else() {
        let signature = "sv=2026-04-06&se=2099-01-01T00:00:00Z&sr=c&sp=rcw&sig=hunter2%3D";
        for text in [signature.to_owned(), format!("?{signature}\n"), format!("  {signature} ")] {
            let sas = Sas::of_text(&text).unwrap();
            let mut url = Url::parse("https://a.example/c/b?comp=x").unwrap();
            sas.sign(&mut url).unwrap();
            assert_eq!(url.query(), Some(format!("comp=x&{signature}").as_str()));
            assert!(!format!("{sas:?}").contains("hunter2"));
        }
        for text in [
            "",
            "hunter2",
            "sv=1&sig=",
            "https://a.example/c?sv=1&sig=hunter2",
            "sv=1&sig=hunter2 and more",
            "AccountKey=hunter2",
        ] {
            let error = Sas::of_text(text).unwrap_err();
            assert!(error.contains("sig=") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_renewed_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sas");
        assert!(Sas::of_file(&path).unwrap_err().contains(&path.display().to_string()));
        std::fs::write(&path, "sig=first\n").unwrap();
        let sas = Sas::of_file(&path).unwrap();
        for signature in ["sig=first", "sig=second"] {
            std::fs::write(&path, signature).unwrap();
            let mut url = Url::parse("https://a.example/c/b").unwrap();
            sas.sign(&mut url).unwrap();
            assert_eq!(url.query(), Some(signature));
        }
        std::fs::write(&path, "").unwrap();
        let error = sas.sign(&mut Url::parse("https://a.example/c/b").unwrap()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Credential);
    }
}
