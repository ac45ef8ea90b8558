//! The table is consistent with itself.

use super::*;

type Column = fn(&Profile) -> Acceptance;

#[test]
fn names_are_read_as_they_are_written() {
    for party in RelyingParty::ALL {
        assert_eq!(party.as_str().parse(), Ok(party));
        assert_eq!(party.profile().party, party, "the row of another");
        let json = serde_json::to_string(&party).unwrap();
        assert_eq!(json, format!("\"{party}\""));
        assert_eq!(serde_json::from_str::<RelyingParty>(&json).unwrap(), party);
    }
    assert_eq!("openbao".parse(), Ok(RelyingParty::Vault));
    for text in ["", "AWS", "aws ", "all"] {
        let error = text.parse::<RelyingParty>().unwrap_err().to_string();
        assert!(RelyingParty::ALL.iter().all(|party| error.contains(party.as_str())), "{error}");
    }
}

/// Whatever suits `common` must suit every row, or the name lies.
#[test]
fn the_common_denominator_is_no_wider_than_any_row() {
    let common = RelyingParty::Common.profile();
    let at_most = |narrow: Option<usize>, wide: Option<usize>| {
        wide.is_none_or(|wide| narrow.is_some_and(|n| n <= wide))
    };
    for row in RelyingParty::ALL.map(RelyingParty::profile) {
        let accepts_no_more =
            |column: Column| column(row) == Acceptance::Accepts || column(common) != Acceptance::Accepts;
        let columns: [Column; 12] = [
            |row| row.issuer.port,
            |row| row.issuer.ip_host,
            |row| row.issuer.upper_case_host,
            |row| row.issuer.trailing_slash,
            |row| row.algorithms.rs256,
            |row| row.algorithms.es256,
            |row| row.algorithms.es384,
            |row| row.algorithms.es512,
            |row| row.keys.without_kid,
            |row| row.keys.repeated_kid,
            |row| row.keys.other_use,
            |row| row.keys.other_algorithm,
        ];
        assert!(columns.into_iter().all(accepts_no_more), "{}", row.party);
        assert!(at_most(common.issuer.max_length, row.issuer.max_length), "{}", row.party);
        for limit in [row.keys.budget.rsa, row.keys.budget.ec, row.keys.budget.total] {
            assert!(at_most(common.keys.budget.total, limit), "{}", row.party);
        }
        assert!(row.keys.rsa_bits.contains(common.keys.rsa_bits.start()), "{}", row.party);
        assert!(row.keys.rsa_bits.contains(common.keys.rsa_bits.end()), "{}", row.party);
        assert!(common.keys.key_types.iter().all(|kind| row.keys.key_types.contains(kind)), "{}", row.party);
        let members = common.keys.only_members.unwrap();
        assert!(!members.iter().any(|member| row.keys.refused_members.contains(member)), "{}", row.party);
        assert!(
            row.fetch.budget.is_none_or(|budget| common.fetch.budget.unwrap() <= budget),
            "{}",
            row.party
        );
    }
}

/// Design rule: RS256 with RSA-2048 is what every relying party takes.
#[test]
fn the_default_key_suits_every_row() {
    for row in RelyingParty::ALL.map(RelyingParty::profile) {
        assert_eq!(row.algorithms.of(Algorithm::Rs256), Acceptance::Accepts, "{}", row.party);
        assert!(row.keys.rsa_bits.contains(&2048), "{}", row.party);
    }
}

/// The page for users shows the table, so it changes with it.
#[test]
fn the_page_for_users_shows_these_rows() {
    let page = include_str!("../../../docs/relying-parties.md");
    let shows = |name: &str, cell: &dyn Fn(&Profile) -> String| {
        let cells = RelyingParty::USUAL.map(|party| cell(party.profile())).join(" | ");
        let line = format!("| {name} | {cells} |");
        assert!(page.contains(&line), "docs/relying-parties.md lacks {line}");
    };
    let columns: [(&str, Column); 12] = [
        ("port", |row| row.issuer.port),
        ("IP address as host", |row| row.issuer.ip_host),
        ("upper case in the host", |row| row.issuer.upper_case_host),
        ("slash at the end", |row| row.issuer.trailing_slash),
        ("RS256", |row| row.algorithms.rs256),
        ("ES256", |row| row.algorithms.es256),
        ("ES384, ES512", |row| row.algorithms.es384),
        ("ES384, ES512", |row| row.algorithms.es512),
        ("key without `kid`", |row| row.keys.without_kid),
        ("two keys with one `kid`", |row| row.keys.repeated_kid),
        ("`use` other than `sig`", |row| row.keys.other_use),
        ("`alg` other than Kubernetes'", |row| row.keys.other_algorithm),
    ];
    for (name, column) in columns {
        shows(name, &|row| match column(row) {
            Acceptance::Accepts => "yes".to_owned(),
            Acceptance::Doubtful => "?".to_owned(),
            Acceptance::Refuses => "no".to_owned(),
        });
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    shows("longest, characters", &|row| or_dash(row.issuer.max_length.map(|length| length.to_string())));
    shows("time for both documents", &|row| {
        or_dash(row.fetch.budget.map(|budget| format!("{} s", budget.as_secs())))
    });
    shows("RSA, bits", &|row| match row.keys.rsa_bits.clone().into_inner() {
        (least, usize::MAX) => format!("from {least}"),
        (least, most) => format!("{least} to {most}"),
    });
    shows("a key it cannot parse", &|row| match row.keys.unknown_key {
        UnknownKey::Ignored => "passed over".to_owned(),
        UnknownKey::Undocumented => "?".to_owned(),
        UnknownKey::RejectsSet => "fails the set".to_owned(),
    });
    shows("must be readable from", &|row| match row.fetch.reach {
        Reach::Network => "its network".to_owned(),
        Reach::InternetOrUpload => "the internet, or upload".to_owned(),
        Reach::Internet => "the internet".to_owned(),
    });
}

/// The second table of the page has a line for each row: print the missing ones, so that they can be copied.
#[test]
fn the_page_for_users_shows_how_each_party_keeps_keys() {
    let page = include_str!("../../../docs/relying-parties.md");
    let missing: Vec<String> = RelyingParty::ALL
        .map(|party| line(party.profile()))
        .into_iter()
        .filter(|line| !page.contains(line))
        .collect();
    assert!(missing.is_empty(), "docs/relying-parties.md lacks\n{}", missing.join("\n"));
}

fn line(row: &Profile) -> String {
    let seconds = |time: Duration| format!("{} s", time.as_secs());
    let unknown_kid = match row.cache.unknown_kid {
        UnknownKid::ReadsAgain { cooldown: Duration::ZERO } => "reads".to_owned(),
        UnknownKid::ReadsAgain { cooldown } => format!("reads, once in {}", seconds(cooldown)),
        UnknownKid::ReadsAgainAfterMaxAge => "reads after `max-age`".to_owned(),
        UnknownKid::Refuses => "refuses".to_owned(),
        UnknownKid::Undocumented => "?".to_owned(),
    };
    let lifetime = match row.cache.lifetime {
        Lifetime::AtMost(time) => seconds(time),
        Lifetime::MaxAge => "`max-age`".to_owned(),
        Lifetime::Unlimited => "as long as it runs".to_owned(),
        Lifetime::Undocumented => "?".to_owned(),
    };
    let withdrawn = match after_withdrawal(&[row.party]).as_slice() {
        [StillAccepting { until: Until::AtMost(time), .. }] => seconds(*time),
        [StillAccepting { until: Until::MaxAge, .. }] => "`max-age`".to_owned(),
        [StillAccepting { until: Until::UnknownKid, .. }] => "until an unknown key".to_owned(),
        [StillAccepting { until: Until::Restart, .. }] => "until a restart".to_owned(),
        _ => "?".to_owned(),
    };
    let algorithm = match row.cache.algorithms_fixed {
        AlgorithmsFixed::No => "yes",
        AlgorithmsFixed::UntilRestart => "after a restart",
        AlgorithmsFixed::UntilConfigured => "configured",
        AlgorithmsFixed::Undocumented => "?",
    };
    let fatal: Vec<&str> = row.keys.fatal_algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
    let ignored = row.ignored_claims.iter().map(|claim| match claim.unless {
        Some(condition) => format!("`{}` unless {condition}", claim.name),
        None => format!("`{}`", claim.name),
    });
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let (fatal, ignored) = (or_dash(fatal.join(", ")), or_dash(ignored.collect::<Vec<_>>().join(", ")));
    let (party, title, restart) = (row.party, row.title, or_dash(row.cache.restart.to_owned()));
    format!(
        "| `{party}` | {title} | {unknown_kid} | {lifetime} | {withdrawn} | {algorithm} | {fatal} | {ignored} | {restart} |"
    )
}
