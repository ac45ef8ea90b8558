//! Rolling restarts under load: nothing is refused, one restart of each node for a rotation, whoever is killed and whenever.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chancery_core::key_file::read_public_keys;
use chancery_keygen::PemFile;
use chancery_keygen::pem_file::Content;
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, chancery, wait};
use rustix::process::Signal;

use crate::files_stage::{FilesStage, LIFETIME, LONG, NAMES, is_followed};
use crate::load::{AUDIENCE, Load, Rate};

const SERVERS: [&str; 3] = ["etcd", "kube-apiserver", "go-oidc"];
/// How often the processes of all nodes are killed, each time a little later.
const KILLS: u32 = 12;
/// Nine tokens in a second, each shown to four.
const RATE: Rate = Rate { pause: Duration::from_millis(333), lifetime: LIFETIME };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiservers_with_key_files_are_rolled_under_load_and_no_live_token_is_refused() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let _alone = crate::STAGE.lock().await;
    let started = Instant::now();
    let stage = FilesStage::start().await?;
    tokio::select! {
        outcome = under_load(&stage, started) => outcome,
        failed = stage.restarts_on_wish() => Err(failed),
    }
}

async fn under_load(stage: &FilesStage, started: Instant) -> Result<()> {
    let relying_party = TokenVerifier::start("go-oidc", &stage.issuer_url(), AUDIENCE, stage.ca()).await?;
    let load = Load::begin(stage.servers.clone(), relying_party, RATE);
    say(&format!("everybody runs after {:.0?}", started.elapsed()));

    planned(stage).await?;
    let followers = (0..3).map(|number| stage.follow(number)).collect::<Result<Vec<_>>>()?;
    stage.everybody_follows().await?;
    ensure!(stage.restarts() == [1; 3], "the first standby: {:?}", stage.restarts());
    say(&format!("the first standby is everywhere after {:.0?}", started.elapsed()));
    stage.rotate().await?;
    stage.everybody_follows().await?;
    ensure!(stage.restarts() == [2; 3], "a rotation: {:?}\n{}", stage.restarts(), stage.logs());
    say(&format!("a rotation done after {:.0?}", started.elapsed()));
    held_up(stage).await?;
    ensure!(stage.restarts() == [3; 3], "another one: {:?}\n{}", stage.restarts(), stage.logs());
    say(&format!("a rotation around a node that did not come back done after {:.0?}", started.elapsed()));
    ended(followers).await?;
    step_by_step(stage).await?;
    ensure!(stage.restarts() == [4; 3], "step by step: {:?}", stage.restarts());
    say(&format!("a rotation of which each step was another process done after {:.0?}", started.elapsed()));
    killed(stage).await?;
    say(&format!("a rotation whose processes were killed done after {:.0?}", started.elapsed()));

    let (counts, tokens) = load.end().await;
    let (signed, verified) = (counts.signed.load(Ordering::Relaxed), counts.verified.load(Ordering::Relaxed));
    let refused = counts.refused();
    say(&format!(
        "4 rotations, {:?} restarts: {signed} tokens of {} keys, {verified} times verified, {} refused, after {:.0?}",
        stage.restarts(),
        counts.keys(),
        refused.len(),
        started.elapsed(),
    ));
    let first = &refused[..refused.len().min(5)];
    ensure!(refused.is_empty(), "{} refused: {first:#?}\n{}", refused.len(), stage.logs());
    ensure!(
        signed == tokens.len() && counts.keys() == 5 && verified == signed * 8,
        "{signed} signed, {verified} verified"
    );
    Ok(())
}

/// Before anything is done, it is said what would be.
async fn planned(stage: &FilesStage) -> Result<()> {
    wait::value_within(LONG, "a plan to load the first standby", async || {
        let plan = chancery::run_command(stage.command(0, &["--plan"])?).await?;
        ensure!(plan.code == Some(3), "{plan:?}");
        let steps: Vec<&str> =
            plan.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        ensure!(steps == ["acknowledge", "take", "write", "restart", "acknowledge", "give"], "{plan:?}");
        Ok(Some(()))
    })
    .await?;
    ensure!(
        stage.restarts() == [0; 3] && stage.ring().await?.signers().count() == 0,
        "a plan has done something"
    );
    Ok(())
}

/// A kube-apiserver that does not come back holds the turn of its node; everybody can see which, and the others wait.
async fn held_up(stage: &FilesStage) -> Result<()> {
    let broken = stage.node(1).join("broken");
    std::fs::write(&broken, "")?;
    stage.rotate().await?;
    wait::value_within(LONG, "the node that does not come back", async || {
        let is_down = stage.restarts()[1] == 3;
        Ok((is_down && stage.status().await?.contains("it is the turn of b")).then_some(()))
    })
    .await
    .with_context(|| stage.logs())?;
    let before = stage.restarts();
    let plan = async |number| chancery::run_command(stage.command(number, &["--plan"])?).await;
    for number in [0, 2].into_iter().filter(|number| before[*number] == 2) {
        let plan = plan(number).await?;
        ensure!(plan.code == Some(3) && plan.stdout.contains("it is the turn of b"), "{plan:?}");
    }
    let ring = stage.ring_command("plan", &[]).await?.stdout;
    ensure!(ring.contains("RotationInFlight") || ring.contains("SignerNotStopped"), "{ring}");
    ensure!(stage.restarts() == before, "somebody did not wait");
    std::fs::remove_file(&broken)?;
    stage.everybody_follows().await
}

/// Stopped in an orderly way, whatever they were at.
async fn ended(followers: Vec<Process>) -> Result<()> {
    for mut follower in followers {
        follower.signal(Signal::TERM)?;
        let code = follower.exit(Duration::from_secs(60)).await?.code();
        ensure!(code.is_some(), "it did not end by itself\n{}", follower.log_tail());
    }
    Ok(())
}

/// Every step is taken by a process of its own, which ends after it.
async fn step_by_step(stage: &FilesStage) -> Result<()> {
    stage.rotate().await?;
    let mut steps = 0;
    let mut taken = Vec::new();
    // Nodes take seven steps each, and wait for each other and for the standby.
    while !is_followed(&stage.ring().await?) || steps < 3 * NAMES.len() {
        for (number, name) in NAMES.iter().enumerate() {
            let step = chancery::run_command(stage.command(number, &["--once"])?).await?;
            ensure!(matches!(step.code, Some(0 | 3)), "{step:?}");
            in_order(stage.node(number)).with_context(|| format!("{name} after {step:?}"))?;
            let said = step.stderr.lines().filter_map(|line| line.split_once("key files: "));
            taken.extend(said.map(|(_, step)| format!("{name}: {step}")));
            steps += 1;
        }
        ensure!(steps < 600, "no end: {taken:#?}");
    }
    // The turn is given back after the last acknowledgement.
    for number in 0..NAMES.len() {
        wait::value_within(LONG, "a node that is done", async || {
            let code = chancery::run_command(stage.command(number, &["--once"])?).await?.code;
            Ok((code == Some(0)).then_some(()))
        })
        .await?;
    }
    for name in NAMES {
        for step in ["take the turn", "write ", "restart", "acknowledge", "give the turn back"] {
            let was_taken = |line: &String| line.starts_with(&format!("{name}: {step}"));
            ensure!(
                taken.iter().any(was_taken) || step.starts_with("give"),
                "{name} never: {step}\n{taken:#?}"
            );
        }
    }
    say(&format!("{steps} processes of one step each"));
    stage.everybody_follows().await
}

/// `kubeadm join` takes the first key of sa.pub for the public half of sa.key.
fn in_order(node: &Scratch) -> Result<()> {
    let [signs, verify] = [std::fs::read(node.join("sa.key"))?, std::fs::read(node.join("sa.pub"))?];
    let signs = PemFile::read(&signs, None).blocks.into_iter().find_map(|block| match block.content {
        Content::Private(key, _) => Some(key.public_key().clone()),
        _ => None,
    });
    let verify = read_public_keys(&*verify).keys;
    ensure!(verify.first() == signs.as_ref(), "sa.key has {signs:?}, and sa.pub begins with {verify:?}");
    Ok(())
}

/// The processes are killed: right before and right after each restart is asked for, and at all other times.
async fn killed(stage: &FilesStage) -> Result<()> {
    for node in (0..3).map(|number| stage.node(number)) {
        let (before, after) = (node.join("killed-before"), node.join("killed-after"));
        let (wish, before, after) = (node.join("restart"), before.display(), after.display());
        let hook = format!(
            "if [ ! -e {before} ]; then touch {before}; kill -9 $PPID; exit 1; fi\n\
             if [ ! -e {after} ]; then touch {after} {}; kill -9 $PPID; exit 1; fi\n",
            wish.display()
        );
        node.write("hook", hook)?;
    }
    stage.rotate().await?;
    for round in 1..=KILLS {
        let followers = (0..3).map(|number| stage.follow(number)).collect::<Result<Vec<_>>>()?;
        // Whatever they are at then: the moment is what is tried.
        tokio::time::sleep(Duration::from_millis(300) * round).await;
        for mut follower in followers {
            follower.kill()?;
        }
    }
    let mut followers = (0..3).map(|number| stage.follow(number)).collect::<Result<Vec<_>>>()?;
    wait::value_within(LONG, "the end of a rotation whose processes are killed", async || {
        for (number, follower) in followers.iter_mut().enumerate() {
            // Killed by the restart that it has asked for.
            if !follower.is_running() {
                *follower = stage.follow(number)?;
            }
        }
        Ok(is_followed(&stage.ring().await?).then_some(()))
    })
    .await
    .with_context(|| stage.logs())?;
    stage.everybody_follows().await?;
    say(&format!("{} processes killed, {:?} restarts", 3 * KILLS + 6, stage.restarts()));
    for node in (0..3).map(|number| stage.node(number)) {
        ensure!(
            node.join("killed-before").exists() && node.join("killed-after").exists(),
            "nobody was killed"
        );
    }
    ended(followers).await
}

/// Where the test runner does not capture it.
fn say(what: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "files: {what}");
}
