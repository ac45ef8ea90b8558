//! What must be written so that a target holds an issuer's documents, decided without touching it.
//!
//! [`plan`] follows these rules, in this order:
//!
//! 1. An object that carries another owner's marker, or none, blocks the whole target unless we were told to adopt
//!    unmarked ones; a foreign marker always blocks.
//! 2. A JWKS that was written since we last looked blocks until what its writer decided is adopted: our state is a
//!    restored backup, or another replica decided.
//! 3. A key on the target that is neither ours nor tombstoned by us stays, behind ours, and is reported. An entry
//!    that we could not carry on unchanged blocks the target, because dropping it may reject somebody's tokens.
//! 4. What is published is therefore our set, united with what stays, minus our own tombstones: never empty.
//! 5. An object is written only if its bytes, media type, cache header or owner differ, and only on the condition
//!    that it is still the version that was read, or still absent.
//! 6. Where another writer published the same keys already, their order stays: two writers that saw them come in
//!    another order must not rewrite each other's documents for ever.
//! 7. The JWKS is written before the discovery document that names it.

use std::fmt;

use crate::jwks::{JwksError, ObservedJwk, ObservedJwks};
use crate::marker::{Edition, Marker, Owner};
use crate::{Document, DocumentKind, DocumentSet, Jwks, KeyId, PublicKey};

/// The version of a stored object, as its store names it: an ETag, a generation, a digest. Compared, never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// An object as it was read from a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// `Content-Type` as stored.
    pub media_type: Option<String>,
    /// `Cache-Control` as stored.
    pub cache_control: Option<String>,
    /// The ownership marker, if there is one.
    pub marker: Option<Marker>,
    /// What a conditional write must name.
    pub version: Version,
}

impl<'a> Known<'a> {
    fn edition(self) -> Option<&'a Edition> {
        match self {
            Self::Stateless | Self::Nothing => None,
            Self::Wrote(edition) | Self::Adopted(edition) => Some(edition),
        }
    }
}

impl StoredObject {
    /// Which writing of it this is; `None` when it carries no marker.
    pub fn edition(&self) -> Option<Edition> {
        Edition::of(&self.bytes, self.marker.as_ref())
    }
}

/// What a target holds below one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The object at the JWKS' path.
    pub jwks: Option<StoredObject>,
    /// The object at the discovery document's path.
    pub discovery: Option<StoredObject>,
}

impl Observed {
    /// The object of one kind.
    pub fn object(&self, kind: DocumentKind) -> Option<&StoredObject> {
        match kind {
            DocumentKind::Jwks => self.jwks.as_ref(),
            DocumentKind::Discovery => self.discovery.as_ref(),
        }
    }

    /// The place of the object of one kind.
    pub fn object_mut(&mut self, kind: DocumentKind) -> &mut Option<StoredObject> {
        match kind {
            DocumentKind::Jwks => &mut self.jwks,
            DocumentKind::Discovery => &mut self.discovery,
        }
    }
}

/// What we want of a target.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// The documents with every key that must be visible.
    pub documents: &'a DocumentSet,
    /// Keys that we published ourselves and have decided to withdraw, the latest last.
    pub tombstones: &'a [KeyId],
    /// Who we are.
    pub owner: &'a Owner,
    /// What we know of the target from before.
    pub known: Known<'a>,
    /// Whether objects without any marker may be taken over.
    pub adopt_unmarked: bool,
}

/// What a writer remembers of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// It keeps no state and goes on from what it finds.
    Stateless,
    /// It has not been there yet.
    Nothing,
    /// The JWKS that it last wrote there.
    Wrote(&'a Edition),
    /// The JWKS of another writer, whose decisions it has adopted.
    Adopted(&'a Edition),
}

/// The condition of a write: that the object is what it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// There is no such object.
    Absent,
    /// The object has this version.
    Unchanged(Version),
}

/// One conditional write, with the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// What to write.
    pub document: Document,
    /// On which condition.
    pub precondition: Precondition,
    /// Why, at least one.
    pub reasons: Vec<Reason>,
}

/// The writes that bring a target up to date, in the order in which they must be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The writes; none when the target is up to date.
    pub writes: Vec<Write>,
    /// Keys on the target that we did not put there; they stay.
    pub foreign: Vec<KeyId>,
    /// What the target holds once the writes are made.
    pub result: DocumentSet,
    /// The marker that every write carries.
    pub marker: Marker,
}

/// Why an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is none yet.
    Missing,
    /// Keys become visible.
    Adds(Vec<KeyId>),
    /// Tombstoned keys are withdrawn.
    Withdraws(Vec<KeyId>),
    /// What is there cannot be read by anybody.
    Unreadable,
    /// The bytes differ in another way.
    Content,
    /// The media type differs.
    MediaType(Option<String>),
    /// The cache header differs.
    CacheControl(Option<String>),
    /// The object has no marker and is adopted.
    Adopted,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &[KeyId]| keys.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Self::Missing => f.write_str("it is not there"),
            Self::Adds(keys) => write!(f, "adds {}", list(keys)),
            Self::Withdraws(keys) => write!(f, "withdraws {}", list(keys)),
            Self::Unreadable => f.write_str("what is there cannot be read"),
            Self::Content => f.write_str("the bytes differ"),
            Self::MediaType(was) => write!(f, "media type was {}", was.as_deref().unwrap_or("not set")),
            Self::CacheControl(was) => write!(f, "cache header was {}", was.as_deref().unwrap_or("not set")),
            Self::Adopted => f.write_str("takes over an object without an ownership marker"),
        }
    }
}

/// Why a target may not be written, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Blocked {
    /// Somebody else's marker.
    #[error(
        "the {kind} belongs to {theirs}, and we are {ours}; nothing was written. Give this issuer a place of its own; if it is the same issuer and its state was lost, `chancery publish restore --owner {theirs}` goes on from there"
    )]
    ForeignOwner {
        /// Which object.
        kind: DocumentKind,
        /// The marker found.
        theirs: Owner,
        /// Our marker.
        ours: Owner,
    },
    /// No marker.
    #[error(
        "there is a {kind} without an ownership marker, so somebody else wrote it; nothing was written. Look at it, then adopt it (`--adopt`, or `adopt: true` on the target) or choose another place"
    )]
    Unmarked {
        /// Which object.
        kind: DocumentKind,
    },
    /// Somebody of the same issuer wrote since we last looked.
    #[error(
        "the JWKS is edition {found}, which our state does not know: another writer of this issuer was there, or our state comes from a backup; adopt what it decided before writing"
    )]
    Behind {
        /// What was found.
        found: Edition,
        /// The keys that are published.
        published: Vec<KeyId>,
        /// The keys that were withdrawn last, according to the target.
        withdrawn: Vec<KeyId>,
    },
    /// An entry of the published JWKS that we could not carry on unchanged.
    #[error(
        "the published JWKS has an entry that cannot be carried on unchanged (kid {kid:?}, kty {kty:?}); nothing was written, since dropping it may reject somebody's tokens. Remove it by hand if nobody signs with it"
    )]
    ForeignEntry {
        /// Its `kid`, empty if missing.
        kid: String,
        /// Its `kty`, empty if missing.
        kty: String,
    },
}

/// Decides the writes that bring a target from `observed` to `desired`, by the rules at the head of this module.
///
/// # Errors
/// Says what blocks the target. Nothing of it may be written then.
pub fn plan(desired: Desired<'_>, observed: &Observed) -> Result<Plan, Blocked> {
    DocumentKind::ALL.into_iter().try_for_each(|kind| check_owner(desired, observed, kind))?;
    let found = observed.jwks.as_ref().and_then(|object| object.marker.as_ref());

    let (published, unreadable) = match observed.jwks.as_ref().map(|o| ObservedJwks::parse(&o.bytes)) {
        None => (ObservedJwks::default(), false),
        Some(Ok(published)) => (published, false),
        // A set that somebody more lenient than we may still read, so its keys may be in use.
        Some(Err(JwksError::NotAnObject)) => {
            return Err(Blocked::ForeignEntry { kid: String::new(), kty: String::new() });
        }
        Some(Err(_)) => (ObservedJwks::default(), true),
    };
    check_edition(desired, observed.jwks.as_ref(), &published)?;
    let staying = foreign_keys(desired, &published)?;
    let foreign = staying.iter().map(|key| key.key_id().clone()).collect();

    let ours = desired.documents.jwks();
    let jwks = Jwks::new(ours.keys().iter().cloned().chain(staying)).unwrap_or_else(|| ours.clone());
    let jwks = match desired.known {
        Known::Wrote(_) => jwks,
        _ => in_published_order(&published, &jwks).unwrap_or(jwks),
    };
    let result = DocumentSet::new(desired.documents.issuer().clone(), jwks, desired.documents.cache());

    let writes = DocumentKind::ALL.into_iter().filter_map(|kind| {
        let document = result.document(kind);
        let object = observed.object(kind);
        let mut reasons = difference(&document, object);
        if kind == DocumentKind::Jwks && reasons.contains(&Reason::Content) {
            reasons = explain_content(reasons, unreadable, &published, result.jwks());
        }
        let precondition =
            object.map_or(Precondition::Absent, |o| Precondition::Unchanged(o.version.clone()));
        (!reasons.is_empty()).then_some(Write { document, precondition, reasons })
    });
    let writes = writes.collect();
    Ok(Plan { writes, foreign, marker: marker(desired, found, result.jwks()), result })
}

/// The published set, if it has the same keys as `jwks`.
fn in_published_order(published: &ObservedJwks, jwks: &Jwks) -> Option<Jwks> {
    let order = Jwks::new(published.keys().cloned())?;
    let same =
        order.keys().len() == jwks.keys().len() && jwks.keys().iter().all(|key| order.contains(key.key_id()));
    same.then_some(order)
}

fn check_edition(
    desired: Desired<'_>,
    jwks: Option<&StoredObject>,
    published: &ObservedJwks,
) -> Result<(), Blocked> {
    let Some((marker, found)) = jwks.and_then(|o| Some((o.marker.as_ref()?, o.edition()?))) else {
        return Ok(());
    };
    if desired.known == Known::Stateless || desired.known.edition() == Some(&found) {
        return Ok(());
    }
    Err(Blocked::Behind {
        found,
        published: published.keys().map(|key| key.key_id().clone()).collect(),
        withdrawn: marker.withdrawn.clone(),
    })
}

/// What the writes say about us: newer than what they replace, and every withdrawal that is still known.
fn marker(desired: Desired<'_>, found: Option<&Marker>, result: &Jwks) -> Marker {
    // A writer with state has adopted what was found, so its own tombstones are complete.
    let carried =
        found.filter(|_| desired.known == Known::Stateless).map_or(&[][..], |found| &found.withdrawn);
    let mut withdrawn: Vec<KeyId> = Vec::new();
    for id in carried.iter().filter(|id| !desired.tombstones.contains(id)).chain(desired.tombstones) {
        if !result.contains(id) && !withdrawn.contains(id) {
            withdrawn.push(id.clone());
        }
    }
    let known = desired.known.edition().map_or(0, Edition::generation);
    let generation = found.map_or(0, |found| found.generation).max(known).saturating_add(1);
    Marker { owner: desired.owner.clone(), generation, withdrawn }
}

fn check_owner(desired: Desired<'_>, observed: &Observed, kind: DocumentKind) -> Result<(), Blocked> {
    match observed.object(kind).map(|object| &object.marker) {
        Some(Some(marker)) if marker.owner != *desired.owner => {
            let (theirs, ours) = (marker.owner.clone(), desired.owner.clone());
            Err(Blocked::ForeignOwner { kind, theirs, ours })
        }
        Some(None) if !desired.adopt_unmarked => Err(Blocked::Unmarked { kind }),
        _ => Ok(()),
    }
}

/// The published keys that stay although we do not ask for them.
fn foreign_keys(desired: Desired<'_>, published: &ObservedJwks) -> Result<Vec<PublicKey>, Blocked> {
    let mut staying: Vec<PublicKey> = Vec::new();
    for entry in &published.entries {
        match &entry.key {
            // The same key under an empty or home-made id, as old recipes publish it, is covered by ours.
            Some(key) if desired.documents.jwks().contains(key.key_id()) => {}
            Some(key) if desired.tombstones.contains(key.key_id()) => {}
            Some(key) if staying.contains(key) => {}
            Some(key) if entry.is_kubernetes_key() => staying.push(key.clone()),
            _ => return Err(foreign_entry(entry)),
        }
    }
    Ok(staying)
}

fn foreign_entry(entry: &ObservedJwk) -> Blocked {
    Blocked::ForeignEntry { kid: entry.kid.clone().unwrap_or_default(), kty: entry.kty.clone() }
}

fn difference(document: &Document, object: Option<&StoredObject>) -> Vec<Reason> {
    let Some(object) = object else { return vec![Reason::Missing] };
    let mut reasons = Vec::new();
    if object.bytes != document.bytes {
        reasons.push(Reason::Content);
    }
    if object.media_type.as_deref() != Some(document.kind.media_type()) {
        reasons.push(Reason::MediaType(object.media_type.clone()));
    }
    if object.cache_control.as_deref() != Some(document.cache.header().as_str()) {
        reasons.push(Reason::CacheControl(object.cache_control.clone()));
    }
    if object.marker.is_none() {
        reasons.push(Reason::Adopted);
    }
    reasons
}

/// Says which keys a changed JWKS adds and withdraws, instead of only that its bytes differ.
fn explain_content(
    reasons: Vec<Reason>,
    unreadable: bool,
    before: &ObservedJwks,
    after: &Jwks,
) -> Vec<Reason> {
    let before: Vec<&KeyId> = before.keys().map(PublicKey::key_id).collect();
    let adds: Vec<_> =
        after.keys().iter().map(PublicKey::key_id).filter(|id| !before.contains(id)).cloned().collect();
    let withdraws: Vec<_> = before.into_iter().filter(|id| !after.contains(id)).cloned().collect();
    let mut explained = Vec::new();
    if unreadable {
        explained.push(Reason::Unreadable);
    }
    if !adds.is_empty() {
        explained.push(Reason::Adds(adds));
    }
    if !withdraws.is_empty() {
        explained.push(Reason::Withdraws(withdraws));
    }
    let explains = !explained.is_empty();
    explained.extend(reasons.into_iter().filter(|reason| !(explains && *reason == Reason::Content)));
    explained
}
