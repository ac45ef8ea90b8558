//! The issuers that objects of a cluster declare, among those of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::IssuerUrl;
use tracing::{error, info, warn};

use super::control::ControlError;
use super::issuers::Issuers;
use crate::conditions::Subject;
use crate::resource::{DeclaredIssuer, Standing};

impl Issuers {
    /// Takes over what objects declare now.
    pub async fn declare(&mut self, objects: Arc<Vec<DeclaredIssuer>>) {
        self.objects = objects;
        // Nothing that is refused here can be added: the places of all of them were held against each other before.
        if let Err(problem) = self.follow_objects().await {
            error!("issuers of objects stay what they are: {problem}");
        }
        self.environment().roster.has_objects();
    }

    /// Has the issuers of objects run that may, by the specs that they have, and no others; and says of each object what
    /// became of it.
    pub(super) async fn follow_objects(&mut self) -> Result<(), ControlError> {
        let standings = self.standings();
        let wanted = self.wanted(&standings);
        let is_outdated = |url: &IssuerUrl, declared: &[u8; 32]| {
            wanted.get(url).is_none_or(|object| declared_by(object) != Some(*declared))
        };
        self.let_go_of(is_outdated).await?;
        let coming: Vec<&IssuerUrl> = wanted.keys().filter(|url| !self.members.contains_key(*url)).collect();
        let coming: Vec<IssuerUrl> = coming.into_iter().cloned().collect();
        if !coming.is_empty() {
            self.serve_with(&coming)?;
        }
        for url in &coming {
            if let Some(config) = wanted.get(url).and_then(|object| object.config.as_deref()) {
                info!(issuer = %url, "added, as an Issuer object declares");
                self.spawn(config.clone(), true);
            }
        }
        self.tell(&standings);
        Ok(())
    }

    /// Ends the issuers of objects that lose against an entry of the configuration.
    pub(super) async fn let_objects_give_way(&mut self) -> Result<(), ControlError> {
        let wanted = self.wanted(&self.standings());
        self.let_go_of(|url, _| !wanted.contains_key(url)).await
    }

    /// Ends those issuers of objects that `leave`.
    async fn let_go_of(&mut self, leave: impl Fn(&IssuerUrl, &[u8; 32]) -> bool) -> Result<(), ControlError> {
        let of_objects = self.members.iter().filter(|(_, member)| member.is_of_object);
        let leaving = of_objects.filter(|(url, member)| leave(url, &member.declared));
        let leaving: Vec<IssuerUrl> = leaving.map(|(url, _)| url.clone()).collect();
        if leaving.is_empty() { Ok(()) } else { self.let_go(&leaving).await }
    }

    /// The objects whose issuers are to run, by URL.
    fn wanted(&self, standings: &[Standing]) -> BTreeMap<IssuerUrl, DeclaredIssuer> {
        let running = self.objects.iter().zip(standings).filter(|(_, it)| Standing::runs(it.reason()));
        running
            .filter_map(|(object, _)| Some((object.config.as_ref()?.value.url.clone(), object.clone())))
            .collect()
    }

    /// Says what became of each object: a condition, a line where something is wrong, a count.
    fn tell(&mut self, standings: &[Standing]) {
        let objects = self.objects.clone();
        let there: BTreeSet<&str> = objects.iter().map(|object| object.name.as_str()).collect();
        let conditions = self.environment().conditions.clone();
        for gone in self.told.keys().filter(|name| !there.contains(name.as_str())) {
            conditions.forget(&Subject::object(gone));
        }
        self.told.retain(|name, _| there.contains(name.as_str()));
        for (DeclaredIssuer { name, generation, .. }, standing) in objects.iter().zip(standings) {
            conditions.set(&Subject::object(name), &standing.verdict(*generation));
            let said = self.told.entry(name.clone()).or_default();
            match standing.problem() {
                Some(problem) if said.is_new(&problem) => {
                    warn!(object = name, generation, "an Issuer object is not followed: {problem}");
                }
                Some(_) => {}
                None => _ = said.forget(),
            }
        }
        for state in ["running", "refused", "collided"] {
            let count = standings.iter().filter(|standing| state_of(standing) == state).count();
            self.environment().metrics.objects().are(state, count);
        }
    }
}

/// How an object is counted.
fn state_of(standing: &Standing) -> &'static str {
    match standing {
        Standing::Followed => "running",
        Standing::LastGoodFollowed(_) | Standing::InvalidSpec(_) => "refused",
        Standing::Collision(_) => "collided",
    }
}

/// By which entry the issuer of an object runs.
fn declared_by(object: &DeclaredIssuer) -> Option<[u8; 32]> {
    object.config.as_ref().map(|config| config.value.declared)
}
