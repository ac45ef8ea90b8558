//! Credentials in files, between calls of a command.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_exchange::cache::Purge;
use chancery_exchange::disk::{DiskCache, Medium};
use chancery_exchange::provider::aws::AUDIENCE;
use chancery_exchange::{Chain, CredentialKind, SubjectTokenSource};
use serde_json::{Value, json};

use crate::aws::{chain, runner};
use crate::fake::clouds::{ROLE, sts};
use crate::fake::issuer::{Given, Held, SUBJECT, claims, now, token};
use crate::fake::{Fake, Reply};

struct Scene {
    folder: tempfile::TempDir,
    fake: Fake,
}

impl Scene {
    async fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), fake: Fake::start(sts).await }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// As a new process opens it.
    fn cache(&self) -> DiskCache {
        DiskCache::open(self.path(), Medium::Any).unwrap()
    }

    fn chain(&self) -> Chain {
        chain(&self.fake.url, Given::new([token(&claims(AUDIENCE))]))
    }

    async fn get(&self) -> String {
        key_of(&self.cache(), &self.chain()).await.unwrap()
    }

    /// The files of credentials.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect()
    }

    /// Changes the one file that there is.
    fn change(&self, change: impl Fn(&mut Value)) {
        let path = self.files().pop().unwrap();
        let mut entry: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut entry);
        fs::write(path, entry.to_string()).unwrap();
    }
}

async fn key_of(cache: &DiskCache, chain: &Chain) -> Result<String, &'static str> {
    let credential =
        cache.credential(chain, &runner(), Duration::ZERO).await.map_err(|error| error.code())?;
    let CredentialKind::Aws(keys) = credential.kind else { panic!() };
    Ok(format!("{} {}", keys.access_key_id, keys.secret_access_key.expose()))
}

fn at(second: i64) -> Value {
    jiff::Timestamp::from_second(second).unwrap().to_string().into()
}

#[tokio::test]
async fn aws_cli_10670_a_credential_is_kept_for_the_identity_whose_it_is() {
    let scene = Scene::new().await;
    assert_eq!(scene.get().await, "ASIAEXAMPLE SECRET&KEY");
    assert_eq!(scene.get().await, "ASIAEXAMPLE SECRET&KEY");
    assert_eq!(scene.fake.count(), 1, "a second process asks nobody");
    let file = scene.files().pop().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(scene.path()).unwrap().mode() & 0o777, 0o700);
    let other = |name: &str, value: Value| {
        let mut claims = claims(AUDIENCE);
        claims[name] = value;
        let mut chain = chain(&scene.fake.url, Given::new([token(&claims)]));
        chain.expectation.audiences = vec![AUDIENCE.to_owned()];
        chain
    };
    // The token's own claims tell them apart, where the commands are the same.
    for chain in [
        other("sub", "system:serviceaccount:team-a:other".into()),
        other("iss", "https://id.example/cluster-b".into()),
        other("aud", json!([AUDIENCE, "x"])),
    ] {
        let before = scene.fake.count();
        _ = key_of(&scene.cache(), &chain).await;
        assert!(scene.fake.count() > before);
    }
    let kept = fs::read_to_string(file).unwrap();
    assert!(!kept.contains(&token(&claims(AUDIENCE))[..60]), "the subject token is not kept");
}

#[tokio::test]
async fn workers_sdk_15089_processes_that_begin_together_make_one_exchange() {
    let scene = Arc::new(Scene::new().await);
    let all: Vec<_> = (0..20)
        .map(|_| {
            let scene = scene.clone();
            tokio::spawn(async move { scene.get().await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), "ASIAEXAMPLE SECRET&KEY");
    }
    assert_eq!(scene.fake.count(), 1);
}

#[tokio::test]
async fn c_09_c_14_a_file_is_renewed_at_four_fifths_and_serves_through_an_outage() {
    let scene = Scene::new().await;
    scene.get().await;
    let aging = || {
        scene.change(|entry| {
            entry["issued_at"] = at(now() - 3200);
            entry["expires_at"] = at(now() + 400);
            entry["boot"] = "another".into();
        });
    };
    aging();
    scene.fake.script(vec![Reply::new(503, ""); 4]);
    assert_eq!(scene.get().await, "ASIAEXAMPLE SECRET&KEY", "it is good still");
    assert_eq!(scene.fake.count(), 5, "and was to be renewed");
    scene.get().await;
    assert_eq!(scene.fake.count(), 6);
    scene.get().await;
    assert_eq!(scene.fake.count(), 6, "it was renewed");
    for broken in [
        |entry: &mut Value| entry["expires_at"] = at(now() - 1),
        |entry: &mut Value| entry["issued_at"] = at(now() + 3000),
        |entry: &mut Value| entry["version"] = 2.into(),
        |entry: &mut Value| entry["held"] = "x".into(),
    ] {
        let before = scene.fake.count();
        scene.change(broken);
        assert_eq!(scene.get().await, "ASIAEXAMPLE SECRET&KEY");
        assert_eq!(scene.fake.count(), before + 1);
    }
}

#[tokio::test]
async fn c_17_a_purge_forgets_by_service_account_identity_provider_or_all() {
    let scene = Scene::new().await;
    let account = |name: &str| Purge::ServiceAccount(name.parse().unwrap());
    for (what, forgets) in [
        (Purge::All, 1),
        (Purge::Provider("aws".to_owned()), 1),
        (Purge::Provider("gcp".to_owned()), 0),
        (Purge::Identity(ROLE.to_owned()), 1),
        (Purge::Identity("arn:aws:iam::123456789012:role/other".to_owned()), 0),
        (account("team-a/app"), 1),
        (account("team-b/app"), 0),
    ] {
        scene.get().await;
        assert_eq!(scene.cache().purge(&what).unwrap(), forgets, "{what:?}");
        assert_eq!(scene.files().len(), 1 - forgets, "{what:?}");
    }
    assert_eq!(SUBJECT, "system:serviceaccount:team-a:app");
    let left = scene.path().join(".x.00ff.chancery-new");
    for purges in [false, true] {
        scene.cache().purge(&Purge::All).unwrap();
        fs::write(&left, "a credential, left by a process that was killed over it").unwrap();
        match purges {
            true => _ = scene.cache().purge(&Purge::Provider("gcp".to_owned())).unwrap(),
            false => _ = scene.get().await,
        }
        assert!(!left.exists(), "{purges}");
    }
    scene.get().await;
    fs::write(scene.files().pop().unwrap(), "no credential").unwrap();
    let narrow = Purge::Provider("gcp".to_owned());
    assert_eq!(
        scene.cache().purge(&narrow).unwrap(),
        1,
        "what cannot be read cannot be told from what is meant"
    );
}

/// claude-code-action#1620: a refresh on its way wrote files after they were cleaned up.
#[tokio::test]
async fn c_17_what_was_purged_on_its_way_is_not_written() {
    let scene = Scene::new().await;
    let held = Held::new();
    let mut chain = scene.chain();
    chain.source = held.clone() as Arc<dyn SubjectTokenSource>;
    let cache = scene.cache();
    let getting = tokio::spawn(async move { key_of(&cache, &chain).await });
    _ = held.asked.acquire().await.unwrap();
    assert_eq!(scene.cache().purge(&Purge::All).unwrap(), 0);
    held.gate.add_permits(1);
    assert_eq!(getting.await.unwrap().unwrap(), "ASIAEXAMPLE SECRET&KEY", "whoever asked is given it");
    assert!(scene.files().is_empty());
}

#[tokio::test]
async fn datafusion_6025_more_than_four_fifths_of_a_life_is_an_error() {
    let scene = Scene::new().await;
    let ask = async |seconds| {
        let remaining = Duration::from_secs(seconds);
        scene
            .cache()
            .credential(&scene.chain(), &runner(), remaining)
            .await
            .map(|_| ())
            .map_err(|error| error.code())
    };
    assert_eq!(ask(2800).await, Ok(()));
    assert_eq!((ask(2800).await, scene.fake.count()), (Ok(()), 1));
    for seconds in [2881, 3600, 7200] {
        assert_eq!(ask(seconds).await, Err("min-ttl-too-long"), "{seconds}");
    }
}

#[tokio::test]
async fn w_02_w_03_a_folder_is_its_owners_alone_and_in_memory_unless_a_disk_is_allowed() {
    let scene = Scene::new().await;
    fs::create_dir(scene.path()).unwrap();
    let open = |path: &Path, medium| {
        DiskCache::open(path.to_owned(), medium).map(|_| ()).map_err(|error| error.code())
    };
    for mode in [0o755, 0o770, 0o707] {
        fs::set_permissions(scene.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(open(&scene.path(), Medium::Any), Err("cache-folder-exposed"), "{mode:o}");
    }
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(open(&scene.path(), Medium::Any), Ok(()));
    let file = scene.folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(open(&file, Medium::Any), Err("cache-folder-exposed"));
    let link = scene.folder.path().join("link");
    std::os::unix::fs::symlink(scene.path(), &link).unwrap();
    assert_eq!(open(&link, Medium::Any), Err("cache-folder-exposed"));
    assert_eq!(open(&scene.folder.path().join("a/b"), Medium::Any), Err("cache-folder"));
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    assert_eq!(open(&memory.path().join("cache"), Medium::Memory), Ok(()));
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kind = rustix::fs::statfs(disk.path()).unwrap().f_type;
    if kind != 0x0102_1994 {
        assert_eq!(open(&disk.path().join("cache"), Medium::Memory), Err("cache-folder-on-disk"));
    }
}
