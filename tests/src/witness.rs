//! A reader who never looks away: it reads an issuer's documents again and again, as relying parties all over the
//! world do, and remembers everything that any of them must never see.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Well below the time between two writes.
const EVERY: Duration = Duration::from_millis(5);

/// A task that reads until it is asked what it saw.
#[derive(Debug)]
pub struct Witness {
    stop: watch::Sender<bool>,
    task: JoinHandle<Testimony>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Testimony {
    /// Complete readings of the JWKS.
    pub readings: usize,
    /// The keys of the last one.
    pub kids: BTreeSet<String>,
    /// What should not have been.
    pub violations: Vec<String>,
}

impl Witness {
    /// Reads the documents below `base`, the issuer URL or the public URL of a target, from now on.
    ///
    /// A server that cannot be reached, or answers 5xx, shows nothing: relying parties try again then. But whatever
    /// is shown must be whole, no key may vanish that was there, and discovery never comes before the JWKS.
    pub fn of(client: &reqwest::Client, base: &str) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let (client, base) = (client.clone(), base.to_owned());
        let task = tokio::spawn(async move {
            let mut testimony = Testimony::default();
            while !*stopped.borrow_and_update() {
                testimony.look(&client, &base).await;
                tokio::time::sleep(EVERY).await;
            }
            // The end is looked at twice, however short the time was in which something was shown.
            for _ in 0..2 {
                testimony.look(&client, &base).await;
            }
            testimony
        });
        Self { stop, task }
    }

    /// Ends it. That it saw `kids` at the end, and nothing at any moment that must not be, or an error.
    pub async fn swears(self, kids: &[&str]) -> Result<()> {
        self.stop.send_replace(true);
        let testimony = self.task.await.context("the witness ended badly")?;
        ensure!(testimony.violations.is_empty(), "{:#?}", testimony.violations);
        let expected: BTreeSet<String> = kids.iter().map(|kid| (*kid).to_owned()).collect();
        ensure!(testimony.kids == expected, "saw {:?} at last, not {expected:?}", testimony.kids);
        ensure!(testimony.readings > 1, "the witness hardly looked: {} readings", testimony.readings);
        Ok(())
    }
}

impl Testimony {
    async fn look(&mut self, client: &reqwest::Client, base: &str) {
        let discovery = read(client, &format!("{base}/.well-known/openid-configuration")).await;
        let jwks = read(client, &format!("{base}/openid/v1/jwks")).await;
        let announced = matches!(discovery, Seen::Document(_));
        match jwks {
            Seen::Nothing => {}
            Seen::Missing if announced => self.violation("discovery without a JWKS"),
            Seen::Missing if !self.kids.is_empty() => self.violation("the JWKS went away"),
            Seen::Missing => {}
            Seen::Document(jwks) => self.read(&jwks),
        }
    }

    fn read(&mut self, jwks: &Value) {
        self.readings += 1;
        let kids = kids(jwks);
        let lost: Vec<_> = self.kids.difference(&kids).cloned().collect();
        if !lost.is_empty() {
            self.violation(&format!("the keys {lost:?} went away"));
        }
        if kids.is_empty() {
            self.violation(&format!("a JWKS without keys: {jwks}"));
        }
        self.kids = kids;
    }

    fn violation(&mut self, what: &str) {
        self.violations.push(format!("reading {}: {what}", self.readings));
    }
}

enum Seen {
    /// Unreachable, or an error of the server.
    Nothing,
    /// 404, or 403 as S3 says it to those who may not list.
    Missing,
    /// What is there; not JSON counts as an empty document.
    Document(Value),
}

async fn read(client: &reqwest::Client, url: &str) -> Seen {
    let Ok(answer) = client.get(url).send().await else { return Seen::Nothing };
    match answer.status().as_u16() {
        200 => match answer.bytes().await {
            Ok(bytes) => Seen::Document(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(_) => Seen::Nothing,
        },
        403 | 404 => Seen::Missing,
        _ => Seen::Nothing,
    }
}

/// The key ids of a JWKS.
pub fn kids(jwks: &Value) -> BTreeSet<String> {
    let keys = jwks.get("keys").and_then(Value::as_array).into_iter().flatten();
    keys.filter_map(|key| Some(key.get("kid")?.as_str()?.to_owned())).collect()
}
