//! Why a sink's configuration cannot be meant so.

use std::fmt;
use std::path::PathBuf;

/// Why a sink cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkConfigError {
    /// Nothing says where.
    #[error("a sink names no place; expected one of `vault`, `configMap`, `gcpProvider` and `httpPut`")]
    NoPlace,
    /// More than one place.
    #[error("a sink names several places, `{given}`; expected one, so make a sink of each")]
    SeveralPlaces {
        /// The fields that are set.
        given: String,
    },
    /// A value that cannot be meant so.
    #[error("the sink's `{field}` is {came}; {remedy}")]
    IllegalValue {
        /// The field, as configuration spells it.
        field: &'static str,
        /// What came.
        came: String,
        /// What is expected.
        remedy: String,
    },
    /// A file that cannot be used.
    #[error("the sink's `{field}` {} cannot be used ({problem}); give {expected}", path.display())]
    File {
        /// The field, as configuration spells it.
        field: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        problem: String,
        /// What is expected.
        expected: &'static str,
    },
    /// The program was built without it.
    #[error("the sink names `{place}`, which this build lacks; build with `--features {feature}`")]
    NotBuilt {
        /// The field of the configuration.
        place: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
}

impl SinkConfigError {
    pub(crate) fn illegal(field: &'static str, came: impl fmt::Debug, remedy: impl fmt::Display) -> Self {
        Self::IllegalValue { field, came: format!("{came:?}"), remedy: remedy.to_string() }
    }
}
