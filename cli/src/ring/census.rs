//! `chancery ring census`: every copy of a token that a key of the ring has signed, by the place where it lies.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chancery_cluster::cell::StoreMode;
use chancery_core::ring::WallTime;
use chancery_core::{KeyRing, in_words};
use chancery_signer::rotation::{Census, CopiedToken, RingDesk, TokenCounter, count_cluster};
use jiff::Timestamp;
use serde_json::json;

use super::PolicyArg;
use crate::output::say;

/// A copy outlives what the policy lets a token live.
const FOUND: u8 = 3;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// Files of this machine to look at as well, such as /etc/cni/net.d/*kubeconfig*
    #[arg(long = "host-path", value_name = "FILE", num_args = 1..)]
    host_paths: Vec<PathBuf>,
    /// For a machine
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.policy.resolved().await?;
    ensure!(
        config.census.is_some() || !args.host_paths.is_empty(),
        "there is nothing to look at; say in the policy which cluster, as `census: {{ kubeconfig: FILE }}`, or give files of this \
         machine with --host-path"
    );
    let ring = RingDesk::open(&config, StoreMode::ReadOnly).await?.read().await?;
    let mut counter = TokenCounter::new(&ring);
    if let Some(census) = &config.census {
        count_cluster(census, &config.base, &mut counter).await?;
    }
    for path in &args.host_paths {
        counter.read_file(path).with_context(|| format!("look for tokens in {}", path.display()))?;
    }
    let census = counter.over();
    let now = WallTime(u64::try_from(Timestamp::now().as_second()).unwrap_or_default());
    let settings = config.policy.settings();
    let last = now.after(settings.lifetimes.any().saturating_add(settings.skew));
    let outlives = |token: &CopiedToken| token.is_alive(last);
    if args.json {
        let all = json!({ "tokens": census.tokens, "unnamed": census.unnamed });
        say(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else {
        say(&text(&census, &ring, now, outlives))?;
    }
    let is_found = census.tokens.iter().any(outlives) || !census.unnamed.is_empty();
    Ok(if is_found { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

fn text(census: &Census, ring: &KeyRing, now: WallTime, outlives: impl Fn(&CopiedToken) -> bool) -> String {
    let mut text = String::new();
    for key in ring.keys() {
        let copies: Vec<&CopiedToken> =
            census.tokens.iter().filter(|token| token.kid == *key.kid()).collect();
        text.push_str(&format!("{}  {}: {} copies of its tokens\n", key.kid(), key.state, copies.len()));
        for token in copies {
            let used =
                token.last_used.as_ref().map(|day| format!(", last used on {day}")).unwrap_or_default();
            let long = if token.expires.is_some() && outlives(token) {
                ", longer than `lifetimes` of the policy"
            } else {
                ""
            };
            text.push_str(&format!("  {}: {}{long}{used}\n", token.place, ends(token, now)));
        }
        if let Some(more) = census.unnamed.get(key.kid()) {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    text.push_str(
        "A copy that does not expire keeps its key from leaving. Replace it by a token that does, or a projected one, and remove it.\n",
    );
    text
}

fn ends(token: &CopiedToken, now: WallTime) -> String {
    let Some(expires) = token.expires else { return "does not expire".to_owned() };
    match expires.checked_sub(now.0).filter(|left| *left > 0) {
        Some(left) => format!("expires in {}", in_words(Duration::from_secs(left))),
        None => "expired".to_owned(),
    }
}
