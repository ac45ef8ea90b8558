//! Why a configuration is refused.

use std::path::{Path, PathBuf};

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}; give the path of a chancery.yaml with --config", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The YAML is malformed, has an unknown field or a value of the wrong kind; the text names line and column.
    #[error("{}: {error}", path.display())]
    Yaml {
        /// Which file.
        path: PathBuf,
        /// The parser's words, with line and column.
        error: String,
    },
    /// A value that cannot be used.
    #[error("{}: line {line}: {problem}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Line in it, counted from 1.
        line: u64,
        /// What came, what was expected, what to do.
        problem: String,
    },
}

impl ConfigError {
    /// A value in `line` of the file at `path` cannot be used, for the reason in `problem`.
    pub(crate) fn value(path: &Path, line: u64, problem: String) -> Self {
        Self::Value { path: path.to_owned(), line, problem }
    }

    /// What `line` of the file at `path` names cannot be opened.
    pub(crate) fn refuse(path: &Path, line: u64, problem: &dyn std::error::Error) -> Self {
        Self::value(path, line, crate::error_chain(problem))
    }
}
