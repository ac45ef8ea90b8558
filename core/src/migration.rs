//! Changing the issuer of a cluster that runs, so that no live token is refused: what is to be done, in which order, and
//! what is out of order.
//!
//! kube-apiserver signs for the first of its `--service-account-issuer` flags and accepts all of them. Each replica is
//! restarted three times:
//!
//! | phase | what | safe when |
//! |---|---|---|
//! | publish | documents of the new issuer, with every key | always |
//! | register | the new issuer at every relying party, beside the old one | the documents are visible: clouds read them |
//! | accept | both flags, the old one first | always |
//! | switch | both flags, the new one first | every replica accepts it, every relying party trusts it |
//! | wait | until the last token of the old issuer is dead | every replica has switched |
//! | drop | the new flag alone | the wait is over |
//! | deregister | the old issuer at every relying party | the wait is over |
//! | unpublish | the old issuer's documents | nobody trusts it any more |
//!
//! [`plan()`] decides, and touches nothing. What it is told of a replica is what that one showed when it was asked itself: a
//! load balancer shows one at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::RelyingParty;
use crate::{IssuerUrl, KeyId};

mod guide;
mod plan;
mod problems;
mod scene;
mod text;
mod wait;

pub use plan::{Phase, PhaseError, Plan, Progress, Shown, Step, plan};
pub use problems::Problem;
pub use wait::{Moment, Signing, WaitRecord};

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The issuer that tokens have had until now, as kube-apiserver's flag has it: it may be no URL that anybody reads.
    pub from: String,
    /// The one that they shall have.
    pub to: IssuerUrl,
    /// The longest lifetime of a token that was signed for the old one.
    pub longest_token: Duration,
    /// How wrong the clocks of relying parties may be.
    pub skew: Duration,
    /// Everybody outside who verifies tokens.
    pub parties: Vec<Party>,
}

impl Intent {
    /// Whether nobody outside of the cluster could read the old issuer's documents: it is what kubeadm and others set.
    pub fn is_from_inside(&self) -> bool {
        let host = self.from.parse().map(|url: IssuerUrl| url.host().to_owned()).unwrap_or_default();
        host.is_empty() || host == "kubernetes.default.svc" || host.starts_with("kubernetes.default.svc.")
    }

    /// For how long every replica has to sign for the new issuer before the old one may go.
    pub fn wait(&self) -> Duration {
        self.longest_token.saturating_add(self.skew)
    }
}

/// A relying party, as a person declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Party {
    /// What a person calls it.
    pub name: String,
    /// What it is.
    pub kind: RelyingParty,
    /// Further arguments of `chancery trust` for it.
    #[serde(default)]
    pub arguments: String,
    /// Which of the two issuers it trusts.
    #[serde(default)]
    pub trusts: Trusts,
}

/// Which issuers a relying party trusts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trusts {
    /// The old one.
    #[default]
    From,
    /// Both.
    Both,
    /// The new one.
    To,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// What each replica of the control plane showed, by its own address; or why it could not be asked.
    pub api_servers: BTreeMap<String, Result<ApiServer, String>>,
    /// The old issuer's documents; `None` where nobody outside the cluster could read them.
    pub from_documents: Option<Documents>,
    /// The new issuer's.
    pub to_documents: Documents,
    /// For how long every replica has signed for the new issuer.
    pub waited: Duration,
}

/// What one replica showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServer {
    /// The issuer that it signs for.
    pub signs_for: String,
    /// Whether it accepts tokens of the old one.
    pub accepts_from: bool,
    /// Whether it accepts tokens of the new one.
    pub accepts_to: bool,
    /// The keys that it verifies with and shows.
    pub keys: BTreeSet<KeyId>,
}

/// What an anonymous reader sees of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Documents {
    /// Whether a discovery document of this issuer is there.
    pub is_served: bool,
    /// What is wrong with what is there, keys that are missing included.
    pub problems: Vec<String>,
}

impl Documents {
    /// Whether they are there with every key, and nothing is wrong with them.
    pub fn are_good(&self) -> bool {
        self.is_served && self.problems.is_empty()
    }
}
