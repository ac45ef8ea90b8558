//! What somebody does who can write to a target, but does not have the writer key.

use std::collections::BTreeSet;

use chancery_core::publication::StoredObject;
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{DocumentKind, Jwks, Marker, WithdrawalCause};
use proptest::sample::Index;

use super::World;
use crate::writer::{INTRUDER, PREDECESSOR, key};

/// What somebody does who can write to a target, but does not have the writer key.
#[derive(Clone, Debug)]
pub enum Intrusion {
    /// Puts a key of its own into the JWKS, under our marker as it is.
    Plant(u8),
    /// The same, under a marker of our name without a proof.
    PlantWithoutProof(u8),
    /// The same, without any marker.
    PlantWithoutMarker(u8),
    /// Says in the marker that a key is revoked, by the decision that stands there or by one far ahead.
    ForgeWithdrawal(u8, bool),
    Delete(DocumentKind),
    /// Says that an object is somebody else's.
    Claim(DocumentKind),
    /// Puts any object back that ever stood at any target.
    Replay(DocumentKind, Index),
}

impl World {
    pub(super) fn intrude(&mut self, target: usize, intrusion: &Intrusion) {
        let jwks = self.targets[target].jwks.clone();
        match (intrusion, jwks) {
            (Intrusion::Delete(kind), _) => self.put(target, *kind, None),
            (Intrusion::Claim(kind), _) => {
                if let Some(mut object) = self.targets[target].object(*kind).cloned() {
                    let theirs = "them".parse().expect("an owner");
                    object.marker = Some(Marker::of(theirs));
                    self.put(target, *kind, Some(object));
                }
            }
            (Intrusion::Replay(kind, which), _) => {
                let of_kind: Vec<_> = self.earlier.iter().filter(|(of, _)| of == kind).collect();
                if !of_kind.is_empty() {
                    let object = which.get(&of_kind).1.clone();
                    self.put(target, *kind, Some(object));
                }
            }
            (Intrusion::Plant(number), Some(jwks)) => self.plant(target, *number, jwks),
            (Intrusion::PlantWithoutProof(number), Some(mut jwks)) => {
                jwks.marker.iter_mut().for_each(|marker| marker.proof = None);
                self.plant(target, *number, jwks);
            }
            (Intrusion::PlantWithoutMarker(number), Some(mut jwks)) => {
                jwks.marker = None;
                self.plant(target, *number, jwks);
            }
            (Intrusion::ForgeWithdrawal(number, ahead), Some(mut jwks)) => {
                if let Some(marker) = &mut jwks.marker {
                    marker.decision += if *ahead { 50 } else { 0 };
                    let (key, cause) = (key(*number).key_id().into(), WithdrawalCause::Revoked);
                    marker.withdrawn.push(Withdrawal { key, cause, decision: marker.decision });
                }
                self.put(target, DocumentKind::Jwks, Some(jwks));
            }
            (_, None) => {}
        }
        // What others take away was not taken away by us. And where the proof of a writer's work is gone, another
        // writer goes by what it knows itself.
        let known = |number: &u8| {
            let kid = key(*number).key_id();
            self.writers.iter().all(|writer| writer.keys.keys().is_some_and(|jwks| jwks.contains(kid)))
        };
        let left: BTreeSet<u8> = (0..=PREDECESSOR).filter(|n| self.shows(target, *n)).filter(known).collect();
        self.promised[target].retain(|number| left.contains(number));
    }

    fn plant(&mut self, target: usize, number: u8, jwks: StoredObject) {
        let numbers = self.shown[target].iter().copied().chain([INTRUDER + number]);
        let keys = numbers.map(|number| key(number).clone());
        let bytes = Jwks::new(keys).expect("a key").to_json();
        self.put(target, DocumentKind::Jwks, Some(StoredObject { bytes, ..jwks }));
    }
}
