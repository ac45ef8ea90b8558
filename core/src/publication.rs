//! What must be written so that a target holds an issuer's documents, decided without touching it.
//!
//! [`plan`] follows these rules, in this order:
//!
//! 1. An object that carries another owner's marker blocks the whole target, always.
//! 2. A writer **with state** has been at a target before, or makes its first contact now. At first contact an object without any marker
//!    blocks unless we were told to adopt it; one of our name with a proof that is not ours blocks, since two services
//!    of one name must not fight; a JWKS that stands there else is taken over with its keys, and the contact is recorded
//!    before it is replaced.
//! 3. A proven JWKS that is another edition than the one we know there, and not of an older decision than that, blocks
//!    until it is adopted: our state is a restored backup, or another replica decided.
//! 4. After the first contact everything else is repaired: an older edition, a change without a proof, an object
//!    without a marker. What is published then is our set and nothing beside it.
//! 5. A writer **without state** goes on from what it finds. A key on the target that it neither publishes nor withdraws
//!    stays, behind its own, and is reported; an entry that it could not carry on unchanged blocks. What was withdrawn
//!    there it publishes again as [`Returning`] says, and a key that is proven to be revoked never. Where a writer with a
//!    key was, it needs that key.
//! 6. An object that is larger than what is read ([`LARGEST_OBJECT`]) is repaired where everything is, and blocks
//!    elsewhere: nobody knows which keys it shows. A set of our own that is so large is never written.
//! 7. An object is written only if its bytes, media type, cache header or marker must change, and only on the
//!    condition that it is still the version that was read, or still absent.
//! 8. Where another writer published the same keys already, their order stays: two writers that saw them come in
//!    another order must not rewrite each other's documents for ever.
//! 9. The JWKS is written before the discovery document that names it.

use crate::jwks::{ObservedJwk, ObservedJwks};
use crate::marker::Marker;
use crate::provenance::Provenance;
use crate::withdrawal::{Withdrawal, WithdrawalCause, Withdrawals};
use crate::{Document, DocumentKind, DocumentSet, Jwks, KeyId, PublicKey};

mod blocked;
mod desired;
mod found;
mod observed;
mod reason;

pub use blocked::Blocked;
pub use desired::{Contact, Desired, Returning, WriterMemory, first_decision};
pub use observed::{LARGEST_OBJECT, Observed, StoredObject, Version};
pub use reason::Reason;

use found::{Found, is_repaired, takes_over};
use reason::{difference, explain_content};

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
    /// The marker to write with it.
    pub marker: Marker,
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
    /// Keys on the target that we did not put there; they stay. Only for a writer without state.
    pub foreign: Vec<KeyId>,
    /// Keys that an intruder put there; they are removed. Only for a writer with state.
    pub intruders: Vec<KeyId>,
    /// What the target holds once the writes are made.
    pub result: DocumentSet,
}

/// Decides the writes that bring a target from `observed` to `desired`, by the rules at the head of this module.
///
/// # Errors
/// Says what blocks the target. Nothing of it may be written then.
pub fn plan(desired: Desired<'_>, observed: &Observed) -> Result<Plan, Blocked> {
    DocumentKind::ALL.into_iter().try_for_each(|kind| check_owner(desired, observed, kind))?;
    let found = Found::of(desired, observed.jwks.as_ref())?;
    match desired.memory {
        WriterMemory::Stateful { decision, contact, .. } => {
            check_edition(desired, &found, decision, contact)?;
            if takes_over(desired, &found) {
                foreign_keys(desired, &found.published)?;
                let published = found.published.keys().cloned().collect();
                return Err(Blocked::FirstContact { published });
            }
            let ours = desired.documents.jwks().clone();
            let intruders = match found.provenance {
                None | Some(Provenance::Proven) => Vec::new(),
                Some(_) => distinct(desired.unknown(&found.published)),
            };
            let target = Decided { jwks: ours, decision, withdrawals: desired.withdrawals.clone() };
            Ok(Plan { intruders, ..writes(desired, observed, &found, target)? })
        }
        WriterMemory::Stateless { returning, may_empty, first_decision, .. } => {
            let withdrawals = carried_withdrawals(desired, &found, returning);
            check_returns(desired, &withdrawals, returning)?;
            let staying = foreign_keys(Desired { withdrawals: &withdrawals, ..desired }, &found.published)?;
            let foreign = distinct(staying.iter());
            let ours = desired.documents.jwks().keys().iter();
            let ours = ours.filter(|key| !withdrawals.contains(key.key_id())).cloned();
            let is_revoked = withdrawals.iter().any(|it| it.cause == WithdrawalCause::Revoked);
            let outage = (may_empty && is_revoked).then(Jwks::empty);
            let jwks = Jwks::new(ours.chain(staying)).or(outage).ok_or(Blocked::NothingLeft)?;
            let changes = !found.shows_exactly(&jwks) || desired.withdrawals.iter().any(|w| !says(&found, w));
            let decision = match found.decision() {
                0 => first_decision,
                found => found.saturating_add(u64::from(changes)),
            };
            let target = Decided { jwks, decision, withdrawals };
            Ok(Plan { foreign, ..writes(desired, observed, &found, target)? })
        }
    }
}

/// Whether the marker that was found names a withdrawal already.
fn says(found: &Found<'_>, withdrawal: &Withdrawal) -> bool {
    found.marker().is_some_and(|marker| {
        let key = withdrawal.key.prefix();
        marker.withdrawn.iter().any(|named| named.key == key && named.cause >= withdrawal.cause)
    })
}

/// What a target is to hold, and by which decision.
struct Decided {
    jwks: Jwks,
    decision: u64,
    withdrawals: Withdrawals,
}

/// The writes that bring a target to what was decided.
fn writes(
    desired: Desired<'_>,
    observed: &Observed,
    found: &Found<'_>,
    target: Decided,
) -> Result<Plan, Blocked> {
    let Decided { jwks, decision, withdrawals } = target;
    let keeps_order = match desired.memory {
        WriterMemory::Stateful { .. } => found.is_proven() && found.decision() == decision,
        WriterMemory::Stateless { .. } => true,
    };
    let published: Vec<KeyId> = distinct(found.published.keys());
    let jwks = jwks.in_order(&published).filter(|_| keeps_order).unwrap_or(jwks);
    let result = DocumentSet::new(desired.documents.issuer().clone(), jwks, desired.documents.cache());
    let bytes = result.document(DocumentKind::Jwks).bytes.len();
    if bytes > LARGEST_OBJECT {
        return Err(Blocked::TooManyKeys { keys: result.jwks().keys().len(), bytes });
    }
    let named = withdrawals
        .iter()
        .filter(|withdrawal| !result.jwks().keys().iter().any(|key| withdrawal.key.is(key.key_id())));
    let marker = Marker::of_decision(desired.owner.clone(), decision, named);
    let writes = DocumentKind::ALL.into_iter().filter_map(|kind| {
        let document = result.document(kind);
        let object = observed.object(kind);
        let mut reasons = difference(desired, &document, object);
        if kind == DocumentKind::Jwks {
            if reasons.contains(&Reason::Content) {
                reasons = explain_content(reasons, found, result.jwks(), &withdrawals);
            } else if reasons.is_empty() && found.decision() < decision {
                reasons.push(Reason::OlderDecision { found: found.decision() });
            }
        }
        let precondition =
            object.map_or(Precondition::Absent, |o| Precondition::Unchanged(o.version.clone()));
        let marker = marker.clone();
        let marker = match desired.identity().writer_key {
            Some(key) => marker.proven(key, result.issuer(), &document),
            None => marker,
        };
        (!reasons.is_empty()).then_some(Write { document, marker, precondition, reasons })
    });
    Ok(Plan { writes: writes.collect(), foreign: Vec::new(), intruders: Vec::new(), result })
}

/// What a writer without state withdraws: what it is told to, and what the marker says that was found.
fn carried_withdrawals(desired: Desired<'_>, found: &Found<'_>, returning: Returning) -> Withdrawals {
    let mut withdrawals = Withdrawals::default();
    // The marker names the strongest and the latest first.
    let carried = found.marker().into_iter().flat_map(|marker| marker.withdrawn.iter().rev());
    let is_ours = |withdrawal: &Withdrawal| {
        desired.documents.jwks().keys().iter().any(|key| withdrawal.key.is(key.key_id()))
    };
    // Whoever can write the object can name a key of ours there.
    let counts = |withdrawal: &&Withdrawal| {
        returning != Returning::LeftOut || found.is_proven() || !is_ours(withdrawal)
    };
    let named = carried.filter(counts).chain(desired.withdrawals.iter());
    named.cloned().for_each(|withdrawal| withdrawals.add(withdrawal));
    let lifted = match returning {
        Returning::Refused => return withdrawals,
        Returning::LeftOut => WithdrawalCause::Expired,
        Returning::Allowed => WithdrawalCause::Retired,
    };
    let ours = desired.documents.jwks().keys().iter();
    ours.for_each(|key| withdrawals.lift(key.key_id(), lifted));
    withdrawals
}

fn check_returns(
    desired: Desired<'_>,
    withdrawals: &Withdrawals,
    returning: Returning,
) -> Result<(), Blocked> {
    let ours = desired.documents.jwks().keys().iter().map(PublicKey::key_id);
    let mut withdrawn = ours.filter(|kid| withdrawals.contains(kid)).cloned();
    if returning == Returning::LeftOut {
        return Ok(());
    }
    match withdrawn.next() {
        Some(kid) if withdrawals.is_revoked(&kid) => Err(Blocked::Revoked { kid }),
        Some(kid) => Err(Blocked::Withdrawn { kid }),
        None => Ok(()),
    }
}

fn check_edition(
    desired: Desired<'_>,
    found: &Found<'_>,
    ours: u64,
    contact: Option<&Contact>,
) -> Result<(), Blocked> {
    let Some((marker, edition)) = found.object.and_then(|o| Some((o.marker.as_ref()?, o.edition()?))) else {
        return Ok(());
    };
    // Recorded before it was written: the answer was lost, or another writer came to the same. One that withdrew what
    // we have not did not, though the keys are the same.
    let is_same = edition.decision() == ours && found.shows_exactly(desired.documents.jwks());
    let is_ours = is_same && marker.withdrawn.iter().all(|told| desired.withdrawals.cover(told));
    let known = contact.and_then(|contact| contact.known.as_ref());
    let is_known = known.is_some_and(|known| edition == *known || edition.decision() < known.decision());
    if !found.is_proven() || is_ours || is_known {
        return Ok(());
    }
    Err(Blocked::OtherEdition {
        edition,
        published: found.published.keys().cloned().collect(),
        withdrawn: marker.withdrawn.clone(),
    })
}

fn check_owner(desired: Desired<'_>, observed: &Observed, kind: DocumentKind) -> Result<(), Blocked> {
    let Some(object) = observed.object(kind) else { return Ok(()) };
    let has_key = desired.identity().writer_key.is_some();
    let provenance = desired.identity().judge(kind, object);
    match provenance {
        Provenance::Foreign(theirs) => {
            let (theirs, ours) = (theirs.clone(), desired.owner.clone());
            Err(Blocked::ForeignOwner { kind, theirs, ours })
        }
        _ if is_repaired(desired, provenance) => Ok(()),
        _ if object.is_oversize() => Err(Blocked::Oversize { kind }),
        Provenance::Damaged(damage) => Err(Blocked::DamagedMarker { kind, damage: damage.clone() }),
        Provenance::Unmarked if !desired.adopt_unmarked => Err(Blocked::Unmarked { kind }),
        Provenance::Disproven if has_key => Err(Blocked::OtherWriter { kind }),
        Provenance::Disproven => Err(Blocked::NoWriterKey { kind }),
        Provenance::Unmarked | Provenance::Unproven | Provenance::Proven => Ok(()),
    }
}

/// The published keys that stay although we do not ask for them.
fn foreign_keys(desired: Desired<'_>, published: &ObservedJwks) -> Result<Vec<PublicKey>, Blocked> {
    let mut staying: Vec<PublicKey> = Vec::new();
    for entry in &published.entries {
        match &entry.key {
            // The same key under an empty or home-made id, as old recipes publish it, is covered by ours.
            Some(key) if desired.documents.jwks().contains(key.key_id()) => {}
            Some(key) if desired.withdrawals.contains(key.key_id()) => {}
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

/// Each id once, in order.
fn distinct<'a>(keys: impl Iterator<Item = &'a PublicKey>) -> Vec<KeyId> {
    let mut kids: Vec<KeyId> = Vec::new();
    for kid in keys.map(PublicKey::key_id) {
        if !kids.contains(kid) {
            kids.push(kid.clone());
        }
    }
    kids
}
