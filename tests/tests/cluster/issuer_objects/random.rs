//! Objects that are made, changed and deleted at random while two replicas take turns.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::{binary, wait};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::stage::{Replica, Stage, condition};

/// Requests to the API server, and looks at replicas, at a time.
const AT_ONCE: usize = 8;

/// What an object says now. Its URL and its key belong to its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Declared {
    max_age: u64,
    /// The number of its folder.
    folder: u64,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Create(Declared),
    Alter(Declared),
    Delete,
}

/// A generator of numbers that anybody can run again (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % limit
    }
}

#[tokio::test]
#[ignore = "minutes of two processors; make soak runs it"]
async fn soak_three_hundred_objects_at_random_converge_while_two_replicas_take_turns() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::start().await?;
    let mut replicas = stage.start_replicas().await?;
    let ended = converge(&stage, &mut replicas, 300).await;
    ended.with_context(|| format!("{}\n{}", replicas[0].log(), replicas[1].log()))
}

/// So many objects are made, changed and deleted.
pub async fn converge(stage: &Stage, replicas: &mut [IssuerService; 2], objects: u64) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.subsec_nanos();
    let seed =
        std::env::var("CHANCERY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(now));
    let ended = run(stage, replicas, (objects, Dice(seed))).await;
    ended.with_context(|| format!("CHANCERY_SEED={seed} runs it again"))
}

/// Three waves of changes, each under another leader; then everything is as the objects say.
async fn run(
    stage: &Stage,
    replicas: &mut [IssuerService; 2],
    (objects, mut dice): (u64, Dice),
) -> Result<()> {
    stage.create("bystander", stage.spec("/bystander", 3, "bystander")).await?;
    stage.is_shown("/bystander", 3).await?;
    for (folder, key) in [("bystander", 3), ("file", 0)] {
        stage.is_published(folder, key).await?;
    }
    let untouched = untouched(stage)?;
    let mut declared: BTreeMap<u64, Declared> = BTreeMap::new();
    for wave in 0..3 {
        if wave > 0 {
            take_turns(stage, replicas).await.context("take turns")?;
        }
        let changes = (0..objects).map(|_| roll(&mut dice, &mut declared, objects));
        // Several of one object are made in their order.
        let mut of_objects: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        changes.for_each(|(object, change)| of_objects.entry(object).or_default().push(change));
        let mut made = stream::iter(of_objects).map(|(object, changes)| make(stage, object, changes));
        made.by_ref().buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    }
    let all = stream::iter(0..objects).map(|object| is_so(stage, object, declared.get(&object).copied()));
    all.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let now = self::untouched(stage)?;
    ensure!(now == untouched, "the files of others were written: {untouched:?}, now {now:?}");
    Ok(())
}

/// The next change at random, and what is declared after it.
fn roll(dice: &mut Dice, declared: &mut BTreeMap<u64, Declared>, objects: u64) -> (u64, Change) {
    let object = dice.below(objects);
    let next = Declared { max_age: 1 + dice.below(1000), folder: dice.below(1 << 40) };
    let change = match (declared.get(&object), dice.below(3)) {
        (None, _) => Change::Create(next),
        (Some(_), 0) => Change::Delete,
        (Some(before), 1) => Change::Alter(Declared { folder: before.folder, ..next }),
        (Some(_), _) => Change::Alter(next),
    };
    match change {
        Change::Create(now) | Change::Alter(now) => _ = declared.insert(object, now),
        Change::Delete => _ = declared.remove(&object),
    }
    (object, change)
}

fn spec(stage: &Stage, object: u64, Declared { max_age, folder }: Declared) -> Value {
    let mut spec = stage.spec(&format!("/o-{object}"), key_of(object), &format!("o-{object}/{folder}"));
    spec["maxAgeSeconds"] = json!(max_age);
    spec["verify"] = json!({ "enabled": false });
    spec
}

fn key_of(object: u64) -> usize {
    usize::from(object.is_multiple_of(2)) + 1
}

async fn make(stage: &Stage, object: u64, changes: Vec<Change>) -> Result<()> {
    let name = format!("o-{object}");
    for change in changes {
        match change {
            Change::Create(now) => stage.create(&name, spec(stage, object, now)).await?,
            Change::Alter(now) => stage.change(&name, spec(stage, object, now)).await?,
            Change::Delete => stage.delete(&name).await?,
        }
    }
    Ok(())
}

/// The leader ends and is started again, so that the other one leads; the other is never restarted by it.
async fn take_turns(stage: &Stage, replicas: &mut [IssuerService; 2]) -> Result<()> {
    let is_first = std::ptr::eq(stage.leader().await?, &stage.a);
    let (number, before, other) = if is_first { (0, &stage.a, &stage.b) } else { (1, &stage.b, &stage.a) };
    ensure!(replicas[number].terminate().await? == Some(0), "{}", replicas[number].log());
    wait::until("the other one leads", async || {
        Ok(other.site().metric("chancery_leader", &[]).await? == Some(1.0))
    })
    .await?;
    replicas[number] = before.site().start()?;
    Ok(())
}

/// Both replicas serve what an object declares, and its folder holds it; or nobody answers for it.
async fn is_so(stage: &Stage, object: u64, declared: Option<Declared>) -> Result<()> {
    let path = format!("/o-{object}");
    let Some(Declared { max_age, folder }) = declared else { return stage.is_gone(&path).await };
    stage.is_shown(&path, key_of(object)).await?;
    for replica in [&stage.a, &stage.b] {
        is_kept_for(replica, &stage.url(&path), max_age).await?;
    }
    stage.is_published(&format!("o-{object}/{folder}"), key_of(object)).await?;
    let name = format!("o-{object}");
    let generation = stage.get(&name).await?.metadata.generation;
    let status = stage.shows(&name, "ready", |status| {
        status["observedGeneration"] == json!(generation) && condition(status, "Ready")["status"] == "True"
    });
    let status = status.await?;
    ensure!(status["keys"][0]["kid"] == stage.key(key_of(object)).kid, "{status}");
    Ok(())
}

/// What is served says for how long it may be kept, as the object does.
async fn is_kept_for(replica: &Replica, url: &str, max_age: u64) -> Result<()> {
    let expected = format!("public, max-age={max_age}");
    wait::until(&format!("{expected} at {url}"), async || {
        let answer = replica.site().client().get(format!("{url}/openid/v1/jwks")).send().await?;
        let header = answer.headers().get("cache-control").context("no cache-control")?.clone();
        ensure!(header == expected.as_str(), "it says {header:?}");
        Ok(true)
    })
    .await
}

/// The files of issuers that nobody changes, and when each was written.
fn untouched(stage: &Stage) -> Result<Vec<(Vec<u8>, SystemTime)>> {
    let read = |folder: &str| {
        let path = stage.jwks_of(folder);
        Ok((std::fs::read(&path)?, std::fs::metadata(&path)?.modified()?))
    };
    ["bystander", "file"].map(read).into_iter().collect()
}
