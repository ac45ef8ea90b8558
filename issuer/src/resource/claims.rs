//! What issuers may not share, and who has it when several want it. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::PathBuf;

use chancery_core::{IssuerUrl, Owner};
use chancery_publisher::target::{Location, TargetConfig};

use super::DeclaredIssuer;
use crate::conditions::{ConditionType, Verdict};
use crate::config::IssuerConfig;
use crate::serve::ExtraHost;
use crate::serve::table::answers_at;

/// What an issuer needs for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    url: IssuerUrl,
    wants: Vec<Wanted>,
}

/// Something that one issuer alone can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Url(IssuerUrl),
    /// The id in markers, declared or derived. Those that the state makes at random are nobody else's.
    Owner(Owner),
    /// A host and a path.
    Answers(String),
    Target(String),
}

/// Who has something.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holder {
    File(IssuerUrl),
    Object(String),
}

impl Claim {
    /// The claim of an issuer that is declared so, in a service that answers at these hosts besides the issuers' own.
    pub fn of(config: &IssuerConfig, extra_hosts: &[ExtraHost]) -> Self {
        let owner = config.owner.clone().unwrap_or_else(|| Owner::of_issuer(&config.url));
        let answers = answers_at(&config.url, extra_hosts).into_iter().map(Wanted::Answers);
        let targets = config.targets.iter().filter_map(|target| place(&target.value.to)).map(Wanted::Target);
        let alone = [Wanted::Url(config.url.clone()), Wanted::Owner(owner)];
        let wants = alone.into_iter().chain(answers).chain(targets);
        Self { url: config.url.clone(), wants: wants.collect() }
    }

    /// Whose it is.
    pub fn url(&self) -> &IssuerUrl {
        &self.url
    }
}

/// Where a target is, the same for the same place.
fn place(target: &TargetConfig) -> Option<String> {
    match target.location().ok()? {
        // A slash at the end makes no other folder.
        Location::Directory(directory) => {
            Some(format!("directory {}", directory.path.components().collect::<PathBuf>().display()))
        }
        location => Some(location.to_string()),
    }
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its issuer runs, by the spec that it has.
    Followed,
    /// Its issuer runs by an earlier spec, for this reason.
    LastGoodFollowed(String),
    /// Nothing runs: it never had a spec that can be followed, for this reason.
    InvalidSpec(String),
    /// Nothing runs: somebody else has what it needs.
    Collision(String),
}

impl Standing {
    /// Every reason that [`reason`](Self::reason) gives.
    pub const REASONS: [&str; 4] = ["Followed", "LastGoodFollowed", "InvalidSpec", "Collision"];

    /// One word.
    pub fn reason(&self) -> &'static str {
        let [followed, last_good, invalid, collision] = Self::REASONS;
        match self {
            Self::Followed => followed,
            Self::LastGoodFollowed(_) => last_good,
            Self::InvalidSpec(_) => invalid,
            Self::Collision(_) => collision,
        }
    }

    /// Whether the issuer of an object runs that stands for this reason.
    pub fn runs(reason: &str) -> bool {
        let [followed, last_good, ..] = Self::REASONS;
        reason == followed || reason == last_good
    }

    /// Whether no issuer runs of an object that stands for this reason.
    pub fn stands_still(reason: &str) -> bool {
        Self::REASONS.contains(&reason) && !Self::runs(reason)
    }

    /// What is wrong.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Followed => None,
            Self::LastGoodFollowed(why) => Some(format!("the last good spec is followed: {why}")),
            Self::InvalidSpec(why) | Self::Collision(why) => Some(why.clone()),
        }
    }

    /// The condition of an object with the spec of `generation`.
    pub fn verdict(&self, generation: u64) -> Verdict {
        let condition = ConditionType::Accepted;
        let verdict = match self.problem() {
            None => Verdict::good(condition, self.reason(), "the issuer runs by this spec"),
            Some(problem) => Verdict::bad(condition, self.reason(), problem),
        };
        verdict.at(Some(generation))
    }
}

/// What becomes of each object, in their order. Entries of the file come first, then older objects, then those whose names
/// come first: times of Kubernetes are whole seconds.
pub fn standings(file: &[Claim], objects: &[DeclaredIssuer], extra_hosts: &[ExtraHost]) -> Vec<Standing> {
    let mut held = BTreeMap::new();
    for claim in file {
        for wanted in &claim.wants {
            held.entry(wanted.clone()).or_insert_with(|| Holder::File(claim.url.clone()));
        }
    }
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|position| objects.get(*position).map(|object| (object.created, &object.name)));
    let mut standings = vec![Standing::Followed; objects.len()];
    for position in order {
        if let (Some(object), Some(standing)) = (objects.get(position), standings.get_mut(position)) {
            *standing = standing_of(object, &mut held, extra_hosts);
        }
    }
    standings
}

/// What becomes of one object after those before it have taken what they need.
fn standing_of(
    object: &DeclaredIssuer,
    held: &mut BTreeMap<Wanted, Holder>,
    extra_hosts: &[ExtraHost],
) -> Standing {
    let Some(config) = &object.config else {
        return Standing::InvalidSpec(object.refusal.clone().unwrap_or_default());
    };
    let claim = Claim::of(&config.value, extra_hosts);
    let taken = claim.wants.iter().find_map(|wanted| Some((wanted, held.get(wanted)?)));
    if let Some((wanted, holder)) = taken {
        return Standing::Collision(format!("{wanted} {holder}; {}", wanted.remedy()));
    }
    for wanted in claim.wants {
        if let Entry::Vacant(entry) = held.entry(wanted) {
            entry.insert(Holder::Object(object.name.clone()));
        }
    }
    object.refusal.clone().map_or(Standing::Followed, Standing::LastGoodFollowed)
}

impl Wanted {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Answers(_) => "delete one of the two, or give this one a URL of its own",
            Self::Owner(_) => "leave `owner` out, or give each issuer one of its own",
            Self::Target(_) => "give each issuer a place of its own",
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "the issuer {url} is declared by"),
            Self::Owner(owner) => write!(f, "the owner {owner} marks the documents of"),
            Self::Answers(place) => write!(f, "{place} is where this service answers for"),
            Self::Target(place) => write!(f, "the target {place} is that of"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(url) => write!(f, "the entry {url} of the configuration file"),
            Self::Object(name) => write!(f, "the Issuer object {name}, which is older"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;

    fn issuers(text: &str) -> Config {
        Config::parse(&format!("{text}\nserve: [{{ listen: '127.0.0.1:1' }}]"), Path::new("c.yaml")).unwrap()
    }

    fn claim(entry: &str) -> Claim {
        Claim::of(&issuers(&format!("issuers: [{entry}]")).issuers[0].value, &[])
    }

    fn entry(url: &str, more: &str) -> String {
        format!("{{ url: '{url}', sources: [{{ files: {{ paths: [a] }} }}] {more} }}")
    }

    fn object(name: &str, second: i64, entry: &str) -> DeclaredIssuer {
        let config = issuers(&format!("issuers: [{entry}]")).issuers.remove(0);
        DeclaredIssuer {
            name: name.to_owned(),
            created: Timestamp::from_second(second).unwrap(),
            generation: 1,
            config: Some(Arc::new(config)),
            refusal: None,
        }
    }

    fn folder(path: &str) -> String {
        format!(", targets: [{{ to: {{ directory: {{ path: {path} }} }} }}]")
    }

    #[test]
    fn the_file_wins_over_objects_and_the_older_over_the_newer_whatever_they_share() {
        let g: IssuerUrl = "https://a.example/g".parse().unwrap();
        let first = entry("https://a.example/f", &format!(", owner: team {}", folder("/www/f")));
        let file = [claim(&first), claim(&entry(g.as_str(), ""))];
        for (name, more, word) in [
            ("https://a.example/f", String::new(), "declared by the entry https://a.example/f of the"),
            ("https://a.example/f/", String::new(), "a.example/f is where this service answers"),
            ("https://A.example:443/f", String::new(), "a.example/f is where this service answers"),
            ("https://b.example", ", owner: team".to_owned(), "the owner team marks the documents"),
            (
                "https://b.example",
                format!(", owner: {}", Owner::of_issuer(&g)),
                "marks the documents of the entry",
            ),
            ("https://b.example", folder("/www/f/"), "the target directory /www/f is that of the entry"),
        ] {
            let objects = [object("one", 1, &entry(name, &more))];
            let found = standings(&file, &objects, &[]);
            let problem = found[0].problem().unwrap_or_default();
            assert!(found[0].reason() == "Collision" && problem.contains(word), "{found:?}");
        }
        let bucket = ", targets: [{ to: { s3: { bucket: docs, prefix: x } } }]";
        let newer = object("a", 7, &entry("https://b.example/1", bucket));
        let older = object("z", 5, &entry("https://b.example/2", bucket));
        let found = standings(&file, &[newer, older.clone()], &[]);
        assert_eq!(found[1], Standing::Followed);
        let problem = found[0].problem().unwrap_or_default();
        assert!(problem.contains("s3://docs/x is that of the Issuer object z, which is older"), "{problem}");
        // Of the same second, the name decides; and who is refused takes nothing from anybody.
        let third = object("b", 5, &entry("https://b.example/3", bucket));
        let mut broken = object("a", 1, &entry("https://b.example/2", bucket));
        (broken.config, broken.refusal) = (None, Some("no".to_owned()));
        let found = standings(&[], &[older, third, broken], &[]);
        let reasons: Vec<_> = found.iter().map(Standing::reason).collect();
        assert_eq!(reasons, ["Collision", "Followed", "InvalidSpec"]);
    }

    #[test]
    fn a_bad_spec_keeps_what_the_last_good_one_has() {
        let mut older = object("a", 1, &entry("https://b.example", ""));
        older.refusal = Some("retention".to_owned());
        let found = standings(&[], &[older, object("b", 2, &entry("https://b.example", ""))], &[]);
        assert_eq!(found[0], Standing::LastGoodFollowed("retention".to_owned()));
        assert_eq!(found[1].reason(), "Collision");
        assert!(Standing::runs(found[0].reason()) && !Standing::runs(found[1].reason()));
        assert!(Standing::runs(Standing::Followed.reason()));
    }

    proptest! {
        #[test]
        fn whoever_runs_can_be_served_together(
            objects in prop::collection::vec((0..3_i64, 0..4_usize, 0..4_usize), 0..12),
            extra in prop::sample::select(vec!["", "chancery.svc", "chancery.svc:8443"]),
        ) {
            let hosts = ["a.example", "A.example:443", "b.example", "chancery.svc"];
            let paths = ["", "/", "/p", "/p/"];
            let extra: Vec<ExtraHost> = extra.parse().into_iter().collect();
            let objects: Vec<DeclaredIssuer> = objects
                .iter()
                .enumerate()
                .map(|(number, (second, host, path))| {
                    let url = format!("https://{}{}", hosts[*host], paths[*path]);
                    object(&format!("o-{number}"), *second, &entry(&url, ""))
                })
                .collect();
            let found = standings(&[], &objects, &extra);
            let running = objects.iter().zip(&found).filter(|(_, standing)| **standing == Standing::Followed);
            let urls: Vec<IssuerUrl> =
                running.filter_map(|(object, _)| Some(object.config.as_ref()?.value.url.clone())).collect();
            prop_assert!(crate::serve::HostPolicy::new(&urls, &extra).is_ok(), "{urls:?}");
            // Nobody is held back without need.
            for (object, standing) in objects.iter().zip(&found) {
                if *standing != Standing::Followed {
                    let config = object.config.as_ref().unwrap();
                    let mut with = urls.clone();
                    with.push(config.value.url.clone());
                    let repeated = urls.contains(&config.value.url);
                    prop_assert!(repeated || crate::serve::HostPolicy::new(&with, &extra).is_err());
                }
            }
        }
    }
}
