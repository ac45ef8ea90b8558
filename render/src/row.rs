//! What the table says of a distribution.

use chancery_core::Algorithm;

use crate::error::RenderError;
use crate::output::Parts;
use crate::request::{Phase, Request, Stage};
use crate::state::State;
use crate::version::Version;

/// One distribution.
#[derive(Debug)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name as its makers write it.
    pub title: &'static str,
    /// Whose version is asked for.
    pub version_of: &'static str,
    /// Its forms, the oldest first. Each counts until the next one.
    pub forms: &'static [Form],
    /// Whether it takes RSA keys alone.
    pub rsa_only: bool,
    /// Where a node keeps the key that signs, and those that are accepted.
    pub key_files: KeyFiles,
    /// How to see the flags in effect.
    pub proof: &'static str,
    /// What is known to break here, with where it was reported.
    pub known: &'static [&'static str],
    /// What it adds to a request, or has against it, that the columns of the table cannot say.
    pub(crate) prepare: Option<Prepare>,
    /// What makes the files and steps. Everything that it cannot do was refused before.
    pub(crate) render: fn(&Scene<'_>) -> Parts,
}

/// See [`Row::prepare`].
pub(crate) type Prepare = fn(&mut Scene<'_>) -> Result<(), RenderError>;

/// The files of a node that flags name.
#[derive(Debug)]
pub enum KeyFiles {
    /// These.
    Fixed {
        /// The key that signs.
        signing: &'static str,
        /// The keys that are accepted.
        verifying: &'static str,
    },
    /// `sa.key` and `sa.pub` in a folder that is asked for.
    Asked,
}

/// What some versions of a distribution can do.
#[derive(Debug)]
pub struct Form {
    /// The first version.
    pub since: Version,
    /// How they are told.
    pub how: &'static str,
    /// How many issuers they take.
    pub issuers: Issuers,
    /// How they change keys.
    pub keys: KeyChange,
}

/// How many issuers a form takes.
#[derive(Debug)]
pub enum Issuers {
    /// Several.
    Several,
    /// One: nobody can change the issuer of a running cluster without refusing tokens.
    One {
        /// Why.
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The one that was before is accepted for a day, by itself, and never the one that comes.
    Automatic,
}

/// How a form changes keys.
#[derive(Debug)]
pub enum KeyChange {
    /// By files that a person puts there.
    Files,
    /// By a tool of the distribution, or an object that holds a private key.
    Tool,
    /// Not at all.
    No {
        /// Why.
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
}

/// A request in front of a row.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) request: &'a Request,
    pub(crate) form: &'a Form,
    pub(crate) state: State<'a>,
}

impl Scene<'_> {
    /// The phase; none for a new cluster.
    pub(crate) fn phase(&self) -> Option<Phase> {
        match self.request.stage {
            Stage::New { .. } => None,
            Stage::Change { phase, .. } => Some(phase),
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.phase().is_none()
    }

    /// Whether a person has to bring the private half of the new key now.
    pub(crate) fn brings_key(&self) -> bool {
        match self.phase() {
            None => !self.state.keys.is_empty(),
            Some(phase) => self.state.keys_change && phase == Phase::Switch,
        }
    }

    /// Whether the public keys are written into files.
    pub(crate) fn has_keys(&self) -> bool {
        !self.state.keys.is_empty()
    }
}

impl Row {
    /// The form of a version; the newest without one.
    pub(crate) fn form(&self, version: Option<Version>) -> Result<&Form, RenderError> {
        let fits = |form: &&Form| version.is_none_or(|version| version >= form.since);
        let oldest = self.forms.first().map_or(Version::new(0, 0), |form| form.since);
        self.forms.iter().rfind(fits).ok_or(RenderError::TooOld {
            distribution: self.title,
            version: version.unwrap_or(oldest),
            oldest,
            remedy: "upgrade first",
        })
    }

    /// What the table says against a request.
    pub(crate) fn check(&self, scene: &Scene<'_>) -> Result<(), RenderError> {
        let distribution = self.title;
        let version =
            || scene.request.version.map_or_else(|| "here".to_owned(), |version| version.to_string());
        let is_change = !scene.is_new();
        match scene.form.issuers {
            Issuers::One { why, remedy } if is_change || !scene.state.accepted().is_empty() => {
                return Err(RenderError::OneIssuer { distribution, version: version(), why, remedy });
            }
            Issuers::Automatic if scene.phase() == Some(Phase::Accept) => {
                let why = "its operator takes a new issuer and keeps accepting the old one in a single step";
                let remedy = "register the new issuer at every relying party, then take `--phase switch`";
                return Err(RenderError::NoAccept { distribution, why, remedy });
            }
            Issuers::Automatic if scene.is_new() && !scene.state.accepted().is_empty() => {
                let why = "its operator writes the list of issuers itself";
                let remedy = "give no --accepted-issuer";
                return Err(RenderError::OneIssuer { distribution, version: version(), why, remedy });
            }
            _ => {}
        }
        if let KeyChange::No { why, remedy } = scene.form.keys
            && scene.state.keys_change
        {
            return Err(RenderError::OneKey { distribution, version: version(), why, remedy });
        }
        match scene.state.keys.iter().find(|key| self.rsa_only && key.algorithm() != Algorithm::Rs256) {
            Some(key) => Err(RenderError::RsaOnly {
                distribution,
                key_id: key.key_id().to_string(),
                kind: key.description(),
            }),
            None => Ok(()),
        }
    }
}
