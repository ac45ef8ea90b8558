//! Credentials in files, for commands that begin anew each time: AWS's tools start `credential_process` for every call.
//!
//! | room | what is in it |
//! |---|---|
//! | [`folder`] | the folder: whose it is, on what it lies, its locks and its generation |
//! | `entry` | one file |
//!
//! 1. A key is everything that the chain's key in memory is, and `iss`, `sub` and `aud` of the subject token: two
//!    workloads that run the same command share nothing.
//! 2. One process at a time exchanges for a key, by a lock of the kernel's; others wait for what it writes, and read it.
//! 3. What was purged while it was on its way is not written: a purge raises the folder's generation, and whoever writes
//!    compares it with the one from before its exchange.
//! 4. A file is written whole or not at all, for its owner alone (0600). It is handed out no longer than a credential in
//!    memory ([`crate::cache::schedule`]), by the clock that says it is older.

use std::path::PathBuf;
use std::time::Duration;

use chancery_files::{FileError, LockFile};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use self::entry::{Entry, Stored};
use self::folder::Folder;
use crate::cache::schedule::Freshness;
use crate::cache::{CacheOptions, Clock as _, Purge, SystemClock};
use crate::chain::{Chain, Runner};
use crate::credential::Credential;
use crate::error::{Class, ExchangeError, Stage};
use crate::key::{CacheKey, KeyBuilder};
use crate::limits;
use crate::transport::Transport;

mod entry;
pub mod folder;

pub use folder::Medium;

/// How long a process waits for another that exchanges for the same key: as long as an exchange may take, and a little.
const PATIENCE: Duration = limits::EXCHANGE.saturating_add(Duration::from_secs(5));

/// Credentials in a folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DiskCache {
    folder: Folder,
    longest: Duration,
}

impl DiskCache {
    /// The credentials in a folder, which is made where it does not exist.
    ///
    /// # Errors
    /// When others could read or write it, or it lies on a medium that is not allowed.
    pub fn open(path: PathBuf, medium: Medium) -> Result<Self, ExchangeError> {
        let folder = Folder::open(path, medium)?;
        Ok(Self { folder, longest: CacheOptions::default().longest })
    }

    /// The credential of a chain that is good for `remaining` more: from the folder, or by an exchange.
    ///
    /// # Errors
    /// Why none was given. A folder that fails does not fail the exchange; it is logged.
    pub async fn credential(
        &self,
        chain: &Chain,
        runner: &Runner,
        remaining: Duration,
    ) -> Result<Credential, ExchangeError> {
        let identity = chain.source.identity(chain.audience()).await?;
        let key = key(chain, runner.transport(), &identity);
        let labels = entry::Labels::of(&chain.labels, &identity);
        let keeping = Keeping { cache: self.clone(), key, labels, remaining };
        let credential = match keeping.look().await {
            Some((stored, Freshness::Fresh)) => stored.credential,
            Some((stored, _)) => keeping.renewed(chain, runner, stored).await,
            None => keeping.made(chain, runner).await?,
        };
        credential.lasts(remaining, SystemClock.read().wall)?;
        Ok(credential)
    }

    /// Forgets credentials now, also those that are on their way. Returns how many files it was.
    ///
    /// # Errors
    /// When the folder cannot be changed.
    pub fn purge(&self, what: &Purge) -> Result<usize, ExchangeError> {
        self.folder.purge(|bytes| Entry::parse(bytes).is_none_or(|entry| what.covers(entry.labels.as_text())))
    }
}

/// The key of a file: that of the memory, and whose token it is.
fn key(chain: &Chain, transport: &Transport, identity: &crate::subject::TokenIdentity) -> CacheKey {
    let mut key = KeyBuilder::default();
    key.text("chain", &chain.key(transport).to_string())
        .text("iss", &identity.iss)
        .text("sub", &identity.sub)
        .list("aud", &identity.aud);
    key.finish()
}

/// One key, for somebody who asks.
#[derive(Clone)]
struct Keeping {
    cache: DiskCache,
    key: CacheKey,
    labels: entry::Labels,
    remaining: Duration,
}

impl Keeping {
    /// What is there and good enough.
    async fn look(&self) -> Option<(Stored, Freshness)> {
        let this = self.clone();
        let read = spawn_blocking(move || this.cache.folder.read(&this.key)).await.ok()?;
        let bytes =
            read.map_err(|error| warn!(%error, "a credential in the cache cannot be read")).ok()??;
        let stored = Entry::parse(&bytes)?.into_stored();
        let now = SystemClock.read();
        let freshness = stored.at(now, self.cache.longest)?;
        let lasts = stored.credential.duration(now.wall) >= self.remaining;
        lasts.then_some((stored, freshness))
    }

    /// The lock of the key, within a time.
    async fn lock(&self, patience: Duration) -> Result<LockFile, FileError> {
        let this = self.clone();
        let locked = spawn_blocking(move || this.cache.folder.lock(&this.key, patience)).await;
        locked.unwrap_or_else(|error| {
            Err(FileError::io("lock", self.cache.folder.path(), std::io::Error::other(error)))
        })
    }

    /// A credential that is to be renewed and is good still: a new one where nobody else is making one and it can be
    /// had, otherwise this one.
    async fn renewed(&self, chain: &Chain, runner: &Runner, stored: Stored) -> Credential {
        let Ok(_lock) = self.lock(Duration::ZERO).await else { return stored.credential };
        match self.look().await {
            // Somebody has renewed it since.
            Some((newer, Freshness::Fresh)) => newer.credential,
            _ => match self.exchange(chain, runner).await {
                Ok(credential) => credential,
                Err(error) => {
                    warn!(%error, "a credential could not be renewed; the one from before is good still");
                    stored.credential
                }
            },
        }
    }

    /// A credential where there is none.
    async fn made(&self, chain: &Chain, runner: &Runner) -> Result<Credential, ExchangeError> {
        let lock = self.lock(PATIENCE).await;
        match &lock {
            Ok(_) => {}
            // Whoever holds it hangs; nobody waits for ever for a cache.
            Err(error) => warn!(%error, "the cache is not used"),
        }
        if let Some((stored, _)) = self.look().await {
            return Ok(stored.credential);
        }
        match lock {
            Ok(_lock) => self.exchange(chain, runner).await,
            Err(_) => runner.run(chain).await,
        }
    }

    /// Exchanges, and keeps what comes unless somebody has purged meanwhile. The caller holds the lock.
    async fn exchange(&self, chain: &Chain, runner: &Runner) -> Result<Credential, ExchangeError> {
        let this = self.clone();
        let before = spawn_blocking(move || this.cache.folder.generation()).await;
        let credential = runner.run(chain).await?;
        let Ok(Ok(before)) = before else { return Ok(credential) };
        let bytes = Entry::of(&credential, self.labels.clone(), SystemClock.read()).to_bytes()?;
        let this = self.clone();
        let kept = spawn_blocking(move || {
            this.cache.folder.sweep(|bytes| Entry::parse(bytes).is_some_and(|entry| entry.is_over()));
            this.cache.folder.write(&this.key, bytes, before)
        });
        match kept.await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => debug!("a credential was purged on its way, and is not kept"),
            Ok(Err(error)) => warn!(%error, "a credential cannot be kept"),
            Err(_) => {}
        }
        Ok(credential)
    }
}

/// A folder that may not be used.
fn unusable(code: &'static str, came: &str) -> ExchangeError {
    ExchangeError::new(Class::Permanent, Stage::Cache, code).came(came)
}
