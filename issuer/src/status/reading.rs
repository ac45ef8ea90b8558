//! Reads what the process knows, once, into a snapshot.

use std::sync::Arc;

use chancery_core::IssuerUrl;
use jiff::Timestamp;

use super::snapshot::{CertificateSnapshot, IssuerDetails, IssuerSnapshot, LastGood, ReplicaSnapshot, Seen};
use crate::conditions::{Condition, ConditionStore, Conditions, PartKind};
use crate::metrics::{Metrics, SinkLabels, SourceLabels, TargetLabels};
use crate::roster::{Member, OpenIssuer, Roster};

/// Where it is read.
#[derive(Clone, Debug)]
pub struct Knowledge {
    /// The issuers, and what each shows.
    pub issuers: Roster,
    /// The conditions.
    pub conditions: Arc<ConditionStore>,
    /// Who publishes, and when each part was last well.
    pub metrics: Arc<Metrics>,
}

impl Knowledge {
    /// What holds for the whole process at `at`.
    pub fn replica(&self, at: Timestamp) -> ReplicaSnapshot {
        // They are no issuer's, and stand before all that are.
        let of_process = |all: &Conditions| -> Vec<Condition> {
            all.iter().take_while(|it| it.subject.issuer_url().is_none()).cloned().collect()
        };
        let of_kind = |kind, all: &[Condition]| -> Vec<Condition> {
            all.iter().filter(|it| it.subject.kind() == kind).cloned().collect()
        };
        let all = self.conditions.look(of_process);
        let mut objects = of_kind(PartKind::Object, &all);
        objects.retain(|it| !it.is_good());
        let certificates = of_kind(PartKind::Certificate, &all).into_iter().map(|condition| {
            let expires_at = self.metrics.certificate_expiry(condition.subject.name());
            CertificateSnapshot { condition, expires_at }
        });
        ReplicaSnapshot {
            at,
            version: env!("CARGO_PKG_VERSION"),
            publishes: self.metrics.is_leader(),
            certificates: certificates.collect(),
            objects,
        }
    }

    /// What is needed of each issuer to say how it stands, one after another.
    pub fn issuers(&self) -> impl Iterator<Item = IssuerSnapshot> {
        self.issuers.members().into_iter().map(|member| {
            let url = &member.progress.issuer;
            let bad = |all: &Conditions| all.of_issuer(url).filter(|it| !it.is_good()).cloned().collect();
            let conditions = self.conditions.look(bad);
            snapshot(member, conditions)
        })
    }

    /// Everything about one issuer, if it is there.
    pub fn issuer(&self, url: &IssuerUrl) -> Option<IssuerDetails> {
        let member = self.issuers.member(url)?;
        let conditions = self.conditions.look(|all| all.of_issuer(url).cloned().collect());
        let issuer = snapshot(member, conditions);
        let last_good = self.last_good(&issuer);
        Some(IssuerDetails { issuer, last_good, last_look: self.metrics.last_verify(url) })
    }

    fn last_good(&self, issuer: &IssuerSnapshot) -> Vec<LastGood> {
        let url = issuer.url();
        let sources = issuer.conditions.iter().filter(|it| it.subject.kind() == PartKind::Source);
        let sources = sources.map(|it| (PartKind::Source, it.subject.name()));
        let targets = issuer.declared.targets.iter().map(|name| (PartKind::Target, name.as_str()));
        let sinks = issuer.declared.sinks.iter().map(|name| (PartKind::Sink, name.as_str()));
        let all = sources.chain(targets).chain(sinks).filter_map(|(kind, name)| {
            let at = match kind {
                PartKind::Target => self.metrics.last_publish(&TargetLabels::new(url, name)),
                PartKind::Sink => self.metrics.sinks().last_upload(&SinkLabels::new(url, name)),
                _ => self.metrics.sources().last_success(&SourceLabels::new(url, name)),
            };
            Some(LastGood { kind, name: name.to_owned(), at: at? })
        });
        all.collect()
    }
}

fn snapshot(member: Member, conditions: Vec<Condition>) -> IssuerSnapshot {
    let Member { progress, declared, opened } = member;
    let Some(OpenIssuer { publications, visibility, known }) = opened else {
        let (known, seen) = Default::default();
        return IssuerSnapshot { progress, declared, publication: None, known, seen, conditions };
    };
    let shown = visibility.borrow();
    let (record, obstacle) = shown.now();
    let seen = Seen { record, obstacle, usual_wait: shown.usual_wait() };
    drop(shown);
    let publication = publications.borrow().clone();
    IssuerSnapshot { progress, declared, publication, known: known.now(), seen, conditions }
}
