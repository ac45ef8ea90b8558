//! Keys from a machine without a network: one signer and an issuer rotate through bundles, in their order, one key ahead.

use std::fs::{Permissions, create_dir, create_dir_all, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chancery_cluster::cell::{Cell, CellStore, Schema, StoreMode};
use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use e2e::chancery::{self, IssuerService};
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use e2e::site::Site;
use e2e::wait;
use serde_json::{Value, json};

use crate::stage::{PATH, in_folders, site, trial};

/// Keys are opened, seen from outside and loaded, on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// A ring without keys.
struct Offline {
    dir: Scratch,
    node: Scratch,
    site: Site,
    ring: Cell<KeyRing>,
    servers: Option<(IssuerService, SignerProcess)>,
}

impl Offline {
    async fn start() -> Result<Self> {
        let (dir, node) = (Scratch::new("offline")?, Scratch::new("node")?);
        for name in ["ring", "keys", "one", "two"] {
            create_dir(dir.join(name))?;
        }
        create_dir(node.join("state"))?;
        set_permissions(dir.join("keys"), Permissions::from_mode(0o700))?;
        for name in ["passphrase", "carried"] {
            set_permissions(dir.write(name, name)?, Permissions::from_mode(0o600))?;
        }
        let site = site(&dir)?;
        create_dir_all(site.dir().join("state"))?;
        let store = CellStore::directory(&dir.join("ring"), StoreMode::ReadOnly).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        let ring = store.cell(&site.url(PATH), schema);
        let offline = Self { dir, node, site, ring, servers: None };
        offline.dir.write("rotation.yaml", offline.policy().to_string())?;
        let (private, public) = (offline.path("bundle.key"), offline.path("bundle.pub"));
        offline
            .run(&["keygen", "new", "--algorithm", "p-256", "--private", &private, "--public", &public])
            .await?;
        offline.run(&["ring", "init", "--empty", "--policy", &offline.path("rotation.yaml")]).await?;
        Ok(offline)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    async fn run(&self, arguments: &[&str]) -> Result<String> {
        chancery::run(arguments).await?.success()
    }

    /// Runs `chancery ring VERB --policy FILE` with further arguments.
    async fn ring_command(&self, verb: &str, more: &[&str]) -> Result<chancery::Output> {
        chancery::run(&[&["ring", verb, "--policy", &self.path("rotation.yaml")], more].concat()).await
    }

    async fn signer(&self) -> Result<SignerProcess> {
        let state = self.node.join("state").display().to_string();
        let (ring, keys, passphrase) = (self.path("ring"), self.path("keys"), self.path("passphrase"));
        let policy = self.path("rotation.yaml");
        let arguments = [
            ["--name", "a"],
            ["--ring-dir", &ring],
            ["--vault-dir", &keys],
            ["--passphrase-file", &passphrase],
            ["--state-dir", &state],
            ["--rotation-policy", &policy],
            ["--max-token-expiration", "600s"],
            ["--refresh-hint", "1s"],
        ];
        SignerProcess::start(&self.node, &self.site.url(PATH), &arguments.concat()).await
    }

    fn policy(&self) -> Value {
        let own = json!({
            "offline": { "bundleKeys": ["bundle.pub"] },
            "key": "p-256",
            "signers": [{ "name": "a", "acknowledgements": { "directory": self.node.join("state") } }],
            "lifetimes": { "external": "600s", "apiServer": "600s" },
            "overlap": { "minimum": "0s", "maximum": "700s" },
        });
        trial(&self.site, &[in_folders(&self.dir), own])
    }

    /// Makes a bundle, and imports it; returns the key ids in its order.
    async fn bring(&self, folder: &str, keys: &str) -> Result<Vec<String>> {
        let (out, key, passphrase) = (self.path(folder), self.path("bundle.key"), self.path("carried"));
        let issuer = self.site.url(PATH);
        let made = ["keygen", "bundle", "--issuer", &issuer, "--algorithm", "p-256", "--keys", keys];
        let written = ["--bundle-key", &key, "--passphrase-file", &passphrase, "--out-dir", &out];
        self.run(&[made.as_slice(), &written].concat()).await?;
        self.ring_command("import", &[&out, "--passphrase-file", &passphrase]).await?.success()?;
        let document: Value =
            serde_json::from_slice(&std::fs::read(PathBuf::from(out).join("bundle.json"))?)?;
        let keys = document["keys"].as_array().context("no keys")?;
        let kids = keys.iter().map(|key| key["kid"].as_str().map(str::to_owned));
        kids.collect::<Option<_>>().context("no key id")
    }

    /// Waits until this key is in this state.
    async fn key_is(&self, kid: &str, state: KeyState) -> Result<()> {
        let is_so = |ring: &KeyRing| {
            let key = ring.keys().iter().find(|key| key.kid().as_str() == kid);
            key.is_some_and(|key| key.state == state)
        };
        let what = format!("{kid} is {state}");
        let seen = wait::value_within(LONG, &what, async || {
            Ok(self.ring.load().await?.map(|stored| stored.document).filter(is_so))
        });
        seen.await.map(drop).with_context(|| self.logs())
    }

    /// The keys that wait to sign.
    async fn waiting(&self) -> Result<Vec<String>> {
        let ring = self.ring.load().await?.context("no ring")?.document;
        let waits = |state| matches!(state, KeyState::Pending | KeyState::Published);
        let waiting = ring.keys().iter().filter(|key| waits(key.state));
        Ok(waiting.map(|key| key.kid().to_string()).collect())
    }

    fn logs(&self) -> String {
        let servers = self.servers.as_ref();
        servers
            .map(|(issuer, signer)| format!("issuer\n{}\nsigner\n{}", issuer.log(), signer.log()))
            .unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_rotates_through_bundles_in_their_order_and_asks_for_the_next() -> Result<()> {
    let _alone = crate::STAGE.lock().await;
    let mut offline = Offline::start().await?;
    let plan = offline.ring_command("plan", &[]).await?;
    ensure!(plan.stdout.contains("NoSuccessor: no imported key"), "{plan:?}");

    let first = offline.bring("one", "3").await?;
    // The signer rotates, and an issuer without a key has nothing to serve.
    let signer = offline.signer().await?;
    offline.servers = Some((offline.site.start_ready().await?, signer));
    offline.key_is(&first[0], KeyState::Active).await?;
    for next in &first[1..] {
        offline.key_is(next, KeyState::Published).await?;
        ensure!(offline.waiting().await? == [next.clone()], "one ahead, and no more of them");
        offline.ring_command("rotate", &[]).await?.success()?;
        offline.key_is(next, KeyState::Active).await?;
    }
    let plan = offline.ring_command("plan", &[]).await?;
    ensure!(
        plan.stdout.contains("NoSuccessor: no imported key") && !plan.stdout.contains("make a key"),
        "{plan:?}"
    );
    ensure!(
        offline.logs().contains("keys are left; make more with `chancery keygen bundle`"),
        "{}",
        offline.logs()
    );

    let second = offline.bring("two", "1").await?;
    offline.key_is(&second[0], KeyState::Published).await?;
    ensure!(offline.waiting().await? == second, "the next bundle goes on where the first ends");
    Ok(())
}
