//! Why a target may not be written, with the remedy.

use super::LARGEST_OBJECT;
use crate::marker::{DamagedMarker, Edition, Owner};
use crate::withdrawal::Withdrawal;
use crate::{DocumentKind, KeyId, PublicKey};

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
    /// An object of which only the beginning was read.
    #[error(
        "the {kind} has more than {LARGEST_OBJECT} bytes, so that it was not read and nobody knows which keys it shows; nothing was written. Find out who put it there, and move it away"
    )]
    Oversize {
        /// Which object.
        kind: DocumentKind,
    },
    /// A marker that cannot be read, where our state has never written.
    #[error(
        "the {kind} carries a marker that cannot be read: {damage}; nothing was written. Find out who wrote it; if it is ours, remove the marker and adopt the object (`--adopt`, or `adopt: true` on the target), or else choose another place"
    )]
    DamagedMarker {
        /// Which object.
        kind: DocumentKind,
        /// What is wrong with it.
        damage: DamagedMarker,
    },
    /// A set of our own that could not be read back.
    #[error(
        "the JWKS of {keys} keys has {bytes} bytes, and not more than {LARGEST_OBJECT} are read back; nothing was written. Leave out keys that nobody signs with"
    )]
    TooManyKeys {
        /// How many there are.
        keys: usize,
        /// How large the document is.
        bytes: usize,
    },
    /// A proof that is not ours, where our state has never written.
    #[error(
        "the {kind} carries our id and a proof that our writer key did not make: another service of this name writes there, or our state was lost and begun anew; nothing was written. Give one of them another `owner`, or, if this is the only one, run `chancery publish restore`, which shows every key and takes the place over"
    )]
    OtherWriter {
        /// Which object.
        kind: DocumentKind,
    },
    /// A proof, and no key to hold it against.
    #[error(
        "the {kind} is proven by a service that keeps state, and we have no writer key: it would undo what we write; nothing was written. Give the service's key (`--state-key-file`)"
    )]
    NoWriterKey {
        /// Which object.
        kind: DocumentKind,
    },
    /// The first contact with a target, to be recorded before anything is written.
    #[error(
        "this is our first contact with the place; what stands there is recorded before anything is written"
    )]
    FirstContact {
        /// The keys that stand there. They stay.
        published: Vec<PublicKey>,
    },
    /// Somebody of the same issuer wrote since we last looked.
    #[error(
        "the JWKS is edition {edition}, which our state does not know: another writer of this issuer was there, or our state comes from a backup; adopt what it decided before writing"
    )]
    OtherEdition {
        /// What was found, proven.
        edition: Edition,
        /// The keys that are published.
        published: Vec<PublicKey>,
        /// What is withdrawn, as far as the marker names it.
        withdrawn: Vec<Withdrawal>,
    },
    /// A key that was withdrawn there is to be published again.
    #[error(
        "{kid} was withdrawn there, so whoever decided that does not want its tokens accepted any more; nothing was written. Leave the key out, or say `--return-withdrawn` if it signs again"
    )]
    Withdrawn {
        /// Which key.
        kid: KeyId,
    },
    /// No key would be left.
    #[error(
        "no key would be left, and every token of this issuer would be refused; nothing was written. Publish a new key first and let the workloads get tokens of it, or choose the outage (`--revoke` with `--force`)"
    )]
    NothingLeft,
    /// A key that was revoked there is to be published again.
    #[error(
        "{kid} was revoked there, and a revoked key is never published again; nothing was written. Leave the key out"
    )]
    Revoked {
        /// Which key.
        kid: KeyId,
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
