//! The keys of one issuer.

use chancery_core::PublicKey;
use chancery_core::ring::KeyState;

use super::may_sign::MaySign;
use super::model::{KeyRow, VisibleRow, WithdrawnKeyRow};
use super::snapshot::IssuerSnapshot;

/// The published keys, in their order.
pub(super) fn keys(issuer: &IssuerSnapshot, publishes: bool) -> Vec<KeyRow> {
    let published = issuer.publication.iter().flat_map(|publication| publication.documents.jwks().keys());
    published.map(|key| row(issuer, publishes, key)).collect()
}

fn row(issuer: &IssuerSnapshot, publishes: bool, key: &PublicKey) -> KeyRow {
    let kid = key.key_id();
    let known = issuer.known.key(kid);
    let may_sign = MaySign::of(issuer, publishes, kid);
    let leaves_after = known.and_then(|known| known.leaves_after);
    let (state, meaning) = state(issuer.known.ring_state(kid), leaves_after.is_some());
    KeyRow {
        kid: kid.to_string(),
        algorithm: key.algorithm().as_str(),
        state,
        meaning,
        may_sign: match may_sign {
            MaySign::Yes => Some(true),
            MaySign::NotYet(_) | MaySign::Over(_) => Some(false),
            MaySign::NotKnown(_) => None,
        },
        because: may_sign.because(),
        may_sign_in_seconds: may_sign.earliest().map(|still| still.as_secs()),
        first_seen_at: known.map(|known| known.first_seen),
        leaves_in_seconds: leaves_after.map(|left| left.as_secs()),
        visible: visible(issuer, key),
    }
}

/// A key's state in one word, and what that means.
fn state(ring: Option<KeyState>, is_retained: bool) -> (&'static str, &'static str) {
    match (ring, is_retained) {
        (Some(KeyState::Pending), _) => ("pending", "it is published, and was not yet seen everywhere"),
        (Some(KeyState::Published), _) => ("published", "it stands by to be the next that signs"),
        (Some(KeyState::Active), _) => ("active", "it signs"),
        (Some(KeyState::Retiring), _) => ("retiring", "it signs no more, and tokens of it live"),
        (Some(KeyState::VerifyOnly), _) => ("verifyOnly", "it leaves the documents"),
        (Some(KeyState::Retired | KeyState::Revoked), _) => ("over", "it leaves the documents"),
        (None, true) => ("retained", "no source shows it any more; it stays for its retention time"),
        (None, false) => ("live", "a source shows it"),
    }
}

fn visible(issuer: &IssuerSnapshot, key: &PublicKey) -> Vec<VisibleRow> {
    let views = issuer.seen.record.views().map(|(name, view)| {
        let seen = view.keys.get(key.key_id()).copied().unwrap_or_default();
        VisibleRow {
            view: name.to_owned(),
            shown_now: view.shows(key.key_id()),
            visible_seconds: seen.visible_seconds,
            unbroken_seconds: seen.unbroken_seconds,
        }
    });
    views.collect()
}

/// The withdrawn keys, the latest first.
pub(super) fn withdrawn_keys(issuer: &IssuerSnapshot) -> Vec<WithdrawnKeyRow> {
    let withdrawals = issuer.publication.iter().flat_map(|publication| publication.withdrawals.iter());
    let mut rows: Vec<WithdrawnKeyRow> = withdrawals
        .map(|withdrawal| WithdrawnKeyRow {
            kid: withdrawal.key.to_string(),
            cause: withdrawal.cause.to_string(),
        })
        .collect();
    rows.reverse();
    rows
}
