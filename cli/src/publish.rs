//! `chancery publish`: documents to a target, once, from a pipeline or by hand.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use chancery_core::publication::{Desired, Known};
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, Jwks, KeyId, Owner};
use chancery_publisher::publish::{execute, prepare};
use chancery_publisher::{DocumentStore, default_owner};

use self::keys::KeyArgs;
use self::report::Report;
use self::target::TargetArgs;
use crate::output::say;
use crate::runtime::{block_on, log_to_stderr};

pub mod keys;
mod report;
#[cfg(feature = "issuer")]
mod restore;
mod target;

/// There is something to do.
const FOUND: u8 = 3;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what `apply` would write, and why; exits 3 when that is anything
    Plan(Args),
    /// Write what is missing or differs; keys that others published stay
    Apply(Args),
    /// Bring back what the service's configuration describes, from what is left of it
    #[cfg(feature = "issuer")]
    Restore(restore::Args),
}

#[derive(clap::Args)]
#[command(
    after_help = "Each write is made on the condition that the object is still what was read. Objects without our ownership marker are not touched; docs/targets.md describes the targets and the permissions they need.\nExit code: 0 when the target is up to date (afterwards), 3 when `plan` found something to write, 1 when it is refused."
)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Seconds that caches may keep the documents; no new key may sign sooner than that after it was published
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    max_age: u32,
    /// The ownership marker of the objects [default: derived from the issuer URL]
    #[arg(long)]
    owner: Option<Owner>,
    /// Take over objects that carry no ownership marker
    #[arg(long)]
    adopt: bool,
    /// Withdraw this key; tokens that it signed are refused from then on
    #[arg(long, value_name = "KID", num_args = 1..)]
    withdraw: Vec<KeyId>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    // Where no machine gives credentials, the SDK reports each way in which it did not get any; the error is enough.
    log_to_stderr(false, "warn,aws_config=error");
    let (args, apply) = match command {
        Command::Plan(args) => (args, false),
        Command::Apply(args) => (args, true),
        #[cfg(feature = "issuer")]
        Command::Restore(args) => return restore::run(args),
    };
    let wish = Wish::of(&args)?;
    block_on(1, async {
        let store = args.target.open().await?;
        if apply { wish.apply(store, args.json).await } else { wish.plan(store, args.json).await }
    })
}

/// What the arguments ask for.
struct Wish {
    documents: DocumentSet,
    tombstones: Vec<KeyId>,
    owner: Owner,
    adopt: bool,
}

impl Wish {
    fn of(args: &Args) -> anyhow::Result<Self> {
        let jwks =
            Jwks::new(args.keys.read()?).context("no key was given; an empty set is never published")?;
        let both = args.withdraw.iter().find(|id| jwks.contains(id));
        ensure!(
            both.is_none(),
            "{} is to be published and withdrawn at once; take it out of the key files or out of --withdraw",
            both.map(ToString::to_string).unwrap_or_default(),
        );
        let tombstones = args.withdraw.clone();
        let owner = args.owner.clone().unwrap_or_else(|| default_owner(&args.issuer));
        let cache = CachePolicy::of_seconds(args.max_age);
        let documents = DocumentSet::new(args.issuer.clone(), jwks, cache);
        Ok(Self { documents, tombstones, owner, adopt: args.adopt })
    }

    fn desired(&self) -> Desired<'_> {
        Desired {
            documents: &self.documents,
            tombstones: &self.tombstones,
            owner: &self.owner,
            known: Known::Stateless,
            adopt_unmarked: self.adopt,
        }
    }

    async fn plan(&self, store: Arc<dyn DocumentStore>, json: bool) -> anyhow::Result<ExitCode> {
        let plan = prepare(store.as_ref(), self.desired()).await?;
        print(&Report::of_plan(&store.describe(), &self.owner, &plan), json)?;
        Ok(if plan.writes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
    }

    async fn apply(&self, store: Arc<dyn DocumentStore>, json: bool) -> anyhow::Result<ExitCode> {
        let plan = prepare(store.as_ref(), self.desired()).await?;
        let mut report = Report::of_plan(&store.describe(), &self.owner, &plan);
        if !json {
            // Before the writes, so that it stands there whatever comes of them.
            print(&report, false)?;
        }
        let outcome = execute(store.as_ref(), self.desired(), plan).await?;
        report.applied(&outcome);
        if json { print(&report, true) } else { say(&report.to_text_of_outcome()) }?;
        Ok(ExitCode::SUCCESS)
    }
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    say(&if json { report.to_json()? } else { report.to_text() })
}
