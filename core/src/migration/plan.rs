//! The steps, in their order, each with its reason and how far it has come.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use super::problems::{Problem, problems};
use super::scene::Scene;
use super::{ApiServer, Intent, Observed, Party, Trusts, guide};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The old issuer.
    pub from: String,
    /// The new one.
    pub to: String,
    /// What each replica showed, or why it could not be asked.
    pub api_servers: BTreeMap<String, Shown>,
    /// What is out of order and refuses live tokens, or is about to.
    pub problems: Vec<Problem>,
    /// The steps, those that are done included.
    pub steps: Vec<Step>,
}

/// What is known of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// What it showed.
    Seen(ApiServer),
    /// It could not be asked.
    Unseen {
        /// Why.
        problem: String,
    },
}

/// The phases, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The new issuer's documents.
    Publish,
    /// The new issuer at a relying party.
    Register,
    /// The new issuer is accepted.
    Accept,
    /// The new issuer is signed for.
    Switch,
    /// The last token of the old one dies.
    Wait,
    /// The old one is not accepted any more.
    Drop,
    /// The old issuer at a relying party goes.
    Deregister,
    /// The old issuer's documents go.
    Unpublish,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Publish,
        Self::Register,
        Self::Accept,
        Self::Switch,
        Self::Wait,
        Self::Drop,
        Self::Deregister,
        Self::Unpublish,
    ];
}

impl FromStr for Phase {
    type Err = PhaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|phase| phase.to_string() == text);
        found.ok_or_else(|| PhaseError(text.to_owned()))
    }
}

/// A name that no phase has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a phase; expected publish, register, accept, switch, wait, drop, deregister or unpublish, in this order"
)]
pub struct PhaseError(String);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Of which phase.
    pub phase: Phase,
    /// What is to be done, and where.
    pub what: String,
    /// Why, and why there.
    pub because: String,
    /// How far it has come.
    pub progress: Progress,
    /// Flags to set and commands to type.
    pub how: Vec<String>,
    /// How to tell that it is done.
    pub check: String,
}

/// How far a step has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Progress {
    /// It is done.
    Done,
    /// It may be done now.
    ToDo,
    /// It goes by itself.
    Waiting {
        /// For so long still.
        seconds_left: u64,
    },
    /// Something has to be done first.
    Blocked {
        /// What.
        by: Vec<String>,
    },
}

impl Shown {
    fn of(asked: &Result<ApiServer, String>) -> Self {
        match asked {
            Ok(seen) => Self::Seen(seen.clone()),
            Err(why) => Self::Unseen { problem: why.clone() },
        }
    }
}

impl Plan {
    /// The same without the steps of later phases.
    #[must_use]
    pub fn through(mut self, last: Phase) -> Self {
        self.steps.retain(|step| step.phase <= last);
        self
    }

    /// Whether nothing is left to do or to wait for.
    pub fn is_done(&self) -> bool {
        self.problems.is_empty() && self.steps.iter().all(|step| step.progress == Progress::Done)
    }
}

/// What is to be done, by what was seen.
pub fn plan(intent: &Intent, observed: &Observed) -> Plan {
    let scene = Scene { intent, observed };
    let servers = || observed.api_servers.keys();
    let mut steps = vec![scene.publish()];
    steps.extend(intent.parties.iter().map(|party| scene.register(party)));
    steps.extend(servers().map(|server| scene.accept(server)));
    steps.extend(servers().map(|server| scene.switch(server)));
    steps.push(scene.wait());
    steps.extend(servers().map(|server| scene.drop(server)));
    steps.extend(intent.parties.iter().map(|party| scene.deregister(party)));
    steps.push(scene.unpublish());
    Plan {
        from: intent.from.clone(),
        to: intent.to.to_string(),
        api_servers: observed
            .api_servers
            .iter()
            .map(|(name, asked)| (name.clone(), Shown::of(asked)))
            .collect(),
        problems: problems(&scene),
        steps,
    }
}

impl<'a> Scene<'a> {
    fn asked(&self, server: &str) -> Result<&'a ApiServer, Vec<String>> {
        match self.observed.api_servers.get(server) {
            Some(Ok(seen)) => Ok(seen),
            _ => Err(vec![format!("what {server} does is not known")]),
        }
    }

    fn unseen(&self) -> impl Iterator<Item = String> {
        let asked = self.observed.api_servers.iter().filter(|(_, asked)| asked.is_err());
        asked.map(|(name, _)| format!("what {name} does is not known"))
    }

    fn publish(&self) -> Step {
        let to = &self.intent.to;
        let documents = &self.observed.to_documents;
        let because = match documents.are_good() {
            true => "whoever is to trust an issuer reads its documents first".to_owned(),
            false => format!("relying parties could not verify a token: {}", documents.in_words()),
        };
        Step {
            phase: Phase::Publish,
            what: format!("publish the documents of {to} with every key that the replicas show"),
            because,
            progress: done_or(documents.are_good(), Vec::new()),
            how: guide::publish(self.intent),
            check: format!("chancery verify {to}"),
        }
    }

    fn register(&self, party: &Party) -> Step {
        let to = &self.intent.to;
        let by = self.invisible().into_iter().collect();
        Step {
            phase: Phase::Register,
            what: format!("register {to} at {} ({}), beside the old one", party.name, party.kind),
            because: "tokens of the new issuer are refused there otherwise, from the first one on".to_owned(),
            progress: done_or(party.trusts != Trusts::From, by),
            how: guide::register(self.intent, party),
            check: guide::registered(self.intent, party),
        }
    }

    fn accept(&self, server: &str) -> Step {
        let progress = match self.asked(server) {
            Ok(seen) => done_or(seen.accepts_to, Vec::new()),
            Err(by) => Progress::Blocked { by },
        };
        Step {
            phase: Phase::Accept,
            what: format!("restart {server} with both issuers, the old one first"),
            because: "a token that one replica signs comes to all of them".to_owned(),
            progress,
            how: guide::flags(&[&self.intent.from, self.intent.to.as_str()], None),
            check: "it is shown to accept both".to_owned(),
        }
    }

    fn switch(&self, server: &str) -> Step {
        let to = &self.intent.to;
        let progress = match self.asked(server) {
            Ok(seen) => done_or(self.signs_for_new(seen), self.before_switch()),
            Err(by) => Progress::Blocked { by },
        };
        let mut how = guide::flags(&[to.as_str(), &self.intent.from], Some(to));
        how.push(format!("where a signer of KEP-740 signs: its --issuer={to}, in the same restart"));
        Step {
            phase: Phase::Switch,
            what: format!("restart {server} with both issuers, the new one first"),
            because: "it signs for the first one, and goes on accepting the other".to_owned(),
            progress,
            how,
            check: "it is shown to sign for the new issuer".to_owned(),
        }
    }

    /// Everything that must be so before anybody signs for the new issuer.
    fn before_switch(&self) -> Vec<String> {
        let to = &self.intent.to;
        let parties = self.intent.parties.iter().filter(|party| party.trusts == Trusts::From);
        let untrusting = parties.map(|party| format!("{} does not trust {to} yet", party.name));
        let refusing = self.seen().filter(|(_, seen)| !seen.accepts_to);
        let refusing = refusing.map(|(name, _)| format!("{name} does not accept {to} yet"));
        self.invisible().into_iter().chain(untrusting).chain(refusing).chain(self.unseen()).collect()
    }

    fn invisible(&self) -> Option<String> {
        let (to, are_good) = (&self.intent.to, self.observed.to_documents.are_good());
        (!are_good).then(|| format!("the documents of {to} are not visible with every key"))
    }

    fn wait(&self) -> Step {
        let (intent, waited) = (self.intent, self.observed.waited.as_secs());
        let progress = match self.left() {
            Some(Duration::ZERO) => Progress::Done,
            Some(left) => Progress::Waiting { seconds_left: left.as_secs() },
            None => {
                let others = self.seen().filter(|(_, seen)| !self.signs_for_new(seen));
                let others = others.map(|(name, seen)| format!("{name} signs for {}", seen.signs_for));
                Progress::Blocked { by: others.chain(self.unseen()).collect() }
            }
        };
        Step {
            phase: Phase::Wait,
            what: format!("wait for {} s, of which {waited} s are over", intent.wait().as_secs()),
            because: format!(
                "a token of the old issuer lives for up to {} s, and clocks may be wrong by {} s",
                intent.longest_token.as_secs(),
                intent.skew.as_secs()
            ),
            progress,
            how: vec![
                "run this now and then, from the same machine: the time between two runs counts where every replica signed \
                 for the new issuer at both"
                    .to_owned(),
            ],
            check: "serviceaccount_stale_tokens_total of kube-apiserver does not grow".to_owned(),
        }
    }

    fn drop(&self, server: &str) -> Step {
        let to = &self.intent.to;
        let progress = match self.asked(server) {
            Ok(seen) => self.after_wait(!seen.accepts_from),
            Err(by) => Progress::Blocked { by },
        };
        Step {
            phase: Phase::Drop,
            what: format!("restart {server} with the new issuer alone"),
            because: "nobody has a token of the old one any more".to_owned(),
            progress,
            how: guide::flags(&[to.as_str()], Some(to)),
            check: "it is shown to accept the new one alone".to_owned(),
        }
    }

    fn deregister(&self, party: &Party) -> Step {
        let Intent { from, .. } = self.intent;
        Step {
            phase: Phase::Deregister,
            what: format!("remove {from} from {} ({})", party.name, party.kind),
            because: "whoever gets hold of an old key or of the old URL could sign in there".to_owned(),
            progress: self.after_wait(party.trusts == Trusts::To),
            how: guide::deregister(self.intent, party),
            check: format!("then say `trusts: to` of {} in the plan file", party.name),
        }
    }

    fn unpublish(&self) -> Step {
        let from = &self.intent.from;
        let is_gone = self.observed.from_documents.as_ref().is_none_or(|documents| !documents.is_served);
        let trusting = self.intent.parties.iter().filter(|party| party.trusts != Trusts::To);
        let trusting = trusting.map(|party| format!("{} trusts it", party.name));
        let accepting = self.seen().filter(|(_, seen)| seen.accepts_from);
        let accepting = accepting.map(|(name, _)| format!("{name} accepts it"));
        let by: Vec<String> = trusting.chain(accepting).chain(self.unseen()).collect();
        let progress = match by.is_empty() {
            true => self.after_wait(is_gone),
            false => Progress::Blocked { by },
        };
        Step {
            phase: Phase::Unpublish,
            what: format!("take the documents of {from} away"),
            because: "nobody reads them any more, and an address that is given up may come to somebody else"
                .to_owned(),
            progress,
            how: guide::unpublish(self.intent),
            check: format!("{from} answers with no discovery document"),
        }
    }

    /// A step that is safe once the wait is over.
    fn after_wait(&self, is_done: bool) -> Progress {
        match self.is_waited() {
            true => done_or(is_done, Vec::new()),
            false => Progress::Blocked {
                by: vec!["tokens of the old issuer may live: the wait is not over".to_owned()],
            },
        }
    }
}

/// Done; or to do, unless something is in the way.
fn done_or(is_done: bool, by: Vec<String>) -> Progress {
    match is_done {
        true => Progress::Done,
        false if by.is_empty() => Progress::ToDo,
        false => Progress::Blocked { by },
    }
}
