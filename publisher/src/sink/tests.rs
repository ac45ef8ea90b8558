//! `upload()` against a place that others write too, that loses answers, and that knows no versions.

use std::sync::Mutex;

use chancery_core::PublicKey;
use chancery_core::Withdrawals;

use super::*;
use crate::store::{Failure, Operation};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// The write takes effect.
    Done,
    /// It does, and nobody learns so.
    AnswerLost,
    /// It does not, since somebody was faster.
    Conflict,
    /// It does, and is then undone by somebody who adds key 9 to what was there before.
    Overwritten,
    /// It does not, for good.
    Denied,
}

#[derive(Debug, Default)]
struct Place {
    keys: Mutex<Vec<PublicKey>>,
    fates: Mutex<Vec<Fate>>,
    writes: Mutex<usize>,
}

impl Place {
    /// Writes meet these fates in their order, the last one again and again.
    fn with(fates: &[Fate]) -> Self {
        Self { fates: Mutex::new(fates.iter().rev().copied().collect()), ..Self::default() }
    }

    fn holds(&self) -> Vec<KeyId> {
        let mut ids: Vec<_> = self.keys.lock().unwrap().iter().map(|key| key.key_id().clone()).collect();
        ids.sort();
        ids
    }

    fn fail(&self, kind: StoreErrorKind) -> StoreError {
        Failure::new(kind, "a fate", "none").at(self.describe(), Operation::Write, "keys")
    }
}

#[async_trait]
impl JwksSink for Place {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        Ok(HeldKeys { keys: self.keys.lock().unwrap().clone(), ..HeldKeys::default() })
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        *self.writes.lock().unwrap() += 1;
        let mut fates = self.fates.lock().unwrap();
        let fate = if fates.len() > 1 { fates.pop().unwrap() } else { fates[0] };
        let mut keys = self.keys.lock().unwrap();
        match fate {
            Fate::Conflict => return Err(self.fail(StoreErrorKind::Conflict)),
            Fate::Denied => return Err(self.fail(StoreErrorKind::Denied)),
            Fate::Overwritten if !keys.contains(&key(9)) => keys.push(key(9)),
            Fate::Overwritten => {}
            Fate::Done | Fate::AnswerLost => *keys = upload.jwks.keys().to_vec(),
        }
        if fate == Fate::AnswerLost { Err(self.fail(StoreErrorKind::TimedOut)) } else { Ok(()) }
    }

    fn describe(&self) -> String {
        "the place".to_owned()
    }
}

fn key(number: u8) -> PublicKey {
    let mut modulus = [0xa5; 128];
    modulus[1] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

fn ids(numbers: &[u8]) -> Vec<KeyId> {
    let mut ids: Vec<_> = numbers.iter().map(|number| key(*number).key_id().clone()).collect();
    ids.sort();
    ids
}

async fn upload_to(place: &Place, numbers: &[u8]) -> Result<UploadPlan, UploadError> {
    let jwks = Jwks::new(numbers.iter().copied().map(key)).unwrap();
    let owner = "us".parse().unwrap();
    upload(
        place,
        DesiredUpload { jwks: &jwks, withdrawals: Withdrawals::none(), owner: &owner, adopt_unmarked: false },
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn what_was_done_on_the_way_and_what_is_there_at_last() {
    for (fates, held, (writes, adds)) in [
        (&[Fate::Done][..], &[1u8, 2][..], (1, &[1u8, 2][..])),
        (&[Fate::AnswerLost], &[1, 2], (1, &[])),
        (&[Fate::Conflict, Fate::Conflict, Fate::Done], &[1, 2], (3, &[1, 2])),
        (&[Fate::Overwritten, Fate::Done], &[1, 2, 9], (2, &[1, 2])),
    ] {
        let place = Place::with(fates);
        let plan = upload_to(&place, &[1, 2]).await.unwrap();
        assert_eq!((place.holds(), *place.writes.lock().unwrap()), (ids(held), writes), "{fates:?}");
        let (mut result, mut added) = (plan.result, plan.adds);
        result.sort();
        added.sort();
        assert_eq!((result, added), (ids(held), ids(adds)), "{fates:?}");
        assert_eq!(plan.foreign, if held.contains(&9) { ids(&[9]) } else { Vec::new() });
        assert_eq!(plan.upload.is_some(), fates != [Fate::AnswerLost], "{fates:?}");
        assert_eq!(upload_to(&place, &[1, 2]).await.unwrap().upload, None, "{fates:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_undone_again_and_again_says_so_and_a_refusal_is_not_repeated() {
    for (fate, writes, words, is_transient) in [
        (Fate::Overwritten, 5, "did not stay, 5 times", true),
        (Fate::Conflict, 5, "did not stay, 5 times", true),
        (Fate::Denied, 1, "access was denied", false),
    ] {
        let place = Place::with(&[fate]);
        let error = upload_to(&place, &[1]).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!((*place.writes.lock().unwrap(), error.is_transient()), (writes, is_transient));
    }
}
