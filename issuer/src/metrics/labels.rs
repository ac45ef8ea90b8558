//! The labels of the metrics, and the closed sets of their values.

use std::fmt;

use chancery_core::IssuerUrl;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// A serving certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CertificateLabels {
    /// The path of its file.
    pub certificate: String,
}

/// Where a key of an issuer stands, as this replica's sources show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyState {
    /// A source shows it.
    Live,
    /// Every source dropped it; it stays published for its retention time.
    Retained,
    /// Its retention time is over and we withdrew it.
    Withdrawn,
}

impl KeyState {
    /// All states, in the order of a key's life.
    pub const ALL: [Self; 3] = [Self::Live, Self::Retained, Self::Withdrawn];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Retained => "retained",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// How an attempt to bring a target or a sink up to date ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublishResult {
    /// Something was written and the place is as it should be.
    Written,
    /// The place was already as it should be.
    Unchanged,
    /// Another writer was faster; the place is read again.
    Raced,
    /// The place holds what we may not replace; a person must decide.
    Blocked,
    /// The place could not be read or written; it is tried again.
    Failed,
}

impl PublishResult {
    /// All results.
    pub(super) const ALL: [Self; 5] =
        [Self::Written, Self::Unchanged, Self::Raced, Self::Blocked, Self::Failed];

    /// Whether the place is as it should be.
    pub const fn is_up_to_date(self) -> bool {
        matches!(self, Self::Written | Self::Unchanged)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Raced => "raced",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
        }
    }
}

/// What became of changed certificate files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateReload {
    /// New connections get the new pair.
    Replaced,
    /// The new pair cannot be used; the old one stays.
    Refused,
}

impl CertificateReload {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Refused => "refused",
        }
    }
}

/// Derived label values would carry the names of Rust variants.
macro_rules! encode_as_str {
    ($($label:ty),*) => {$(
        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
                EncodeLabelValue::encode(&self.as_str(), encoder)
            }
        }
    )*};
}

encode_as_str!(KeyState, PublishResult, CertificateReload);

/// One target of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TargetLabels {
    issuer: String,
    target: String,
}

impl TargetLabels {
    /// The target that the configuration calls `target`.
    pub fn new(issuer: &IssuerUrl, target: impl Into<String>) -> Self {
        Self { issuer: issuer.to_string(), target: target.into() }
    }
}

/// One sink of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SinkLabels {
    issuer: String,
    sink: String,
}

impl SinkLabels {
    /// The sink that the configuration calls `sink`.
    pub fn new(issuer: &IssuerUrl, sink: impl Into<String>) -> Self {
        Self { issuer: issuer.to_string(), sink: sink.into() }
    }
}

/// One key source of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct SourceLabels {
    issuer: String,
    source: String,
}

impl SourceLabels {
    pub(super) fn is_of(&self, issuer: &IssuerUrl) -> bool {
        self.issuer == issuer.as_str()
    }

    /// The source that the configuration calls `source`.
    pub fn new(issuer: &IssuerUrl, source: impl Into<String>) -> Self {
        Self { issuer: issuer.to_string(), source: source.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PublishLabels {
    issuer: String,
    target: String,
    result: PublishResult,
}

impl PublishLabels {
    pub(super) fn new(target: &TargetLabels, result: PublishResult) -> Self {
        Self { issuer: target.issuer.clone(), target: target.target.clone(), result }
    }
}

/// One view of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct ViewLabels {
    issuer: String,
    view: String,
}

impl ViewLabels {
    pub(super) fn is_of(&self, issuer: &IssuerUrl) -> bool {
        self.issuer == issuer.as_str()
    }

    /// The view that the visibility record calls `view`.
    pub fn new(issuer: &IssuerUrl, view: impl Into<String>) -> Self {
        Self { issuer: issuer.to_string(), view: view.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VisibleLabels {
    issuer: String,
    view: String,
    kid: String,
}

impl VisibleLabels {
    pub(super) fn new(view: &ViewLabels, kid: &str) -> Self {
        Self { issuer: view.issuer.clone(), view: view.view.clone(), kid: kid.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DriftLabels {
    issuer: String,
    target: String,
    kind: &'static str,
}

impl DriftLabels {
    pub(super) fn new(target: &TargetLabels, kind: &'static str) -> Self {
        Self { issuer: target.issuer.clone(), target: target.target.clone(), kind }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UploadLabels {
    issuer: String,
    sink: String,
    result: PublishResult,
}

impl UploadLabels {
    pub(super) fn new(sink: &SinkLabels, result: PublishResult) -> Self {
        Self { issuer: sink.issuer.clone(), sink: sink.sink.clone(), result }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct IssuerLabels {
    pub(super) issuer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StateLabels {
    pub(super) issuer: String,
    pub(super) state: KeyState,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct KeyLabels {
    pub(super) issuer: String,
    pub(super) kid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SeverityLabels {
    pub(super) issuer: String,
    pub(super) severity: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ObjectLabels {
    pub(super) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    pub(super) code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReloadLabels {
    pub(super) result: CertificateReload,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VersionLabels {
    pub(super) version: String,
}
