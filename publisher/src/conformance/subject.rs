//! What the checks work on: one path of a store, and what is stored there beside the bytes.

use chancery_core::publication::{Precondition, StoredObject, Version};
use chancery_core::withdrawal::{Withdrawal, WithdrawnKeyError};
use chancery_core::writer_key::NoProof;
use chancery_core::{Marker, WithdrawalCause};

use crate::store::{ConditionalRead, DocumentStore, Put, StoreErrorKind};

/// Passed, or why not.
pub(super) type Checked = Result<(), String>;

/// What is stored beside the bytes.
pub(super) struct Attributes {
    pub(super) media_type: &'static str,
    pub(super) cache_control: &'static str,
    owner: &'static str,
    decision: u64,
    withdrawn: &'static [&'static str],
    proof: Option<&'static str>,
}

impl Attributes {
    pub(super) fn marker(&self) -> Result<Marker, String> {
        let owner = self.owner.parse().map_err(|error| format!("{error}"))?;
        let (decision, cause) = (self.decision, WithdrawalCause::Revoked);
        let withdrawn =
            self.withdrawn.iter().map(|kid| Ok(Withdrawal { key: kid.parse()?, cause, decision }));
        let withdrawn =
            withdrawn.collect::<Result<_, WithdrawnKeyError>>().map_err(|error| error.to_string())?;
        let proof = self.proof.map(str::parse).transpose().map_err(|error: NoProof| error.to_string())?;
        Ok(Marker { owner, decision, withdrawn, proof })
    }
}

pub(super) const FIRST: Attributes = Attributes {
    media_type: "application/jwk-set+json",
    cache_control: "public, max-age=600",
    owner: "chancery-Ab0_-Zz9",
    decision: 0,
    withdrawn: &[],
    proof: None,
};
pub(super) const SECOND: Attributes = Attributes {
    media_type: "application/json",
    cache_control: "public, max-age=1",
    owner: "a;b=\"c\"/{d}",
    decision: u64::MAX,
    withdrawn: &["JHJehTTTZlsspKHT", "uzigTls4_bWPaZ_p"],
    proof: Some("JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU"),
};

/// A path of one check.
pub(super) struct Subject<'a> {
    store: &'a dyn DocumentStore,
    path: String,
}

impl<'a> Subject<'a> {
    pub(super) fn new(store: &'a dyn DocumentStore, path: &str) -> Self {
        Self { store, path: format!("conformance/{path}/object") }
    }

    /// Another path of the same check.
    pub(super) fn beside(&self, path: &str) -> Self {
        Self { store: self.store, path: format!("{}-beside/{path}", self.path) }
    }

    pub(super) async fn read(&self) -> Result<Option<StoredObject>, String> {
        self.store.read(&self.path).await.map_err(|error| error.to_string())
    }

    pub(super) async fn read_unless(&self, known: &Version) -> Result<ConditionalRead, String> {
        self.store.read_unless(&self.path, Some(known)).await.map_err(|error| error.to_string())
    }

    pub(super) async fn present(&self) -> Result<StoredObject, String> {
        self.read().await?.ok_or_else(|| format!("{} is not there", self.path))
    }

    pub(super) async fn attempt(
        &self,
        bytes: &[u8],
        precondition: &Precondition,
        attributes: &Attributes,
    ) -> Result<Version, (StoreErrorKind, String)> {
        let Attributes { media_type, cache_control, .. } = attributes;
        let marker = attributes.marker().map_err(|error| (StoreErrorKind::Misconfigured, error))?;
        let put = Put { path: &self.path, bytes, media_type, cache_control, marker: &marker, precondition };
        self.store.write(put).await.map_err(|error| (error.kind, error.to_string()))
    }

    pub(super) async fn put(
        &self,
        bytes: &[u8],
        precondition: &Precondition,
        attributes: &Attributes,
    ) -> Result<Version, String> {
        self.attempt(bytes, precondition, attributes).await.map_err(|(_, reason)| reason)
    }

    pub(super) async fn create(&self, bytes: &[u8]) -> Result<Version, String> {
        self.put(bytes, &Precondition::Absent, &FIRST).await
    }

    pub(super) async fn replace(&self, bytes: &[u8], version: Version) -> Result<Version, String> {
        self.put(bytes, &Precondition::Unchanged(version), &FIRST).await
    }

    pub(super) async fn conflicts(&self, bytes: &[u8], precondition: &Precondition) -> Checked {
        match self.attempt(bytes, precondition, &SECOND).await {
            Err((StoreErrorKind::Conflict, _)) => Ok(()),
            Err((kind, reason)) => Err(format!("expected a conflict, and it was {kind:?}: {reason}")),
            Ok(version) => Err(format!("expected a conflict, and {version:?} was written")),
        }
    }
}
