//! `chancery ring revoke`: says first whom it does not reach.

use anyhow::bail;
use chancery_cluster::cell::StoreMode;
use chancery_core::profile::{RelyingParty, after_withdrawal};
use chancery_core::ring::{KeyState, Request};
use chancery_core::{KeyId, KeyRing};
use chancery_signer::RotationConfig;
use chancery_signer::rotation::{RingDesk, resolved};

use super::PolicyArg;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// The key id
    #[arg(value_name = "KID", allow_hyphen_values = true)]
    kid: KeyId,
    /// Do not wait until another key signs and no signer signs with this one, even if nothing can be signed then
    #[arg(long)]
    at_once: bool,
    /// Do it; without this, what would happen is said and nothing is done
    #[arg(long)]
    yes: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let config = args.policy.read()?;
    let config = match resolved(config.clone()).await {
        Ok(resolved) => resolved,
        // Whoever has to revoke a key cannot wait for an API server.
        Err(error) => {
            let error = anyhow::Error::from(error);
            say(&format!("{error:#}; it is the policy's own file that says below who accepts the key\n\n"))?;
            config
        }
    };
    let desk = RingDesk::open(&config, StoreMode::Shared).await?;
    let ring = desk.read().await?;
    let request = Request::Revoke { kid: args.kid.clone(), at_once: args.at_once };
    // What is refused is refused before it is described.
    ring.request(&request)?;
    say(&consequences(&config, &ring, &args))?;
    if !args.yes {
        bail!("nothing was done; give --yes to revoke {}", args.kid);
    }
    let ring = desk.ask(&request).await?;
    say(&format!("\nasked; the ring is at {}\n", ring.position()))
}

fn consequences(config: &RotationConfig, ring: &KeyRing, args: &Args) -> String {
    let kid = &args.kid;
    let mut text = match ring.key(kid).map(|key| key.state) {
        None => format!("{kid} is over already; it is remembered as revoked from now on\n"),
        Some(KeyState::Active) if args.at_once => {
            format!(
                "{kid} signs now; it is revoked at once, and nothing can be signed until another key does\n"
            )
        }
        Some(KeyState::Active) => {
            let standby = ring.in_state(KeyState::Published).find(|key| key.may_sign());
            match standby {
                Some(next) => format!(
                    "{kid} signs now; {} signs first, and {kid} is revoked when every signer says that it does\n",
                    next.kid()
                ),
                None => format!(
                    "{kid} signs now, and there is no standby: it is revoked when one is made, published and visible. \
                     --at-once does not wait, and nothing can be signed then\n"
                ),
            }
        }
        Some(state) => {
            let still = ring.key(kid).filter(|key| key.state.is_draining() && !args.at_once);
            let still = still.map(|key| ring.signing_still(key).join(", ")).unwrap_or_default();
            match still.as_str() {
                "" => format!("{kid} is {state}; it is revoked with the next look at the ring\n"),
                names => format!(
                    "{kid} is {state}; it is revoked when {names} no longer may sign with it, which --at-once does not \
                     wait for\n"
                ),
            }
        }
    };
    text.push_str(
        "\nEvery token that it has signed is refused then: kubelet does not know that and goes on with its copy until it \
         renews it, so restart pods that matter. It leaves the JWKS within one period, for good.\n\nWho goes on accepting \
         it:\n",
    );
    let declared = &config.policy.settings().parties;
    let parties = if declared.is_empty() { &[RelyingParty::Common][..] } else { declared };
    for one in after_withdrawal(parties) {
        text.push_str(&format!("  {one}\n"));
    }
    if declared.is_empty() {
        text.push_str("  (no relying party is declared; name them as `parties` in the policy)\n");
    }
    text
}
