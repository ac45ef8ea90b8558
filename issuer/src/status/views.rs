//! The places that relying parties read, and the ways to read each.

use chancery_core::KeyId;
use chancery_core::visibility::{EdgeRecord, ViewRecord};

use super::model::{EdgeRow, ViewRow};
use super::snapshot::IssuerSnapshot;

/// Every view of an issuer, by name.
pub(super) fn views(issuer: &IssuerSnapshot) -> Vec<ViewRow> {
    let published: Vec<&KeyId> = issuer.kids().collect();
    let views = issuer.seen.record.views().map(|(name, view)| ViewRow {
        name: name.to_owned(),
        read_seconds_ago: view.read_seconds_ago,
        longest_max_age_seconds: view.longest_lifetime().map(|longest| longest.as_secs()),
        edges: view.edges.iter().map(|(name, edge)| row(name, edge, view, &published)).collect(),
    });
    views.collect()
}

fn row(name: &str, edge: &EdgeRecord, view: &ViewRecord, published: &[&KeyId]) -> EdgeRow {
    let unread = EdgeRow {
        name: name.to_owned(),
        unreadable: None,
        missing: Vec::new(),
        other_keys: 0,
        age_seconds: None,
        max_age_seconds: None,
    };
    match edge {
        EdgeRecord::Unreadable(why) => EdgeRow { unreadable: Some(why.clone()), ..unread },
        EdgeRecord::Read { missing, others, age_seconds, lifetime_seconds } => {
            // A key that no edge has shown is not among those of the view.
            let lacks = |kid: &&&KeyId| missing.contains(**kid) || !view.keys.contains_key(**kid);
            EdgeRow {
                missing: published.iter().filter(lacks).map(ToString::to_string).collect(),
                other_keys: *others,
                age_seconds: *age_seconds,
                max_age_seconds: *lifetime_seconds,
                ..unread
            }
        }
    }
}
