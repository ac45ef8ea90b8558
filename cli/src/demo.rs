//! `chancery demo`: the whole loop on one machine, with a relying party that knows nothing but the issuer URL.
//!
//! | room | what is in it |
//! |---|---|
//! | `stage` | the files, and the configuration of the service |
//! | `relying_party` | who verifies |
//! | `rotation`, `workload` | the second act: keys change while tokens are signed and verified without pause |
//! | `narrator` | what is printed |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use chancery_cluster::cell::StoreMode;
use chancery_core::profile::RelyingParty;
use chancery_core::{DocumentKind, KeyId, KeyRing, PublicKey};
use chancery_issuer::config::Config;
use chancery_issuer::service::Service;
use chancery_keygen::{KeySpec, PrivateKey};
use chancery_publisher::verify::report::VerifyReport;
use chancery_publisher::verify::{Expectation, Trust, Verifier, VerifyOptions};
use chancery_signer::RotationConfig;
use chancery_signer::rotation::RingDesk;
use serde_json::json;

use crate::runtime;

mod narrator;
mod relying_party;
mod rotation;
mod stage;
mod workload;

use narrator::Narrator;
use relying_party::RelyingPartyOfOneIssuer;
use rotation::Rotation;
use stage::Stage;

/// The audience that the demo's relying party expects.
const AUDIENCE: &str = "demo";

/// How long the demo waits for a document to become visible before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Make a key, publish it, prove it visible, have a token accepted, add a key, refuse a stranger's; then rotate and revoke
/// keys while tokens are signed and verified without pause.
#[derive(clap::Args)]
pub struct Args {
    /// End after the steps instead of serving until Ctrl-C
    #[arg(long)]
    once: bool,
    /// What kind of key to make
    #[arg(long, value_name = "KIND", default_value_t = KeySpec::default())]
    algorithm: KeySpec,
}

pub fn run(args: Args, logs: runtime::Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("error")?;
    runtime::block_on(2, async {
        let stage = Stage::set(args.algorithm)?;
        let policy = RotationConfig::read(&stage.policy)?;
        // The service reads it from its start; the first key comes in when it is its turn.
        RingDesk::open(&policy, StoreMode::Shared).await?.begin(&KeyRing::new()).await?;
        let config = Config::read(&stage.config)?;
        let issuer = Service::open(config, &stage.config).await?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let service = tokio::spawn(issuer.run(async { _ = stopped.await }));

        let steps = show(&stage, policy, args.algorithm).await;
        if steps.is_ok() && !args.once {
            stage.invite()?;
            runtime::terminated().await;
        }
        _ = stop.send(());
        service.await.context("the service ended by itself")??;
        steps
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Both acts.
async fn show(stage: &Stage, policy: RotationConfig, spec: KeySpec) -> anyhow::Result<()> {
    let mut demo = Demo::new(stage, spec)?;
    demo.play().await?;
    Rotation::begin(stage, policy, &demo.narrator).await?.play().await
}

/// The steps of the first act, and who takes part in them.
struct Demo<'a> {
    stage: &'a Stage,
    spec: KeySpec,
    narrator: Narrator,
    verifier: Verifier,
    relying_party: RelyingPartyOfOneIssuer,
}

impl<'a> Demo<'a> {
    fn new(stage: &'a Stage, spec: KeySpec) -> anyhow::Result<Self> {
        // The relying parties that may trust a private CA; the public clouds would rightly refuse this issuer.
        let parties = vec![RelyingParty::Kubernetes, RelyingParty::Vault, RelyingParty::Minio];
        let trust = Trust::Only(stage.ca_pem.clone().into_bytes());
        Ok(Self {
            stage,
            spec,
            narrator: Narrator::new(),
            verifier: Verifier::new(VerifyOptions { trust, parties, ..VerifyOptions::default() })?,
            relying_party: RelyingPartyOfOneIssuer::new(&stage.issuer, AUDIENCE, &stage.ca_pem)?,
        })
    }

    async fn play(&mut self) -> anyhow::Result<()> {
        let first = self.make_key("signing key")?;
        let shown = self.publish("first", first.public_key()).await?;
        self.narrator.step(&format!(
            "published to {} and served at {}",
            self.stage.target.display(),
            self.stage.issuer
        ))?;
        self.narrator.step(&describe(&shown))?;

        let token = self.mint("workload", &first)?;
        self.accept(&token, "a token of that key is accepted by a verifier that knows only the issuer URL")
            .await?;

        let second = self.make_key("second key")?;
        let added = Instant::now();
        self.publish("second", second.public_key()).await?;
        let count = "the second key is visible beside the first";
        self.narrator.step(&format!("{count}, {:.0?} after its file was added", added.elapsed()))?;
        let token = self.mint("workload", &second)?;
        self.accept(&token, "a token of the second key is accepted").await?;

        let stranger = self.make_key("third key, not published")?;
        let token = self.mint("stranger", &stranger)?;
        match self.relying_party.verify(&token).await {
            Err(reason) => {
                self.narrator.step(&format!("a token of the unpublished key is refused: {reason:#}"))?;
            }
            Ok(_) => bail!("a token of an unpublished key was accepted"),
        }
        Ok(())
    }

    fn make_key(&mut self, what: &str) -> anyhow::Result<PrivateKey> {
        self.narrator.begin(&format!("making a {what}, {}", self.spec))?;
        let key = PrivateKey::generate(self.spec)?;
        self.narrator.step(&format!("made a {what}, {}, kid {}", self.spec, key.public_key().key_id()))?;
        Ok(key)
    }

    /// Puts the public half where the service looks, and waits until an anonymous reader sees it.
    async fn publish(&mut self, name: &str, key: &PublicKey) -> anyhow::Result<VerifyReport> {
        self.narrator.begin("waiting until an anonymous reader sees it")?;
        self.stage.add_public_key(name, key)?;
        let started = Instant::now();
        loop {
            let expected = Expectation::of_keys([key.key_id().clone()]);
            let report = self.verifier.verify(&self.stage.issuer, &expected).await;
            if report.is_good() && self.stage.holds(key.key_id()) {
                return Ok(report);
            }
            if started.elapsed() > PATIENCE {
                let problems: Vec<_> =
                    report.findings.iter().map(|finding| finding.message.as_str()).collect();
                bail!("the key did not become visible within {PATIENCE:?}: {}", problems.join("; "));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Signs what kube-apiserver would put into a ServiceAccount's token.
    fn mint(&self, service_account: &str, key: &PrivateKey) -> anyhow::Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": self.stage.issuer,
            "sub": format!("system:serviceaccount:demo:{service_account}"),
            "aud": [AUDIENCE],
            "iat": now,
            "nbf": now,
            "exp": now + 600,
        });
        Ok(key.signing_key().jwt(claims.to_string().as_bytes())?)
    }

    async fn accept(&mut self, token: &str, what: &str) -> anyhow::Result<()> {
        let subject = self.relying_party.verify(token).await.context("a good token was refused")?;
        self.narrator.step(&format!("{what}: {subject}"))?;
        Ok(())
    }
}

fn describe(report: &VerifyReport) -> String {
    let kids: Vec<&str> = report.visible.iter().map(KeyId::as_str).collect();
    let latency = report.latency(DocumentKind::Jwks).unwrap_or_default();
    let max_age = report.max_age.unwrap_or_default().as_secs();
    format!(
        "verified from outside: {} key visible ({}), answered in {latency:.1?}, cached for {max_age} s at most",
        kids.len(),
        kids.join(", ")
    )
}
