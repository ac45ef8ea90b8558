//! The page of all issuers: the worst first, a hundred at a time.

use crate::conditions::Condition;

use super::model::{Asked, CertificateRow, Counts, FORMAT, IssuerRow, ObjectRow, Overview, Replica};
use super::remedy::meaning;
use super::snapshot::{CertificateSnapshot, IssuerSnapshot, ReplicaSnapshot};
use super::standing::{Standing, standing, waiting_keys};

/// How many issuers are on a page.
pub const PER_PAGE: usize = 100;

/// The page that is asked for; nothing if there are not so many.
pub fn overview(
    replica: &ReplicaSnapshot,
    issuers: impl IntoIterator<Item = IssuerSnapshot>,
    asked: Asked,
) -> Option<Overview> {
    let mut counts = Counts::default();
    let mut rows: Vec<IssuerRow> = Vec::new();
    for issuer in issuers {
        let row = row(&issuer, replica.publishes);
        counts.count(row.standing.state);
        if is_asked_for(&row, &asked) {
            rows.push(row);
        }
    }
    rows.sort_by(|one, other| (one.standing.state, &one.issuer).cmp(&(other.standing.state, &other.issuer)));
    let (matching, pages) = (rows.len(), rows.len().div_ceil(PER_PAGE).max(1));
    let before = asked.page.checked_sub(1)?;
    let issuers = rows.into_iter().skip(before.saturating_mul(PER_PAGE)).take(PER_PAGE).collect();
    let replica = replica_row(replica);
    let is_there = asked.page <= pages;
    is_there.then_some(Overview { format: FORMAT, replica, counts, asked, matching, pages, issuers })
}

/// What a page says of the process.
pub(super) fn replica_row(replica: &ReplicaSnapshot) -> Replica {
    let mut certificates: Vec<CertificateRow> = replica.certificates.iter().map(certificate).collect();
    certificates.sort_by_key(|row| row.standing.state);
    let mut objects: Vec<ObjectRow> = replica.objects.iter().map(object).collect();
    objects.sort_by_key(|row| row.standing.state);
    let ReplicaSnapshot { at, version, publishes, .. } = *replica;
    Replica { at, version, publishes, certificates, objects }
}

fn certificate(certificate: &CertificateSnapshot) -> CertificateRow {
    let CertificateSnapshot { condition, expires_at } = certificate;
    let standing = of_process(condition, "Clients take it.");
    CertificateRow { path: condition.subject.name().to_owned(), expires_at: *expires_at, standing }
}

fn object(condition: &Condition) -> ObjectRow {
    let standing = of_process(condition, "Its spec is followed.");
    ObjectRow { name: condition.subject.name().to_owned(), standing }
}

/// How a part of the process stands, which is no issuer's.
fn of_process(condition: &Condition, good: &str) -> Standing {
    match meaning(condition) {
        None => Standing::healthy(good),
        Some(meaning) => Standing {
            state: meaning.state,
            sentence: meaning.sentence,
            action: Some(meaning.action.to_owned()),
            since: Some(condition.last_transition_time),
        },
    }
}

fn row(issuer: &IssuerSnapshot, publishes: bool) -> IssuerRow {
    IssuerRow {
        issuer: issuer.url().to_string(),
        standing: standing(issuer, publishes),
        published_keys: issuer.kids().count(),
        waiting_keys: waiting_keys(issuer, publishes).len(),
    }
}

fn is_asked_for(row: &IssuerRow, asked: &Asked) -> bool {
    asked.state.is_none_or(|state| state == row.standing.state)
        && asked.find.as_ref().is_none_or(|text| row.issuer.contains(text.as_str()))
}
