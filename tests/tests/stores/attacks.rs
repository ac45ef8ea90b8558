//! The Update Framework's attacks, each by its name, by somebody who can write to the store and has no writer key. One
//! period later the target is as we want it, no withdrawn, revoked or planted key is left, and the alarm names the case.
//!
//! Slow answers, the last of the list, need a network; a whole service meets them in the suite `faults`.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chancery_core::drift::{Drift, DriftKind};
use chancery_core::issuer_keys::{IssuerKeys, OtherDecision};
use chancery_core::jwks::ObservedJwks;
use chancery_core::publication::{Blocked, Contact, Desired, Precondition, StoredObject, WriterMemory};
use chancery_core::retention::{SourceId, SourceReading};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{
    CachePolicy, DocumentKind, DocumentSet, Jwks, KeyId, Marker, PublicKey, WithdrawalCause, WriterKey,
    key_file,
};
use chancery_publisher::DocumentStore;
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::Put;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;

mod endless_data;
mod servers;
mod slow_answers;

const ISSUER: &str = "https://id.example.com/attacked";

/// The service as far as one target goes: it observes one source, decides, records, and only then writes.
struct Writer<'a> {
    store: &'a dyn DocumentStore,
    keys: IssuerKeys,
    contact: Option<Contact>,
    seen: LastSeen,
    writer_key: WriterKey,
}

impl<'a> Writer<'a> {
    fn new(store: &'a dyn DocumentStore) -> Self {
        let (keys, writer_key) = (IssuerKeys::new(Duration::from_secs(3600)), WriterKey::new([9; 32]));
        Self { store, keys, contact: None, seen: LastSeen::default(), writer_key }
    }

    fn observes(&mut self, keys: &[&PublicKey]) {
        let keys = keys.iter().map(|key| (*key).clone()).collect();
        self.keys.observe(SourceId { position: 0, name: "files".to_owned() }, SourceReading::Complete(keys));
    }

    /// Forgets what only a running process knows.
    fn restarts(&mut self) {
        self.keys = IssuerKeys::restore(Duration::from_secs(3600), &self.keys.record());
        self.seen = LastSeen::default();
    }

    async fn try_period(&mut self) -> Result<Outcome, PublishError> {
        for _ in 0..4 {
            let published = self.keys.publish().expect("a key");
            let issuer = ISSUER.parse().expect("an issuer URL");
            let documents = DocumentSet::new(issuer, published.jwks, CachePolicy::default());
            let contact = self.contact.as_ref();
            let (writer_key, decision) = (&self.writer_key, published.decision);
            let desired = Desired {
                documents: &documents,
                withdrawals: &published.withdrawals,
                owner: &"us".parse().expect("an owner"),
                memory: WriterMemory::Stateful { writer_key, decision, contact },
                adopt_unmarked: false,
            };
            match publish_again(self.store, desired, &mut self.seen).await {
                Ok(outcome) => {
                    self.contact = Some(Contact { known: outcome.edition.clone() });
                    return Ok(outcome);
                }
                Err(PublishError::Blocked { blocked: Blocked::FirstContact { published }, .. }) => {
                    self.keys.import(published);
                    self.contact = Some(Contact::default());
                }
                Err(PublishError::Blocked {
                    blocked: Blocked::OtherEdition { edition, published, withdrawn },
                    ..
                }) => {
                    self.keys.adopt(OtherDecision { decision: edition.decision(), published, withdrawn });
                    self.contact = Some(Contact { known: Some(edition) });
                }
                Err(error) => return Err(error),
            }
        }
        panic!("it learns and learns and never writes");
    }

    async fn period(&mut self) -> Result<(Outcome, Vec<Drift>)> {
        let outcome = self.try_period().await?;
        Ok((outcome, self.seen.take_drift()))
    }

    async fn object(&self, kind: DocumentKind) -> Result<StoredObject> {
        self.store.read(kind.path()).await?.context("no object")
    }

    async fn shown(&self) -> Result<Vec<KeyId>> {
        let object = self.object(DocumentKind::Jwks).await?;
        Ok(ObservedJwks::parse(&object.bytes)?.keys().map(|key| key.key_id().clone()).collect())
    }
}

/// What somebody with the store's credentials writes in place of an object.
async fn put(store: &dyn DocumentStore, kind: DocumentKind, bytes: &[u8], marker: &Marker) -> Result<()> {
    let found = store.read(kind.path()).await?.context("no object")?;
    let put = Put {
        path: kind.path(),
        bytes,
        media_type: kind.media_type(),
        cache_control: "public, max-age=600",
        marker,
        precondition: &Precondition::Unchanged(found.version),
    };
    store.write(put).await?;
    Ok(())
}

async fn bring_back(store: &dyn DocumentStore, kind: DocumentKind, object: &StoredObject) -> Result<()> {
    put(store, kind, &object.bytes, object.marker.as_ref().context("no marker")?).await
}

/// Keys of the cluster, and one that only the intruder has.
struct Keys {
    old: PublicKey,
    new: PublicKey,
    intruder: PublicKey,
}

impl Keys {
    fn new() -> Result<Self> {
        let dir = Scratch::new("attacks")?;
        let key = |name: &str| -> Result<PublicKey> {
            let pem = KeyFile::p256(&dir, name)?.public_pem()?;
            key_file::read_public_keys(&pem).keys.pop().context("no key")
        };
        Ok(Self { old: key("old")?, new: key("new")?, intruder: key("intruder")? })
    }
}

fn kinds(drift: &[Drift]) -> Vec<&'static str> {
    drift.iter().map(|drift| drift.what.name()).collect()
}

fn kids(keys: &[&PublicKey]) -> Vec<KeyId> {
    keys.iter().map(|key| key.key_id().clone()).collect()
}

/// A set with the intruder's key beside the cluster's.
fn both(keys: &Keys) -> Result<Vec<u8>> {
    Ok(Jwks::new([keys.old.clone(), keys.intruder.clone()]).context("keys")?.to_json())
}

async fn arbitrary_key(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old]);
    writer.period().await?;
    let ours = writer.object(DocumentKind::Jwks).await?;
    let both = both(keys)?;
    let marker = ours.marker.clone().context("a marker")?;
    let unproven = Marker { proof: None, ..marker.clone() };
    for marker in [&marker, &unproven] {
        put(store, DocumentKind::Jwks, &both, marker).await?;
        let (outcome, drift) = writer.period().await?;
        assert_eq!(outcome.intruders, kids(&[&keys.intruder]));
        assert_eq!(kinds(&drift), ["Changed", "ForeignKeys"]);
        ensure!(drift.iter().any(|it| it.to_string().contains(keys.intruder.key_id().as_str())), "{drift:?}");
        assert_eq!(writer.object(DocumentKind::Jwks).await?.bytes, ours.bytes);
    }
    // While nobody looked.
    put(store, DocumentKind::Jwks, &both, &marker).await?;
    writer.restarts();
    writer.observes(&[&keys.old]);
    assert_eq!(writer.period().await?.0.intruders, kids(&[&keys.intruder]));
    assert_eq!(writer.shown().await?, kids(&[&keys.old]));
    Ok(())
}

async fn rollback(store: &dyn DocumentStore, (keys, cause): (&Keys, WithdrawalCause)) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old, &keys.new]);
    writer.period().await?;
    let before = writer.object(DocumentKind::Jwks).await?;
    writer.keys.withdraw(keys.old.key_id(), cause);
    writer.period().await?;
    assert_eq!(writer.shown().await?, kids(&[&keys.new]), "though its source still shows it");

    bring_back(store, DocumentKind::Jwks, &before).await?;
    let (_, drift) = writer.period().await?;
    assert_eq!(kinds(&drift), ["RolledBack"]);
    ensure!(drift.iter().all(|drift| drift.what.is_possible_intrusion()));
    assert_eq!(writer.shown().await?, kids(&[&keys.new]));

    bring_back(store, DocumentKind::Jwks, &before).await?;
    writer.restarts();
    writer.observes(&[&keys.old, &keys.new]);
    writer.period().await?;
    assert_eq!(writer.shown().await?, kids(&[&keys.new]), "after a restart");
    Ok(())
}

async fn freeze(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old]);
    writer.period().await?;
    let frozen = writer.object(DocumentKind::Jwks).await?;
    writer.observes(&[&keys.old, &keys.new]);
    writer.period().await?;
    for round in 0..5 {
        bring_back(store, DocumentKind::Jwks, &frozen).await?;
        let (_, drift) = writer.period().await?;
        assert_eq!(kinds(&drift), ["RolledBack"], "round {round}: it is said each time");
        let lacks_new = |held: &BTreeSet<KeyId>| !held.contains(keys.new.key_id());
        ensure!(writer.seen.take_held().iter().any(lacks_new), "relying parties may have read it");
        assert_eq!(writer.shown().await?.len(), 2, "round {round}");
    }
    Ok(())
}

async fn mix_of_old_and_new_objects(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old]);
    writer.period().await?;
    let mut old = BTreeMap::new();
    for kind in DocumentKind::ALL {
        old.insert(kind, writer.object(kind).await?);
    }
    writer.observes(&[&keys.new]);
    writer.period().await?;
    let new = writer.object(DocumentKind::Jwks).await?.bytes;
    for (kind, object) in &old {
        bring_back(store, *kind, object).await?;
        writer.period().await?;
        assert_eq!(writer.object(DocumentKind::Jwks).await?.bytes, new, "{kind}");
    }
    // One document's proof does not prove the other.
    let jwks = writer.object(DocumentKind::Jwks).await?;
    put(store, DocumentKind::Discovery, &jwks.bytes, jwks.marker.as_ref().context("a marker")?).await?;
    let (outcome, _) = writer.period().await?;
    assert_eq!(outcome.written, [DocumentKind::Discovery]);
    Ok(())
}

async fn forged_marker(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old, &keys.new]);
    writer.period().await?;
    let ours = writer.object(DocumentKind::Jwks).await?;
    let marker = ours.marker.clone().context("a marker")?;
    let (key, cause) = (keys.new.key_id().into(), WithdrawalCause::Revoked);
    let withdrawn = vec![Withdrawal { key, cause, decision: u64::MAX }];
    let forged = Marker { decision: u64::MAX, withdrawn, ..marker.clone() };
    put(store, DocumentKind::Jwks, &[&ours.bytes[..], b"\n"].concat(), &forged).await?;
    let (outcome, drift) = writer.period().await?;
    assert_eq!((kinds(&drift), outcome.written), (vec!["Changed"], vec![DocumentKind::Jwks]));
    assert_eq!(writer.shown().await?.len(), 2, "it withdraws nothing");
    assert_eq!(writer.object(DocumentKind::Jwks).await?.marker, Some(marker), "and does not move the count");

    let foreign = Marker::of("them".parse()?);
    put(store, DocumentKind::Jwks, &[&ours.bytes[..], b"\n"].concat(), &foreign).await?;
    let blocked = writer.try_period().await.err().context("it was taken over")?;
    ensure!(
        matches!(&blocked, PublishError::Blocked { blocked: Blocked::ForeignOwner { .. }, .. }),
        "{blocked}"
    );
    let drift = writer.seen.take_drift();
    ensure!(drift.iter().any(|it| matches!(it.what, DriftKind::Marker { theirs: Some(_) })), "{drift:?}");
    Ok(())
}

/// Runs every attack, each on a store of its own.
async fn attack(open: impl AsyncFn(&str) -> Result<Arc<dyn DocumentStore>>) -> Result<()> {
    let keys = Keys::new()?;
    let on = async |name: &str| open(name).await.with_context(|| name.to_owned());
    arbitrary_key(on("arbitrary-key").await?.as_ref(), &keys).await.context("arbitrary key")?;
    for (name, cause) in
        [("rollback-retired", WithdrawalCause::Retired), ("rollback-revoked", WithdrawalCause::Revoked)]
    {
        rollback(on(name).await?.as_ref(), (&keys, cause)).await.context(name)?;
    }
    freeze(on("freeze").await?.as_ref(), &keys).await.context("freeze")?;
    mix_of_old_and_new_objects(on("mix").await?.as_ref(), &keys)
        .await
        .context("mix of old and new objects")?;
    endless_data::after_our_first_write(on("endless-data").await?.as_ref(), &keys)
        .await
        .context("endless data")?;
    endless_data::at_first_contact(on("endless-first").await?.as_ref(), &keys)
        .await
        .context("endless data at first contact")?;
    forged_marker(on("forged-marker").await?.as_ref(), &keys).await.context("forged marker")
}
