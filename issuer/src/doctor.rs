//! Why something does not work: one look at an issuer from every side, explained.
//!
//! | side | what is held against what |
//! |---|---|
//! | sources | every replica of a control plane shows the same keys |
//! | tokens | a token minted now has the issuer and a key that the world sees |
//! | outside | what an anonymous relying party reads, by the rules of `chancery verify` |
//! | targets | what is there, whose it is, and which control keeps anonymous readers out |
//!
//! Nothing is changed, but for the token: TokenRequest makes one, which is dropped here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::issuer_keys::KeyRecord;
use chancery_core::lint::{Finding, Severity};
use chancery_core::publication::StoredObject;
use chancery_publisher::publish::observe;
use chancery_publisher::verify::Expectation;

use crate::config::{ConfigError, IssuerConfig};
use crate::index::Index;
use crate::issuer::{open_sources, verifier};
pub use crate::minted_token::Workload;
use crate::source::{SourceEvent, read_once};

#[cfg(feature = "kube")]
pub mod token;

mod sources;

/// How long the sources are waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// One side of an issuer, looked at.
#[derive(Clone, Debug)]
pub struct Look {
    /// What was looked at, as a person calls it.
    pub subject: String,
    /// What was found, in one sentence.
    pub seen: String,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// Looks at one issuer of the configuration at `path`.
///
/// # Errors
/// When the configuration cannot be used; what cannot be read is a finding.
pub async fn examine(
    config: &IssuerConfig,
    line: u64,
    path: &Path,
    workload: Option<&Workload>,
) -> Result<Vec<Look>, ConfigError> {
    let base = path.parent().unwrap_or(Path::new(""));
    let readings = Readings::take(config, path, base).await?;
    let mut looks = vec![readings.look()];

    let verifier = verifier(config).map_err(|problem| ConfigError::value(path, line, problem))?;
    let expected = Expectation { cache: config.cache(), ..Expectation::of_keys(readings.keys.clone()) };
    let report = verifier.verify(&config.url, &expected).await;
    looks.push(Look {
        subject: format!("{} from outside", config.url),
        seen: format!("{} visible", counted(report.visible.len(), "key")),
        findings: report.findings.clone(),
    });
    #[cfg(feature = "kube")]
    looks.push(token::look(config, base, workload, &report.visible).await);
    #[cfg(not(feature = "kube"))]
    let _ = workload;

    for target in &config.targets {
        let mut look = look_at_target(&target.value.to, &readings.keys).await;
        let (public, hidden) = match &target.value.public_url {
            Some(public) => {
                let mirror = verifier.verify_mirror(public, &config.url, &expected).await;
                (public.as_str(), !mirror.is_good())
            }
            None => (config.url.as_str(), !report.is_good()),
        };
        if hidden {
            look.findings.extend(chancery_publisher::doctor::controls(&target.value.to, public).await);
        }
        looks.push(look);
    }
    Ok(looks)
}

async fn look_at_target(target: &chancery_publisher::TargetConfig, wanted: &[KeyId]) -> Look {
    let subject = target.display_name();
    let unreadable = |message: String| Look {
        subject: target.display_name(),
        seen: "not readable with our credentials".to_owned(),
        findings: vec![sources::finding("target-unreadable", message, "put that right, then look again")],
    };
    let store = match chancery_publisher::open_target(target).await {
        Ok(store) => store,
        Err(problem) => return unreadable(crate::error_chain(&problem)),
    };
    let found = match observe(store.as_ref()).await {
        Ok(found) => found,
        Err(problem) => return unreadable(crate::error_chain(&problem)),
    };
    let Some(jwks) = &found.jwks else {
        let message = format!("there is no JWKS at {}", store.describe());
        let remedy = "start the service, or publish with `chancery publish apply`";
        return Look {
            subject,
            seen: "no JWKS".to_owned(),
            findings: vec![sources::finding("target-empty", message, remedy)],
        };
    };
    let published = sources::kids_of(&jwks.bytes);
    let missing: Vec<&str> =
        wanted.iter().filter(|kid| !published.contains(kid)).map(KeyId::as_str).collect();
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let message =
            format!("{} lacks keys that the sources show: {}", store.describe(), missing.join(", "));
        findings.push(sources::finding(
            "target-lacks-keys",
            message,
            "look at the log of the service for what blocks it",
        ));
    }
    Look { subject, seen: format!("{}, {}", counted(published.len(), "key"), owner_of(jwks)), findings }
}

fn owner_of(object: &StoredObject) -> String {
    match &object.marker {
        Some(marker) => format!("owned by {}", marker.owner),
        None => "without an ownership marker".to_owned(),
    }
}

/// What the sources show now.
struct Readings {
    /// By the name of the source, for each position in the configuration.
    shown: BTreeMap<(usize, String), Vec<KeyId>>,
    keys: Vec<KeyId>,
    problems: Vec<Finding>,
}

impl Readings {
    async fn take(config: &IssuerConfig, path: &Path, base: &Path) -> Result<Self, ConfigError> {
        let opened = open_sources(config, path, base).await?;
        let mut index = Index::new(config.into(), &KeyRecord::default());
        let (mut shown, mut problems) = (BTreeMap::new(), Vec::new());
        let complete = read_once(opened, PATIENCE, |event| {
            if let Err(older) = index.apply(&event) {
                let remedy = "bring back the later ring";
                problems.push(sources::finding("ring-from-backup", older.to_string(), remedy));
            }
            match event {
                SourceEvent::Listed { source, keys, .. } => {
                    let kids = keys.iter().map(|key| key.key_id().clone()).collect();
                    shown.insert((source.position, source.name), kids);
                }
                SourceEvent::Failed { source, error } => {
                    let message = format!("source {} cannot be read: {error}", source.name);
                    problems.push(sources::finding(
                        "source-unreadable",
                        message,
                        "put that right, then look again",
                    ));
                }
                SourceEvent::Decided { source, decision } => {
                    let kids = decision.keys.iter().map(|key| key.key_id().clone()).collect();
                    shown.insert((source.position, source.name), kids);
                }
                SourceEvent::Found { .. } | SourceEvent::Gone { .. } => {}
            }
            if index.is_complete() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !complete.await {
            let message = format!("a source has not shown its keys within {} s", PATIENCE.as_secs());
            problems.push(sources::finding("source-silent", message, "see that it can be reached from here"));
        }
        let keys = index.keys().iter().map(|key| key.key_id().clone()).collect();
        Ok(Self { shown, keys, problems })
    }

    fn look(&self) -> Look {
        let mut findings = self.problems.clone();
        findings.extend(sources::differences(&self.shown));
        let seen = format!("{} in {}", counted(self.keys.len(), "key"), counted(self.shown.len(), "source"));
        Look { subject: "key sources".to_owned(), seen, findings }
    }
}

impl Look {
    /// Whether something should be done about it.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
