//! The issuers of a running service, each with tasks and an end of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::last_said::LastSaid;
use chancery_core::{IssuerUrl, WriterKey};
use chancery_publisher::TargetOpener;
use serde_saphyr::Spanned;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::control::{ControlError, Reloaded};
use crate::backoff::Backoff;
use crate::conditions::{ConditionStore, ConditionType, Subject, Verdict};
use crate::config::{Config, ConfigError, IssuerConfig};
use crate::issuer::{Issuer, IssuerTasks, Opening, Shared};
use crate::leadership::Leading;
use crate::metrics::{IssuerSeries, Metrics};
use crate::resource::{Claim, DeclaredIssuer, Standing, standings};
use crate::roster::{Declared, Roster};
use crate::serve::{Documents, ExtraHost, HostPolicy};
use crate::state::StateStore;

/// How long the writes under way of an issuer may take to end.
pub(super) const DRAIN: Duration = Duration::from_secs(15);
/// The waits between two tries to open an issuer.
const REOPEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Issuers that are opened at a time: each reads files and makes clients.
const OPENED_AT_ONCE: usize = 8;

/// What every issuer is given.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    /// The configuration file, for errors and relative paths.
    pub path: PathBuf,
    pub state: Option<StateStore>,
    pub writer_key: Option<Arc<WriterKey>>,
    pub metrics: Arc<Metrics>,
    /// Opens targets; those of several issuers share connections.
    opener: Arc<TargetOpener>,
    pub leading: Leading,
    pub conditions: Arc<ConditionStore>,
    pub roster: Roster,
    /// Told when what is served may have changed.
    pub changed: mpsc::Sender<()>,
    /// Told which part of an issuer ended that should have run on.
    lost: mpsc::Sender<String>,
    opening: Arc<Semaphore>,
}

impl Environment {
    /// Where one issuer's configuration came from.
    pub fn opening<'a>(&'a self, config: &'a Spanned<IssuerConfig>) -> Opening<'a> {
        Opening {
            config: &config.value,
            line: config.referenced.line(),
            path: &self.path,
            base: self.path.parent().unwrap_or(Path::new("")),
            state: self.state.as_ref(),
            writer_key: self.writer_key.as_ref(),
        }
    }

    /// What the tasks of one issuer share, which end when `shutdown` says so.
    pub fn shared(&self, shutdown: watch::Receiver<bool>) -> Shared {
        Shared {
            metrics: self.metrics.clone(),
            opener: self.opener.clone(),
            leading: self.leading.clone(),
            shutdown,
            conditions: self.conditions.clone(),
        }
    }
}

/// What an [`Environment`] is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub path: PathBuf,
    pub state: Option<StateStore>,
    pub writer_key: Option<Arc<WriterKey>>,
    pub metrics: Arc<Metrics>,
    pub leading: Leading,
    pub conditions: Arc<ConditionStore>,
    pub roster: Roster,
    pub changed: mpsc::Sender<()>,
}

/// Every issuer of the process.
#[derive(Debug)]
pub(super) struct Issuers {
    environment: Environment,
    documents: Documents,
    extra_hosts: Vec<ExtraHost>,
    pub(super) members: BTreeMap<IssuerUrl, RunningIssuer>,
    /// What the entries of the configuration need for themselves.
    file: Vec<Claim>,
    /// What objects of a cluster declare.
    pub(super) objects: Arc<Vec<DeclaredIssuer>>,
    /// What was said of each object.
    pub(super) told: BTreeMap<String, LastSaid>,
    /// One task for each issuer, which ends when all of the issuer's own have.
    running: JoinSet<()>,
    lost: mpsc::Receiver<String>,
}

/// How one issuer is told to end, and known to have ended.
#[derive(Debug)]
pub(super) struct RunningIssuer {
    pub declared: [u8; 32],
    /// Whether an object declares it, and not the configuration.
    pub is_of_object: bool,
    series: IssuerSeries,
    stop: watch::Sender<bool>,
    /// Resolves, with an error, when no task of it is left.
    ended: oneshot::Receiver<()>,
}

impl Issuers {
    pub fn new(parts: Parts, documents: Documents, extra_hosts: Vec<ExtraHost>) -> Self {
        let Parts { path, state, writer_key, metrics, leading, conditions, roster, changed } = parts;
        let (sender, lost) = mpsc::channel(1);
        let opening = Arc::new(Semaphore::new(OPENED_AT_ONCE));
        let environment = Environment {
            path,
            state,
            writer_key,
            metrics,
            opener: Arc::default(),
            leading,
            conditions,
            roster,
            changed,
            lost: sender,
            opening,
        };
        let (members, running) = (BTreeMap::new(), JoinSet::new());
        let (file, objects, told) = Default::default();
        Self { environment, documents, extra_hosts, members, file, objects, told, running, lost }
    }

    /// What every issuer is given.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Starts all of `configs`, whose places were checked.
    pub fn start(&mut self, configs: Vec<Spanned<IssuerConfig>>) {
        for config in configs {
            self.file.push(self.claim(&config));
            self.spawn(config, false);
        }
    }

    fn claim(&self, config: &Spanned<IssuerConfig>) -> Claim {
        Claim::of(&config.value, &self.extra_hosts)
    }

    /// Adds one.
    pub fn add(&mut self, config: Spanned<IssuerConfig>) -> Result<(), ControlError> {
        let url = config.value.url.clone();
        if self.members.contains_key(&url) {
            return Err(ControlError::Exists(url));
        }
        self.serve_with(&[url])?;
        self.file.push(self.claim(&config));
        self.spawn(config, false);
        Ok(())
    }

    /// Removes one, and waits until its tasks have ended. May be dropped: it ends all the same.
    pub async fn remove(&mut self, url: &IssuerUrl) -> Result<(), ControlError> {
        if !self.members.contains_key(url) {
            return Err(ControlError::Unknown(url.clone()));
        }
        self.file.retain(|claim| claim.url() != url);
        self.let_go(std::slice::from_ref(url)).await
    }

    /// Ends these issuers, all at a time, and waits until none of their tasks is left.
    pub(super) async fn let_go(&mut self, urls: &[IssuerUrl]) -> Result<(), ControlError> {
        for member in urls.iter().filter_map(|url| self.members.get(url)) {
            member.stop.send_replace(true);
        }
        for url in urls {
            let Some(member) = self.members.get_mut(url) else { continue };
            // The sender is dropped with the issuer's last task.
            let _ = (&mut member.ended).await;
            self.environment.roster.leave(url);
            self.environment.conditions.forget_issuer(url);
            if let Some(member) = self.members.remove(url) {
                self.environment.metrics.forget(url, &member.series);
            }
            info!(issuer = %url, "removed; what was published stays at its targets");
        }
        self.serve_with(&[])
    }

    /// Takes over the issuers of `config`.
    pub async fn reload(&mut self, config: Config) -> Result<Reloaded, ControlError> {
        let urls: Vec<IssuerUrl> = config.issuers.iter().map(|issuer| issuer.value.url.clone()).collect();
        HostPolicy::new(&urls, &self.extra_hosts)?;
        self.file = config.issuers.iter().map(|issuer| self.claim(issuer)).collect();
        // An object gives way to an entry of the file before that is there.
        self.let_objects_give_way().await?;
        let mut reloaded = Reloaded::default();
        let wanted: BTreeMap<_, _> =
            config.issuers.into_iter().map(|issuer| (issuer.value.url.clone(), issuer)).collect();
        let differs = |(url, member): (&IssuerUrl, &RunningIssuer)| {
            let differs = |issuer: &Spanned<IssuerConfig>| issuer.value.declared != member.declared;
            !member.is_of_object && wanted.get(url).is_none_or(differs)
        };
        let leaving: Vec<IssuerUrl> =
            self.members.iter().filter(|member| differs(*member)).map(|(url, _)| url.clone()).collect();
        self.let_go(&leaving).await?;
        reloaded.removed.extend(leaving.into_iter().filter(|url| !wanted.contains_key(url)));
        for (url, issuer) in wanted {
            if !self.members.contains_key(&url) {
                self.serve_with(std::slice::from_ref(&url))?;
                self.spawn(issuer, false);
                reloaded.added.push(url);
            }
        }
        self.follow_objects().await?;
        Ok(reloaded)
    }

    /// What becomes of each object now.
    pub(super) fn standings(&self) -> Vec<Standing> {
        standings(&self.file, &self.objects, &self.extra_hosts)
    }

    /// Resolves when a part of an issuer ended that should have run on, with its name.
    pub async fn lost(&mut self) -> String {
        loop {
            tokio::select! {
                Some(lost) = self.lost.recv() => return lost,
                Some(ended) = self.running.join_next() => {
                    if let Err(error) = ended {
                        return format!("the keeper of an issuer: {error}");
                    }
                }
                else => std::future::pending::<()>().await,
            }
        }
    }

    /// Ends all of them; whoever writes ends between two rounds.
    pub async fn drain(&mut self) {
        for member in self.members.values() {
            member.stop.send_replace(true);
        }
        while self.running.join_next().await.is_some() {}
    }

    /// Has the issuers that are there, and those that come, answered for.
    pub(super) fn serve_with(&self, coming: &[IssuerUrl]) -> Result<(), ControlError> {
        let issuers: Vec<IssuerUrl> = self.members.keys().chain(coming).cloned().collect();
        let policy = HostPolicy::new(&issuers, &self.extra_hosts)?;
        self.documents.answer_for(policy, &self.environment.roster.documents())?;
        // What is not taken now is taken with the change that is already announced.
        let _ = self.environment.changed.try_send(());
        Ok(())
    }

    pub(super) fn spawn(&mut self, config: Spanned<IssuerConfig>, is_of_object: bool) {
        let (stop, stopped) = watch::channel(false);
        let (alive, ended) = oneshot::channel();
        let (url, declared) = (config.value.url.clone(), config.value.declared);
        let series = series(&config.value);
        let shown = Declared {
            targets: series.targets.clone(),
            sinks: series.sinks.clone(),
            is_looked_at: config.value.verify.enabled,
        };
        self.environment.roster.join(&url, shown);
        let environment = self.environment.clone();
        // Boxed, as all that is dropped once the issuer is open: its task keeps room for what it holds by value.
        let config = Box::new(config);
        self.running.spawn(async move {
            keep(config, environment, stopped).await;
            drop::<oneshot::Sender<()>>(alive);
        });
        self.members.insert(url, RunningIssuer { declared, is_of_object, series, stop, ended });
    }
}

/// The names by which metrics tell the parts of an issuer apart.
fn series(config: &IssuerConfig) -> IssuerSeries {
    let targets = config.targets.iter().map(|target| target.value.to.display_name()).collect();
    let sinks = config.sinks.iter().map(|sink| sink.value.display_name()).collect();
    IssuerSeries { targets, sinks }
}

/// Opens an issuer, as often as it takes, and runs it until it is told to end.
async fn keep(
    config: Box<Spanned<IssuerConfig>>,
    environment: Environment,
    mut stopped: watch::Receiver<bool>,
) {
    let url = config.value.url.clone();
    let Some(mut tasks) = Box::pin(start(config, &environment, &mut stopped)).await else { return };
    let lost = tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => None,
        lost = tasks.lost() => Some(lost),
    };
    // A writer that was told to end may have ended before this task was woken: it is not lost.
    if let Some(lost) = lost.filter(|_| !*stopped.borrow()) {
        // Whoever hears of it tells all issuers to end, this one too.
        let _ = environment.lost.send(format!("{lost} ({url})")).await;
        let _ = stopped.wait_for(|stop| *stop).await;
    }
    end(tasks, &url).await;
}

/// Opens an issuer and starts its tasks; nothing when it was told to end before.
async fn start(
    config: Box<Spanned<IssuerConfig>>,
    environment: &Environment,
    stopped: &mut watch::Receiver<bool>,
) -> Option<IssuerTasks> {
    let shutdown = stopped.clone();
    let issuer = tokio::select! {
        issuer = open(&config, environment, shutdown) => issuer,
        _ = stopped.wait_for(|stop| *stop) => return None,
    };
    environment.roster.opened(&config.value.url, issuer.shown());
    Some(issuer.spawn(&environment.changed))
}

/// Opens an issuer. What cannot be opened is a condition, and is tried again.
async fn open(
    config: &Spanned<IssuerConfig>,
    environment: &Environment,
    shutdown: watch::Receiver<bool>,
) -> Issuer {
    let (url, conditions) = (&config.value.url, &environment.conditions);
    let (mut backoff, mut said) = (Backoff::new(REOPEN.0, REOPEN.1), LastSaid::default());
    loop {
        let shared = environment.shared(shutdown.clone());
        // The semaphore is never closed.
        let turn = environment.opening.acquire().await;
        let opened = Issuer::open(environment.opening(config), &shared).await;
        drop(turn);
        match opened {
            Ok(issuer) => {
                let verdict =
                    Verdict::good(ConditionType::Accepted, "Running", "everything it names is open");
                conditions.set(&Subject::issuer(url), &verdict);
                return issuer;
            }
            Err(problem) => {
                let text = match &problem {
                    // An object stands in no line of the configuration.
                    ConfigError::Value { line: 0, problem, .. } => problem.clone(),
                    problem => crate::error_chain(problem),
                };
                conditions
                    .set(&Subject::issuer(url), &Verdict::bad(ConditionType::Accepted, "CannotOpen", &text));
                environment.roster.refused(url, &text);
                if said.is_new(&text) {
                    error!(issuer = %url, "not accepted, and tried again now and then: {text}");
                }
                tokio::time::sleep(backoff.next_pause()).await;
            }
        }
    }
}

/// Lets writes under way end, then everything else where it stands.
async fn end(mut tasks: IssuerTasks, url: &IssuerUrl) {
    if timeout(DRAIN, tasks.writing.join_all()).await.is_err() {
        warn!(issuer = %url, seconds = DRAIN.as_secs(), "a write did not end in time and is cut");
    }
    tasks.writing.end().await;
    tasks.watching.end().await;
}
