//! Where a command keeps credentials between its calls.

use std::path::PathBuf;
use std::time::Duration;

use chancery_exchange::disk::{DiskCache, Medium};
use chancery_exchange::{Credential, ExchangeError};
use jiff::Timestamp;

use super::way::Opened;

#[derive(clap::Args)]
#[command(next_help_heading = "Cache")]
pub struct Keep {
    /// Keep credentials in this folder between calls, for this user alone; made where it does not exist
    #[arg(long, value_name = "FOLDER")]
    cache_dir: Option<PathBuf>,
    /// Allow a folder that is on a disk, where others may read it or its backup
    #[arg(long, requires = "cache_dir")]
    cache_on_disk: bool,
}

impl Keep {
    /// The credential at the end of a way, which is good for `remaining` more.
    pub async fn credential(
        &self,
        opened: &Opened,
        remaining: Duration,
    ) -> Result<Credential, ExchangeError> {
        let Some(folder) = &self.cache_dir else {
            let credential = opened.runner.run(&opened.chain).await?;
            credential.lasts(remaining, Timestamp::now())?;
            return Ok(credential);
        };
        let medium = if self.cache_on_disk { Medium::Any } else { Medium::Memory };
        let cache = DiskCache::open(folder.clone(), medium)?;
        cache.credential(&opened.chain, &opened.runner, remaining).await
    }
}
