//! What a condition is about.

use std::fmt;

use chancery_core::IssuerUrl;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// What a condition is about: a part of one issuer, or of the process.
///
/// In JSON it is `issuer`, which a part of the process has not, and `subject`: the kind and the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    issuer: Option<IssuerUrl>,
    part: Part,
}

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// An issuer as a whole.
    Issuer,
    /// A source of keys.
    Source,
    /// A target.
    Target,
    /// A sink.
    Sink,
    /// A view.
    View,
    /// A serving certificate.
    Certificate,
    /// An `Issuer` object.
    Object,
}

/// The parts, with the name that the configuration gives each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Issuer,
    Source(String),
    Target(String),
    Sink(String),
    View(String),
    Certificate(String),
    Object(String),
}

impl Subject {
    /// An issuer as a whole.
    pub fn issuer(issuer: &IssuerUrl) -> Self {
        Self::of(issuer, Part::Issuer)
    }

    /// A source of keys, by its name in the configuration or the URL of a replica.
    pub fn source(issuer: &IssuerUrl, name: &str) -> Self {
        Self::of(issuer, Part::Source(name.to_owned()))
    }

    /// A target, by its name in the configuration.
    pub fn target(issuer: &IssuerUrl, name: &str) -> Self {
        Self::of(issuer, Part::Target(name.to_owned()))
    }

    /// A sink, by its name in the configuration.
    pub fn sink(issuer: &IssuerUrl, name: &str) -> Self {
        Self::of(issuer, Part::Sink(name.to_owned()))
    }

    /// A view, by the name that the visibility record gives it.
    pub fn view(issuer: &IssuerUrl, name: &str) -> Self {
        Self::of(issuer, Part::View(name.to_owned()))
    }

    /// A serving certificate, by the path of its file. It is the process's and no issuer's.
    pub fn certificate(path: &str) -> Self {
        Self { issuer: None, part: Part::Certificate(path.to_owned()) }
    }

    /// An `Issuer` object, by its name. What it declares is an issuer only once it is accepted.
    pub fn object(name: &str) -> Self {
        Self { issuer: None, part: Part::Object(name.to_owned()) }
    }

    /// Whose part it is.
    pub fn issuer_url(&self) -> Option<&IssuerUrl> {
        self.issuer.as_ref()
    }

    /// Which kind of part it is.
    pub fn kind(&self) -> PartKind {
        match &self.part {
            Part::Issuer => PartKind::Issuer,
            Part::Source(_) => PartKind::Source,
            Part::Target(_) => PartKind::Target,
            Part::Sink(_) => PartKind::Sink,
            Part::View(_) => PartKind::View,
            Part::Certificate(_) => PartKind::Certificate,
            Part::Object(_) => PartKind::Object,
        }
    }

    /// The name of the part, which an issuer as a whole has not.
    pub fn name(&self) -> &str {
        match &self.part {
            Part::Issuer => "",
            Part::Source(name) | Part::Target(name) | Part::Sink(name) | Part::View(name) => name,
            Part::Certificate(path) => path,
            Part::Object(name) => name,
        }
    }

    /// The part of the issuer, as `target bucket`.
    pub fn part(&self) -> String {
        self.part.to_string()
    }

    fn of(issuer: &IssuerUrl, part: Part) -> Self {
        Self { issuer: Some(issuer.clone()), part }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issuer => f.write_str("issuer"),
            Self::Source(name) => write!(f, "source {name}"),
            Self::Target(name) => write!(f, "target {name}"),
            Self::Sink(name) => write!(f, "sink {name}"),
            Self::View(name) => write!(f, "view {name}"),
            Self::Certificate(path) => write!(f, "certificate {path}"),
            Self::Object(name) => write!(f, "Issuer object {name}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.issuer {
            Some(issuer) => write!(f, "{issuer} {}", self.part),
            None => self.part.fmt(f),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if let Some(issuer) = &self.issuer {
            fields.serialize_entry("issuer", issuer)?;
        }
        fields.serialize_entry("subject", &self.part.to_string())?;
        fields.end()
    }
}
