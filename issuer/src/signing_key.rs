//! With which key a control plane signs that we only observe, held against what relying parties can have seen.
//!
//! Whoever else rotates the keys of a cluster decides when a new one signs, and may do it before anybody outside has the
//! key: its tokens are refused then, wherever an older set is cached. We cannot hold that back. We can see it at once: a
//! *canary*, a token of our own that nobody takes, is asked of each kube-apiserver at every reading, and its key id says
//! which key signs.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. A key that is not published is an unannounced activation, whenever it is seen to sign.
//! 2. Where nobody looks from outside, being published must do.
//! 3. A key that every relying party can have seen, by the visibility record and the wait of the declared parties, is
//!    good.
//! 4. A key that took over from another one while we watched, and that not everybody can have seen, is an unannounced
//!    activation until everybody can. Back to the key before is none.
//! 5. A key that signed already when we began to watch may have been visible for years: it is not proven yet, which is no
//!    alarm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::retention::SourceId;
use chancery_core::{KeyId, PublicKey};
use tokio::sync::watch;

use crate::conditions::{ConditionType, UNANNOUNCED, Verdict};
use crate::index::Publication;
use crate::source::CanaryJudge;
use crate::visibility::VisibilitySnapshot;
use chancery_core::token::TokenFacts;

/// What the canaries of one issuer's kube-apiservers are held against, and what they showed before.
#[derive(Debug)]
pub(crate) struct SigningKeyWatch {
    publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Nothing where nobody looks from outside.
    visibility: Option<watch::Receiver<VisibilitySnapshot>>,
    last: Mutex<BTreeMap<SourceId, LastSigner>>,
}

/// What a kube-apiserver signed with when it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSigner {
    kid: String,
    /// Whether the key took over while we watched, and not everybody could have seen it.
    unannounced: bool,
    /// The last key that signed and was no alarm: back to it is no activation.
    accepted: Option<String>,
}

/// How far relying parties can have the key that signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    NotPublished,
    Published,
    VisibleEverywhere,
    NotEverywhere,
}

impl SigningKeyWatch {
    pub fn new(
        publications: watch::Receiver<Option<Arc<Publication>>>,
        visibility: Option<watch::Receiver<VisibilitySnapshot>>,
    ) -> Self {
        Self { publications, visibility, last: Mutex::default() }
    }

    fn reach(&self, kid: &str) -> Option<Reach> {
        let publication = self.publications.borrow().clone()?;
        let mut published = publication.documents.jwks().keys().iter().map(PublicKey::key_id);
        Some(match (published.find(|published| published.as_str() == kid), &self.visibility) {
            (None, _) => Reach::NotPublished,
            (Some(_), None) => Reach::Published,
            (Some(kid), Some(visibility)) => is_visible(&visibility.borrow(), kid),
        })
    }
}

impl CanaryJudge for SigningKeyWatch {
    fn judge(&self, source: &SourceId, canary: Result<TokenFacts, String>) -> Option<Verdict> {
        let minted = match canary {
            Ok(minted) => minted,
            Err(problem) => {
                let remedy = "grant `create` on `serviceaccounts/token` of the canary's ServiceAccount, and see that it is there";
                let message = format!("nobody knows which key signs: {problem}; {remedy}");
                return Some(Verdict::unknown(ConditionType::SigningKeyVisible, "CannotAsk", message));
            }
        };
        let reach = self.reach(&minted.kid)?;
        // No code that holds the lock can leave the map half changed.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = settle(last.get(source), &minted.kid, reach);
        let verdict = verdict(&now, reach);
        last.insert(source.clone(), now);
        Some(verdict)
    }

    fn forget(&self, source: &SourceId) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
    }
}

fn is_visible(snapshot: &VisibilitySnapshot, kid: &KeyId) -> Reach {
    match snapshot.is_visible_everywhere(kid, snapshot.usual_wait()) {
        Ok(()) => Reach::VisibleEverywhere,
        Err(_) => Reach::NotEverywhere,
    }
}

/// What is to be remembered of a signer, by what was known of it before.
fn settle(before: Option<&LastSigner>, kid: &str, reach: Reach) -> LastSigner {
    let accepted = before.and_then(|before| before.accepted.as_deref());
    let unannounced = match reach {
        Reach::NotPublished => true,
        Reach::Published | Reach::VisibleEverywhere => false,
        Reach::NotEverywhere => accepted.is_some_and(|accepted| accepted != kid),
    };
    let accepted = if unannounced { accepted } else { Some(kid) };
    LastSigner { kid: kid.to_owned(), unannounced, accepted: accepted.map(str::to_owned) }
}

fn verdict(signer: &LastSigner, reach: Reach) -> Verdict {
    let (condition, kid) = (ConditionType::SigningKeyVisible, &signer.kid);
    match (reach, signer.unannounced) {
        (Reach::VisibleEverywhere, _) => Verdict::good(
            condition,
            "VisibleEverywhere",
            format!("every relying party can have {kid}, which signs"),
        ),
        (Reach::Published, _) => Verdict::good(
            condition,
            "Published",
            format!("{kid}, which signs, is published; nobody looks from outside"),
        ),
        (Reach::NotPublished, _) => {
            let message = format!(
                "{kid} signs and is not published: whoever reads the issuer's documents refuses its tokens. Have a source show its public half, or sign with the key before"
            );
            Verdict::bad(condition, UNANNOUNCED, message)
        }
        (Reach::NotEverywhere, true) => {
            let message = format!(
                "{kid} signs before every relying party can have it: whoever has cached an older key set refuses its tokens. Sign with the key before until `/visibility?kid={kid}` says visibleEverywhere, or restart whom docs/relying-parties.md names"
            );
            Verdict::bad(condition, UNANNOUNCED, message)
        }
        (Reach::NotEverywhere, false) => {
            let message = format!(
                "{kid} signs, and was not yet seen everywhere for long enough to prove that everybody has it"
            );
            Verdict::pending(condition, "NotYetProven", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons of a series of keys and their reach, as one kube-apiserver shows them.
    fn reasons(seen: &[(&str, Reach)]) -> Vec<&'static str> {
        let mut last = None;
        let mut reasons = Vec::new();
        for (kid, reach) in seen {
            let now = settle(last.as_ref(), kid, *reach);
            reasons.push(verdict(&now, *reach).reason);
            last = Some(now);
        }
        reasons
    }

    #[test]
    fn a_key_that_signs_before_everybody_can_have_it_is_an_alarm_until_everybody_can() {
        use Reach::{NotEverywhere, NotPublished, Published, VisibleEverywhere};
        for (seen, expected) in [
            (vec![("a", VisibleEverywhere), ("a", VisibleEverywhere)], vec!["VisibleEverywhere"; 2]),
            (vec![("a", NotEverywhere), ("a", NotEverywhere)], vec!["NotYetProven"; 2]),
            (
                vec![
                    ("a", VisibleEverywhere),
                    ("b", NotEverywhere),
                    ("b", NotEverywhere),
                    ("b", VisibleEverywhere),
                ],
                vec!["VisibleEverywhere", UNANNOUNCED, UNANNOUNCED, "VisibleEverywhere"],
            ),
            (vec![("a", VisibleEverywhere), ("b", VisibleEverywhere)], vec!["VisibleEverywhere"; 2]),
            // Rolled back: the key before was seen everywhere all the time.
            (
                vec![("a", VisibleEverywhere), ("b", NotEverywhere), ("a", VisibleEverywhere)],
                vec!["VisibleEverywhere", UNANNOUNCED, "VisibleEverywhere"],
            ),
            (
                vec![("a", NotEverywhere), ("b", NotEverywhere), ("a", NotEverywhere)],
                vec!["NotYetProven", UNANNOUNCED, "NotYetProven"],
            ),
            (vec![("b", NotPublished), ("b", NotEverywhere)], vec![UNANNOUNCED, "NotYetProven"]),
            (vec![("b", NotPublished), ("b", Published)], vec![UNANNOUNCED, "Published"]),
            // A gap in what is seen of the key that signs is another condition's to say.
            (vec![("a", VisibleEverywhere), ("a", NotEverywhere)], vec!["VisibleEverywhere", "NotYetProven"]),
        ] {
            assert_eq!(reasons(&seen), expected, "{seen:?}");
        }
    }
}
