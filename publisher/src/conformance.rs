//! The battery that every store passes: what [`publish`](crate::publish()) relies on.
//!
//! ```no_run
//! # async fn check(store: &dyn chancery_publisher::DocumentStore) {
//! let run = chancery_publisher::conformance::run_all(store).await.unwrap_or_else(|failed| panic!("{failed}"));
//! println!("{} checks passed: {run:?}", run.len());
//! # }
//! ```

use std::fmt;

use chancery_core::publication::Precondition;
use futures_util::future::join_all;

use self::subject::{Checked, FIRST, SECOND, Subject};
use crate::store::{ConditionalRead, DocumentStore, StoreErrorKind};

mod subject;

/// How many writers race in the concurrent checks.
const RIVALS: usize = 8;

/// A promise that one server, or one protocol, is known not to keep.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// The check that fails there.
    pub check: &'static str,
    /// What it does instead, and how the cloud that it stands for differs, if it does.
    pub because: &'static str,
}

/// Runs every check on an empty place, one after the other, each on paths of its own. Returns their names.
///
/// # Errors
/// Names every check that failed, with the reason.
pub async fn run_all(store: &dyn DocumentStore) -> Result<Vec<&'static str>, NonConformance> {
    run_expecting(store, &[]).await
}

/// Like [`run_all`], on a server with known deviations. Each must be seen: a server that has become better is no longer
/// the one that was described.
///
/// # Errors
/// Names every check that failed without being expected to, or passed although it was.
pub async fn run_expecting(
    store: &dyn DocumentStore,
    deviations: &[Deviation],
) -> Result<Vec<&'static str>, NonConformance> {
    let mut passed = Vec::new();
    let mut failed = Vec::new();
    macro_rules! run {
        ($($check:ident),* $(,)?) => {$(
            let subject = Subject::new(store, stringify!($check));
            let deviation = deviations.iter().find(|deviation| deviation.check == stringify!($check));
            match ($check(&subject).await, deviation) {
                (Ok(()), None) | (Err(_), Some(_)) => passed.push(stringify!($check)),
                (Err(reason), None) => failed.push((stringify!($check), reason)),
                (Ok(()), Some(deviation)) => {
                    failed.push((stringify!($check), format!("it passed, although {}", deviation.because)));
                }
            }
        )*};
    }
    run![
        an_absent_object_reads_as_none,
        a_created_object_reads_back_exactly,
        creating_twice_conflicts_and_changes_nothing,
        a_good_version_replaces_everything,
        a_stale_version_conflicts_and_changes_nothing,
        replacing_an_absent_object_conflicts,
        the_version_written_is_the_version_read,
        every_content_has_its_own_version,
        reading_twice_gives_the_same,
        a_known_version_is_not_read_again,
        what_changed_since_is_read_again,
        other_attributes_are_another_version,
        a_version_with_other_attributes_conflicts,
        an_empty_object_is_an_object,
        a_large_object_reads_back_exactly,
        every_byte_reads_back,
        paths_with_dots_and_slashes_are_distinct,
        of_concurrent_creates_one_wins,
        of_concurrent_replacements_one_wins,
        concurrent_increments_lose_nothing,
    ];
    if failed.is_empty() { Ok(passed) } else { Err(NonConformance { passed, failed }) }
}

/// A store that is not what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonConformance {
    /// The checks that passed.
    pub passed: Vec<&'static str>,
    /// Those that failed, with the reasons.
    pub failed: Vec<(&'static str, String)>,
}

impl fmt::Display for NonConformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed.len() + self.failed.len();
        write!(f, "{} of {all} checks failed", self.failed.len())?;
        self.failed.iter().try_for_each(|(check, reason)| write!(f, "\n  {check}: {reason}"))
    }
}

impl std::error::Error for NonConformance {}

async fn an_absent_object_reads_as_none(subject: &Subject<'_>) -> Checked {
    equal("reading", subject.read().await?, None)?;
    equal("reading again", subject.read().await?, None)
}

async fn a_created_object_reads_back_exactly(subject: &Subject<'_>) -> Checked {
    let version = subject.create(b"{\"keys\":[]}").await?;
    let object = subject.present().await?;
    equal("the bytes", object.bytes.as_slice(), b"{\"keys\":[]}")?;
    equal("the media type", object.media_type.as_deref(), Some(FIRST.media_type))?;
    equal("the cache header", object.cache_control.as_deref(), Some(FIRST.cache_control))?;
    equal("the marker", object.marker, Some(FIRST.marker()?))?;
    equal("the version", object.version, version)
}

async fn creating_twice_conflicts_and_changes_nothing(subject: &Subject<'_>) -> Checked {
    subject.create(b"first").await?;
    let before = subject.present().await?;
    subject.conflicts(b"second", &Precondition::Absent).await?;
    subject.conflicts(b"first", &Precondition::Absent).await?;
    equal("the object", subject.present().await?, before)
}

async fn a_good_version_replaces_everything(subject: &Subject<'_>) -> Checked {
    let first = subject.create(b"first").await?;
    let second = subject.put(b"second, longer", &Precondition::Unchanged(first), &SECOND).await?;
    let object = subject.present().await?;
    equal("the bytes", object.bytes.as_slice(), b"second, longer")?;
    equal("the media type", object.media_type.as_deref(), Some(SECOND.media_type))?;
    equal("the cache header", object.cache_control.as_deref(), Some(SECOND.cache_control))?;
    equal("the marker", object.marker, Some(SECOND.marker()?))?;
    equal("the version", object.version, second)
}

async fn a_stale_version_conflicts_and_changes_nothing(subject: &Subject<'_>) -> Checked {
    let stale = subject.create(b"first").await?;
    subject.replace(b"second", stale.clone()).await?;
    let before = subject.present().await?;
    subject.conflicts(b"third", &Precondition::Unchanged(stale)).await?;
    equal("the object", subject.present().await?, before)
}

async fn replacing_an_absent_object_conflicts(subject: &Subject<'_>) -> Checked {
    let elsewhere = subject.beside("elsewhere").create(b"content").await?;
    subject.conflicts(b"content", &Precondition::Unchanged(elsewhere)).await?;
    equal("the object", subject.read().await?, None)
}

async fn the_version_written_is_the_version_read(subject: &Subject<'_>) -> Checked {
    let mut version = subject.create(b"0").await?;
    for content in [b"1", b"2", b"3"] {
        equal("the version", &subject.present().await?.version, &version)?;
        version = subject.replace(content, version).await?;
    }
    Ok(())
}

async fn every_content_has_its_own_version(subject: &Subject<'_>) -> Checked {
    let mut versions = vec![subject.create(b"aaaa").await?];
    for content in [b"aaab", b"baaa", b"bbbb"] {
        let last = versions.last().cloned().ok_or("no version")?;
        let version = subject.replace(content, last).await?;
        if versions.contains(&version) {
            return Err(format!("{version:?} was given twice"));
        }
        versions.push(version);
    }
    Ok(())
}

async fn reading_twice_gives_the_same(subject: &Subject<'_>) -> Checked {
    subject.create(b"content").await?;
    equal("the second reading", subject.present().await?, subject.present().await?)
}

async fn a_known_version_is_not_read_again(subject: &Subject<'_>) -> Checked {
    let version = subject.create(b"content").await?;
    equal("the reading", subject.read_unless(&version).await?, ConditionalRead::Unchanged)?;
    let version = subject.replace(b"more", version).await?;
    equal("the reading after a replacement", subject.read_unless(&version).await?, ConditionalRead::Unchanged)
}

async fn what_changed_since_is_read_again(subject: &Subject<'_>) -> Checked {
    let stale = subject.create(b"first").await?;
    subject.replace(b"second", stale.clone()).await?;
    let object = subject.present().await?;
    equal("the reading", subject.read_unless(&stale).await?, ConditionalRead::Found(object))?;
    let nothing = subject.beside("nothing").read_unless(&stale).await?;
    equal("the reading of nothing", nothing, ConditionalRead::Absent)
}

/// As after a copy in place, which changes what relying parties are told of the same bytes.
async fn other_attributes_are_another_version(subject: &Subject<'_>) -> Checked {
    let before = subject.create(b"content").await?;
    let after = subject.put(b"content", &Precondition::Unchanged(before.clone()), &SECOND).await?;
    if after == before {
        return Err(format!("{after:?} was given twice"));
    }
    let object = subject.present().await?;
    equal("the version", &object.version, &after)?;
    equal("the cache header", object.cache_control.as_deref(), Some(SECOND.cache_control))?;
    equal(
        "the reading of what was before",
        subject.read_unless(&before).await?,
        ConditionalRead::Found(object),
    )
}

async fn a_version_with_other_attributes_conflicts(subject: &Subject<'_>) -> Checked {
    let stale = subject.create(b"content").await?;
    subject.put(b"content", &Precondition::Unchanged(stale.clone()), &SECOND).await?;
    let before = subject.present().await?;
    subject.conflicts(b"more", &Precondition::Unchanged(stale)).await?;
    equal("the object", subject.present().await?, before)
}

async fn an_empty_object_is_an_object(subject: &Subject<'_>) -> Checked {
    let version = subject.create(b"").await?;
    equal("the bytes", subject.present().await?.bytes.as_slice(), b"")?;
    subject.conflicts(b"", &Precondition::Absent).await?;
    subject.replace(b"more", version).await.map(drop)
}

async fn a_large_object_reads_back_exactly(subject: &Subject<'_>) -> Checked {
    // A period that divides no buffer's size.
    let bytes: Vec<u8> = (0..=250_u8).cycle().take(1 << 20).collect();
    subject.create(&bytes).await?;
    let read = subject.present().await?.bytes;
    if read == bytes {
        Ok(())
    } else {
        Err(format!("{} bytes came back as {} others", bytes.len(), read.len()))
    }
}

async fn every_byte_reads_back(subject: &Subject<'_>) -> Checked {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    subject.create(&bytes).await?;
    equal("the bytes", subject.present().await?.bytes, bytes)
}

async fn paths_with_dots_and_slashes_are_distinct(subject: &Subject<'_>) -> Checked {
    let paths = [".well-known/openid-configuration", "openid/v1/jwks", "a.b/c..d/.e", "a.b/c", "x~y/z-1_2"];
    for path in paths {
        subject.beside(path).create(path.as_bytes()).await?;
    }
    for path in paths {
        equal(path, subject.beside(path).present().await?.bytes.as_slice(), path.as_bytes())?;
    }
    equal("the path above them", subject.beside("openid/v1").read().await.unwrap_or(None), None)
}

async fn of_concurrent_creates_one_wins(subject: &Subject<'_>) -> Checked {
    race(subject, &Precondition::Absent).await
}

async fn of_concurrent_replacements_one_wins(subject: &Subject<'_>) -> Checked {
    let version = subject.create(b"before").await?;
    race(subject, &Precondition::Unchanged(version)).await
}

async fn concurrent_increments_lose_nothing(subject: &Subject<'_>) -> Checked {
    subject.create(b"0").await?;
    let each = join_all((0..RIVALS).map(|_| increment(subject))).await;
    each.into_iter().collect::<Checked>()?;
    equal("the count", subject.present().await?.bytes, RIVALS.to_string().into_bytes())
}

/// Counts up by one, and again after each conflict, which is somebody else's success, as a rule.
async fn increment(subject: &Subject<'_>) -> Checked {
    for _ in 0..RIVALS * RIVALS {
        let object = subject.present().await?;
        let count = String::from_utf8_lossy(&object.bytes).parse::<usize>().map_err(|e| e.to_string())?;
        let next = (count + 1).to_string();
        let written =
            subject.attempt(next.as_bytes(), &Precondition::Unchanged(object.version), &FIRST).await;
        if !matches!(written, Err((StoreErrorKind::Conflict, _))) {
            return written.map(drop).map_err(|(_, reason)| reason);
        }
    }
    Err("conflicts without end".to_owned())
}

async fn race(subject: &Subject<'_>, precondition: &Precondition) -> Checked {
    let contents: Vec<String> = (0..RIVALS).map(|number| format!("rival {number}")).collect();
    let attempts = contents.iter().map(|content| subject.attempt(content.as_bytes(), precondition, &FIRST));
    let mut winners = Vec::new();
    for (content, result) in contents.iter().zip(join_all(attempts).await) {
        match result {
            Ok(version) => winners.push((content, version)),
            Err((StoreErrorKind::Conflict, _)) => {}
            Err((_, reason)) => return Err(reason),
        }
    }
    let [(content, version)] = winners.as_slice() else {
        return Err(format!("{} of {RIVALS} writers won: {winners:?}", winners.len()));
    };
    let object = subject.present().await?;
    equal("the winner's bytes", object.bytes.as_slice(), content.as_bytes())?;
    equal("the winner's version", &object.version, version)
}

fn equal<T: PartialEq + fmt::Debug>(what: &str, came: T, expected: T) -> Checked {
    if came == expected { Ok(()) } else { Err(format!("{what}: {came:?} came, expected {expected:?}")) }
}

#[cfg(test)]
mod tests;
