//! The table: one file for each distribution.

use std::fmt;
use std::str::FromStr;

use crate::error::RenderError;
use crate::guide;
use crate::output::{Flag, Parts, Rendered, Step};
use crate::request::{Phase, Request};
use crate::row::{KeyFiles, Row, Scene};
use crate::state::State;

mod cluster_api;
mod eks_anywhere;
mod k0s;
mod k3s;
mod kamaji;
mod kind;
mod kops;
mod kubeadm;
mod kubespray;
mod openshift;
mod rke2;
mod systemd;
mod talos;
mod typhoon;

/// The rows, in the order in which they are offered.
static ROWS: [&Row; 14] = [
    &kubeadm::ROW,
    &kind::ROW,
    &cluster_api::ROW,
    &k3s::ROW,
    &rke2::ROW,
    &talos::ROW,
    &kops::ROW,
    &k0s::ROW,
    &kubespray::ROW,
    &openshift::ROW,
    &typhoon::ROW,
    &eks_anywhere::ROW,
    &kamaji::ROW,
    &systemd::ROW,
];

/// A distribution of the table.
#[derive(Clone, Copy)]
pub struct Distribution(&'static Row);

impl Distribution {
    /// All of them, in the order in which they are offered.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.into_iter().map(Self)
    }

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// What the table says of it.
    pub fn row(self) -> &'static Row {
        self.0
    }

    /// Renders the files, the steps and the flags.
    ///
    /// # Errors
    /// When the distribution, or its version, cannot do what is asked for; with the remedy.
    pub fn render(self, request: &Request) -> Result<Rendered, RenderError> {
        let row = self.0;
        let form = row.form(request.version)?;
        let mut scene = Scene { request, form, state: State::of(request)? };
        row.check(&scene)?;
        if let Some(prepare) = row.prepare {
            prepare(&mut scene)?;
        }
        let Parts { files, mut steps, mut warnings } = (row.render)(&scene);
        if scene.phase() == Some(Phase::Wait) {
            let what = "Nothing is changed: the files are those of `switch`. Wait for the longest token of the old issuer";
            steps = vec![Step { what: what.to_owned(), commands: Vec::new() }];
        }
        warnings.extend(guide::warnings(&scene, row));
        let mut flags = scene.state.flags();
        flags.extend(key_flags(row, request));
        let keys = &scene.state.keys;
        Ok(Rendered {
            distribution: row.title,
            phase: scene.phase(),
            files,
            steps,
            proof: row.proof,
            checks: guide::checks(&scene),
            warnings,
            flags,
            signing_key: keys.first().map(|key| key.key_id().clone()),
            verifying_keys: keys.iter().map(|key| key.key_id().clone()).collect(),
        })
    }
}

/// The flags of the key files, which the distribution sets itself.
fn key_flags(row: &Row, request: &Request) -> [Flag; 2] {
    let (signing, verifying) = match row.key_files {
        KeyFiles::Fixed { signing, verifying } => (signing.to_owned(), verifying.to_owned()),
        KeyFiles::Asked => {
            let folder = &request.place.key_directory;
            (format!("{folder}/sa.key"), format!("{folder}/sa.pub"))
        }
    };
    [Flag::new("service-account-signing-key-file", signing), Flag::new("service-account-key-file", verifying)]
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Distribution {}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::all().find(|distribution| distribution.as_str() == text);
        found.ok_or_else(|| DistributionError(text.to_owned()))
    }
}

/// A name that no distribution has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a distribution that is known here; expected one of {names}", names = names())]
pub struct DistributionError(String);

fn names() -> String {
    Distribution::all().map(Distribution::as_str).collect::<Vec<_>>().join(", ")
}
