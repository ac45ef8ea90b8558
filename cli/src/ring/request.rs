//! The verbs that ask for something and leave the rest to whoever rotates.

use chancery_cluster::cell::StoreMode;
use chancery_core::KeyId;
use chancery_core::ring::Request;
use chancery_signer::rotation::RingDesk;

use super::PolicyArg;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
}

#[derive(clap::Args)]
pub struct KeyArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// The key id
    #[arg(value_name = "KID", allow_hyphen_values = true)]
    kid: KeyId,
}

#[derive(clap::Args)]
pub struct SignerArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// The signer's name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(clap::Args)]
pub struct ResetArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// Do it
    #[arg(long, required = true)]
    yes: bool,
}

pub async fn rotate(args: Args) -> anyhow::Result<()> {
    let then = "the standby signs as soon as it is safe; `chancery ring plan` says what is in the way";
    ask(&args.policy, &Request::RotateNow, then).await
}

pub async fn roll_back(args: Args) -> anyhow::Result<()> {
    let then = "the key that signed before signs again as soon as every signer has it";
    ask(&args.policy, &Request::RollBack, then).await
}

pub async fn taint(args: KeyArgs) -> anyhow::Result<()> {
    let then = "nobody signs with it any more as soon as another key can; its tokens stay good";
    ask(&args.policy, &Request::Taint(args.kid), then).await
}

pub async fn forget(args: SignerArgs) -> anyhow::Result<()> {
    let then = "it is not waited for any more; if it speaks again, it is. Whatever it may have signed counts as the \
                longest lifetime that was allowed";
    ask(&args.policy, &Request::ForgetSigner(args.name), then).await
}

pub async fn reset(args: ResetArgs) -> anyhow::Result<()> {
    debug_assert!(args.yes, "required by the command line");
    ask(&args.policy, &Request::Reset, "a new epoch has begun; keys that stopped to sign are drained anew")
        .await
}

/// Asks, and says what the ring is at then.
pub async fn ask(policy: &PolicyArg, request: &Request, then: &str) -> anyhow::Result<()> {
    let desk = RingDesk::open(&policy.read()?, StoreMode::Shared).await?;
    let ring = desk.ask(request).await?;
    say(&format!("asked; the ring is at {}\n{then}\n", ring.position()))
}
