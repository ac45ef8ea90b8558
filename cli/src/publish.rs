//! `chancery publish`: documents to a target, once, from a pipeline or by hand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use chancery_core::profile::RelyingParty;
use chancery_core::publication::{Desired, Plan, Returning, WriterMemory};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{
    CachePolicy, DocumentSet, IssuerUrl, Jwks, KeyId, Owner, WithdrawalCause, Withdrawals, WriterKey,
};
use chancery_publisher::DocumentStore;
use chancery_publisher::publish::{PublishError, execute, prepare};
use chancery_publisher::writer_key_file::{first_decision_now, random_writer_key, read_writer_key};

use self::advice::Advice;
use self::keys::KeyArgs;
use self::report::PublishReport;
use self::target::TargetArgs;
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{Logs, block_on};

mod advice;
pub mod keys;
mod report;
#[cfg(feature = "issuer")]
mod restore;
mod target;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what `apply` would write, and why; exits 3 when that is anything
    Plan(Args),
    /// Write what is missing or differs; keys that others published stay
    Apply(Args),
    /// Make a key by which the writers of an issuer know each other's work, on standard output
    WriterKey,
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
    /// Withdraw this key: its last token is dead. May be repeated
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    withdraw: Vec<KeyId>,
    /// Relying parties that matter, as of `chancery lint --for`: whether they take the keys, and how long they keep them
    #[arg(long = "for", value_name = "PARTY,...", value_delimiter = ',', default_values_t = RelyingParty::USUAL)]
    parties: Vec<RelyingParty>,
    /// Revoke this key: nothing ever publishes it again. May be repeated
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    revoke: Vec<KeyId>,
    /// Publish keys again that were withdrawn there, but not revoked
    #[arg(long)]
    return_withdrawn: bool,
    /// With --revoke: go on although no key is left, so that every token of this issuer is refused
    #[arg(long, requires = "revoke")]
    force: bool,
    /// The key by which the issuer's writers know each other's work; needed where a service with a state publishes
    #[arg(long, value_name = "FILE")]
    state_key_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    // Where no machine gives credentials, the SDK reports each way in which it did not get any; the error is enough.
    logs.to_stderr("warn,aws_config=error")?;
    let (args, apply) = match command {
        Command::Plan(args) => (args, false),
        Command::Apply(args) => (args, true),
        Command::WriterKey => {
            say(&format!("{}\n", random_writer_key().to_secret_text()))?;
            return Ok(ExitCode::SUCCESS);
        }
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
    withdrawals: Withdrawals,
    owner: Owner,
    adopt: bool,
    parties: Vec<RelyingParty>,
    writer_key: Option<WriterKey>,
    returning: Returning,
    may_empty: bool,
}

impl Wish {
    fn of(args: &Args) -> anyhow::Result<Self> {
        let keeps_what_stands = !args.withdraw.is_empty() || !args.revoke.is_empty();
        let jwks = Jwks::new(args.keys.read()?).or(keeps_what_stands.then(Jwks::empty));
        let jwks = jwks.context("no key was given (--key or --jwks); an empty set is never published")?;
        let both = args.withdraw.iter().chain(&args.revoke).find(|id| jwks.contains(id));
        ensure!(
            both.is_none(),
            "{} is to be published and withdrawn at once; take it out of the key files or out of --withdraw and --revoke",
            both.map(ToString::to_string).unwrap_or_default(),
        );
        // Whichever decision it will be, it is later than what is found there.
        let decision = u64::MAX;
        let mut withdrawals =
            Withdrawals::of(args.withdraw.iter().cloned(), WithdrawalCause::Retired, decision);
        for kid in &args.revoke {
            withdrawals.add(Withdrawal { key: kid.into(), cause: WithdrawalCause::Revoked, decision });
        }
        let writer_key = args.state_key_file.as_deref().map(read_writer_key).transpose()?;
        let returning = if args.return_withdrawn { Returning::Allowed } else { Returning::Refused };
        let owner = args.owner.clone().unwrap_or_else(|| Owner::of_issuer(&args.issuer));
        let cache = CachePolicy::of_seconds(args.max_age);
        let documents = DocumentSet::new(args.issuer.clone(), jwks, cache);
        Ok(Self {
            documents,
            withdrawals,
            owner,
            adopt: args.adopt,
            writer_key,
            returning,
            may_empty: args.force,
            parties: args.parties.clone(),
        })
    }

    fn desired(&self) -> Desired<'_> {
        Desired {
            documents: &self.documents,
            withdrawals: &self.withdrawals,
            owner: &self.owner,
            memory: WriterMemory::Stateless {
                writer_key: self.writer_key.as_ref(),
                returning: self.returning,
                may_empty: self.may_empty,
                first_decision: first_decision_now(),
            },
            adopt_unmarked: self.adopt,
        }
    }

    fn report(&self, store: &dyn DocumentStore, plan: &Plan) -> PublishReport {
        let advice = Advice::of(plan, &self.withdrawals, &self.parties);
        PublishReport::of_plan(&store.describe(), &self.owner, plan, advice)
    }

    async fn plan(&self, store: Arc<dyn DocumentStore>, json: bool) -> anyhow::Result<ExitCode> {
        let plan = prepare(store.as_ref(), self.desired()).await.map_err(with_request)?;
        print(&self.report(store.as_ref(), &plan), json)?;
        Ok(unless_found(plan.writes.is_empty()))
    }

    async fn apply(&self, store: Arc<dyn DocumentStore>, json: bool) -> anyhow::Result<ExitCode> {
        let plan = prepare(store.as_ref(), self.desired()).await.map_err(with_request)?;
        let mut report = self.report(store.as_ref(), &plan);
        if !json {
            // Before the writes, so that it stands there whatever comes of them.
            print(&report, false)?;
        }
        let outcome = execute(store.as_ref(), self.desired(), plan).await.map_err(with_request)?;
        report.applied(&outcome);
        if json { print(&report, true) } else { say(&report.to_text_of_outcome()) }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is printed once may name the request.
fn with_request(error: PublishError) -> anyhow::Error {
    match error.request_id() {
        Some(id) => anyhow!("{error} (request {id})"),
        None => error.into(),
    }
}

fn print(report: &PublishReport, json: bool) -> anyhow::Result<()> {
    say(&if json { report.to_json()? } else { report.to_text() })
}
