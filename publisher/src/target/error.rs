//! Why a target cannot be used.

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Nothing says where.
    #[error("a target names no place; expected one of `directory`, `s3`, `azureBlob` and `gcs`")]
    NoLocation,
    /// More than one place.
    #[error("a target names several places, `{given}`; expected one, so make a target of each")]
    SeveralLocations {
        /// The fields that are set.
        given: String,
    },
    /// A value that cannot be meant so.
    #[error("the target's `{field}` is {came}; {remedy}")]
    IllegalValue {
        /// The field, as configuration spells it.
        field: &'static str,
        /// What came.
        came: String,
        /// What is expected.
        remedy: String,
    },
    /// The program was built without it.
    #[error("the target names `{location}`, which this build lacks; build with `--features {feature}`")]
    NotBuilt {
        /// The field of the configuration.
        location: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
}

impl TargetError {
    pub(crate) fn illegal(
        field: &'static str,
        came: impl std::fmt::Debug,
        remedy: impl std::fmt::Display,
    ) -> Self {
        Self::IllegalValue { field, came: format!("{came:?}"), remedy: remedy.to_string() }
    }
}
