//! What a condition means to a person, and what to do about it.

use crate::conditions::{Condition, ConditionType, PartKind};

use super::state::State;

/// What one reason of a condition means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remedy {
    condition: ConditionType,
    reason: &'static str,
    /// What is so, after the name of the part.
    what: &'static str,
    /// What to do.
    action: &'static str,
}

/// Nobody needs to do anything.
const WAIT: &str = "Nothing: it passes by itself.";

/// The most urgent first: what lets strangers in, then what has tokens refused now, then what will.
const REMEDIES: [Remedy; 38] = {
    use ConditionType::{
        Acceptable, Accepted, Drifted, ForeignKeys, OwnedByUs, Published, Read, ServedAsPublished,
        SigningKeyVisible, Uploaded, Visible,
    };
    const fn remedy(
        condition: ConditionType,
        reason: &'static str,
        what: &'static str,
        action: &'static str,
    ) -> Remedy {
        Remedy { condition, reason, what, action }
    }
    [
        remedy(
            ForeignKeys,
            "PossibleIntrusion",
            "shows keys that somebody has put there",
            "Find out who can write there and take that right away; then look at who used tokens of those keys.",
        ),
        remedy(
            ServedAsPublished,
            "ServesForeignKeys",
            "serves keys that we never published",
            "Find out who answers there in our name, and take the name away from them.",
        ),
        remedy(
            Drifted,
            "ForeignKeys",
            "was given keys behind our back",
            "Find out who can write there and take that right away.",
        ),
        remedy(
            Drifted,
            "RolledBack",
            "was set back to an older edition behind our back",
            "Find out who can write there and take that right away.",
        ),
        remedy(
            SigningKeyVisible,
            "UnannouncedActivation",
            "signs with a key that not every relying party can have",
            "Sign with the key before until the new one may sign, as its row says; or restart the relying parties that docs/relying-parties.md names.",
        ),
        remedy(
            Visible,
            "KeyVanished",
            "does not show a key any more that it has shown",
            "Look at what stands behind the edges that are named: a target that was changed, or a cache that was set back.",
        ),
        remedy(
            Accepted,
            "CannotOpen",
            "cannot be opened",
            "Correct what is named. It is tried again within a minute; `chancery issuer --check --config FILE` tries it at once.",
        ),
        remedy(
            OwnedByUs,
            "ForeignMarker",
            "belongs to another owner",
            "Find out who else publishes there, and give one of the two a place of its own (docs/recovery.md if it is the same issuer).",
        ),
        remedy(
            OwnedByUs,
            "Unmarked",
            "holds documents that somebody else wrote",
            "Look at them; then set `adopt: true` on the target, or choose another place.",
        ),
        remedy(
            Published,
            "Blocked",
            "may not be written",
            "Decide what is named; nothing is written there until then.",
        ),
        remedy(
            Published,
            "Failed",
            "cannot be read or written",
            "Correct what is named. It is tried again with growing pauses, and relying parties read what was written last.",
        ),
        remedy(
            Published,
            "NoAnswer",
            "does not answer",
            "Look at its disk or network. Relying parties read what was written last.",
        ),
        remedy(
            Published,
            "Raced",
            "was written by somebody else at the same time",
            "Nothing, if it passes; otherwise find out who else writes there.",
        ),
        remedy(
            Uploaded,
            "Blocked",
            "may not be given the keys",
            "Decide what is named; nothing is given to it until then.",
        ),
        remedy(
            Uploaded,
            "Failed",
            "cannot be given the keys",
            "Correct what is named. It is tried again with growing pauses, and goes on accepting the keys that it has.",
        ),
        remedy(
            Uploaded,
            "NoAnswer",
            "does not answer",
            "Look at it and its network. It goes on accepting the keys that it has.",
        ),
        remedy(
            Uploaded,
            "Raced",
            "was written by somebody else at the same time",
            "Nothing, if it passes; otherwise find out who else writes there.",
        ),
        remedy(
            Read,
            "Unreadable",
            "cannot be read, and counts as it was read last",
            "Make it readable again. No key is withdrawn meanwhile.",
        ),
        remedy(
            Read,
            "Incomplete",
            "has a part that was never read since the start",
            "Make that part readable or take it away: until then no vanished key is withdrawn.",
        ),
        remedy(
            ServedAsPublished,
            "Altered",
            "serves documents that we never published",
            "Find out what is in front of the target: a CDN that rewrites, or somebody who tampers.",
        ),
        remedy(
            Visible,
            "EdgeUnreadable",
            "cannot be read everywhere",
            "Have the edges that are named answer: what they show is not known, and no key's time runs meanwhile.",
        ),
        remedy(
            SigningKeyVisible,
            "CannotAsk",
            "does not say with which key it signs",
            "Grant the right that is named.",
        ),
        remedy(
            Acceptable,
            "Unacceptable",
            "is refused by clients",
            "Put a certificate into its files that clients take; they are read again by themselves.",
        ),
        remedy(
            Acceptable,
            "ReplacementRefused",
            "has a replacement in its files that is worse",
            "Put a certificate into its files that clients take; the one in use stays until then.",
        ),
        remedy(
            Drifted,
            "MarkerReplaced",
            "was given another owner's marker behind our back",
            "Find out who else writes there.",
        ),
        remedy(
            Drifted,
            "Oversize",
            "was given an object that is too large to be read",
            "Find out who can write there.",
        ),
        remedy(
            Drifted,
            "Vanished",
            "lost a document behind our back",
            "Find out who can write there, or whether a rule of the bucket deletes objects.",
        ),
        remedy(Drifted, "Changed", "was changed behind our back", "Find out who can write there."),
        remedy(
            Accepted,
            "InvalidSpec",
            "says what an object may not, or what nobody can use",
            "Correct its spec (docs/issuer-resource.md).",
        ),
        remedy(Accepted, "Collision", "wants what another one has", "Change or delete one of the two."),
        remedy(
            Accepted,
            "LastGoodFollowed",
            "is followed as it was before",
            "Correct its spec: after a restart of all replicas nobody knows the one before.",
        ),
        remedy(
            ForeignKeys,
            "KeysOfNoSource",
            "shows keys that no source of ours has",
            "Find out whether anybody signs with them; if not, take them out (docs/targets.md).",
        ),
        remedy(Read, "NotYetRead", "was not read yet", WAIT),
        remedy(
            SigningKeyVisible,
            "NotYetProven",
            "signs with a key that was not yet seen everywhere for long enough",
            WAIT,
        ),
        remedy(Visible, "KeyNotYetSeen", "does not show a new key yet", WAIT),
        remedy(
            ServedAsPublished,
            "Stale",
            "serves what was published before",
            "Nothing: caches ask again by themselves. Purge them if that takes too long.",
        ),
        remedy(ServedAsPublished, "NotKnownHere", "serves what this replica does not know yet", WAIT),
        remedy(ServedAsPublished, "TargetsNotRead", "cannot be compared with what was published yet", WAIT),
    ]
};

/// What a condition that is not good means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    /// How bad it is.
    pub state: State,
    /// Of those that are as bad, the lower the more urgent.
    pub rank: usize,
    /// One sentence.
    pub sentence: String,
    /// What to do.
    pub action: &'static str,
}

/// What a condition means; nothing when all is well with it, and of `Ready`, which only sums the others up.
pub(super) fn meaning(condition: &Condition) -> Option<Meaning> {
    let state = state(condition);
    if state == State::Healthy || condition.condition == ConditionType::Ready {
        return None;
    }
    let is_it =
        |remedy: &Remedy| remedy.condition == condition.condition && remedy.reason == condition.reason;
    let found = REMEDIES.iter().enumerate().find(|(_, remedy)| is_it(remedy));
    let unlisted = (usize::MAX, "is not as it should be", "See what is said of it.");
    let (rank, what, action) = found.map_or(unlisted, |(rank, remedy)| (rank, remedy.what, remedy.action));
    let sentence = match condition.message.as_str() {
        "" => format!("{} {what}.", part(condition)),
        message => format!("{} {what}: {message}", part(condition)),
    };
    Some(Meaning { state, rank, sentence, action })
}

/// How bad a condition is.
pub(super) fn state(condition: &Condition) -> State {
    use ConditionType::{Drifted, ForeignKeys};
    match (condition.condition, condition.reason) {
        _ if condition.is_good() => State::Healthy,
        (Drifted, "RolledBack" | "ForeignKeys") | (ForeignKeys, "PossibleIntrusion") => State::Broken,
        // What drifted was written anew, which `Published` says, and foreign keys harm nobody who reads there.
        (Drifted | ForeignKeys, _) => State::Attention,
        _ if condition.alarm => State::Broken,
        _ => State::Waiting,
    }
}

/// The part at the beginning of a sentence.
fn part(condition: &Condition) -> String {
    let name = condition.subject.name();
    match condition.subject.kind() {
        PartKind::Issuer => "The issuer".to_owned(),
        PartKind::Source => format!("Source {name}"),
        PartKind::Target => format!("Target {name}"),
        PartKind::Sink => format!("Sink {name}"),
        PartKind::View if name == crate::config::ISSUER_URL_VIEW => "The issuer URL".to_owned(),
        PartKind::View => format!("The public URL of {name}"),
        PartKind::Certificate => format!("The certificate {name}"),
        PartKind::Object => format!("The object {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::conditions::{Conditions, Subject, Verdict};

    /// The reasons for which a condition is not good, as the table at the head of `conditions.rs` lists them.
    fn documented() -> BTreeSet<(String, String)> {
        let rows = include_str!("../conditions.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let bad = rows.filter_map(|row| {
            let (condition, rest) = row.split_once('`')?;
            let (_, reasons) = rest.rsplit_once("`; ")?;
            let reasons = reasons
                .split('`')
                .filter(|reason| reason.chars().all(char::is_alphanumeric) && !reason.is_empty());
            Some(reasons.map(|reason| (condition.to_owned(), reason.to_owned())).collect::<Vec<_>>())
        });
        bad.flatten().collect()
    }

    #[test]
    fn every_documented_reason_has_a_remedy_and_no_other() {
        let known: BTreeSet<(String, String)> = REMEDIES
            .iter()
            .map(|remedy| (remedy.condition.as_str().to_owned(), remedy.reason.to_owned()))
            .collect();
        assert_eq!(known.len(), REMEDIES.len(), "one stands there twice");
        let mut documented = documented();
        assert!(documented.remove(&("Ready".to_owned(), "NotReady".to_owned())), "{documented:?}");
        assert_eq!(known, documented);
    }

    /// How bad a verdict is, and the sentence that it becomes.
    fn said(subject: &Subject, verdict: &Verdict) -> Option<(State, String)> {
        let mut conditions = Conditions::default();
        conditions.set(subject, verdict, jiff::Timestamp::UNIX_EPOCH);
        let meaning = meaning(conditions.iter().next().unwrap());
        meaning.map(|meaning| (meaning.state, meaning.sentence))
    }

    #[test]
    fn a_condition_is_a_sentence_about_its_part() {
        use ConditionType::{Accepted, Drifted, ForeignKeys, Published, Read, Visible};
        use State::{Attention, Broken, Waiting};
        let issuer = "https://id.example.com".parse().unwrap();
        let (target, source) = (Subject::target(&issuer, "bucket"), Subject::source(&issuer, "files"));
        let (whole, view) = (Subject::issuer(&issuer), Subject::view(&issuer, "issuer URL"));
        let bad = |condition, reason, message: &str| Verdict::bad(condition, reason, message);
        let pending = |condition, reason, message: &str| Verdict::pending(condition, reason, message);
        for (subject, verdict, state, sentence) in [
            (&whole, bad(Accepted, "CannotOpen", "gone"), Broken, "The issuer cannot be opened: gone"),
            (
                &target,
                bad(Published, "Failed", "403"),
                Broken,
                "Target bucket cannot be read or written: 403",
            ),
            (&target, bad(Drifted, "Changed", ""), Attention, "Target bucket was changed behind our back."),
            (
                &target,
                bad(Drifted, "RolledBack", ""),
                Broken,
                "Target bucket was set back to an older edition behind our back.",
            ),
            (
                &target,
                bad(ForeignKeys, "KeysOfNoSource", "k"),
                Attention,
                "Target bucket shows keys that no source of ours has: k",
            ),
            (
                &target,
                bad(ForeignKeys, "PossibleIntrusion", "k"),
                Broken,
                "Target bucket shows keys that somebody has put there: k",
            ),
            (&source, pending(Read, "NotYetRead", ""), Waiting, "Source files was not read yet."),
            (
                &view,
                pending(Visible, "KeyNotYetSeen", "k"),
                Waiting,
                "The issuer URL does not show a new key yet: k",
            ),
            (
                &target,
                bad(Published, "OfALaterRelease", "x"),
                Broken,
                "Target bucket is not as it should be: x",
            ),
        ] {
            assert_eq!(said(subject, &verdict), Some((state, sentence.to_owned())));
        }
        assert_eq!(said(&target, &Verdict::good(Published, "UpToDate", "fine")), None);
        let ready = bad(ConditionType::Ready, "NotReady", "Published of x");
        assert_eq!(said(&whole, &ready), None, "it only sums the others up");
    }
}
