//! The first tokens of a cluster that has not begun: each relying party is shown one, before anything depends on the key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::IssuerUrl;
use chancery_core::rotation::CanaryAnswer;
use tokio::sync::mpsc::unbounded_channel;

use super::config::CanaryConfig;
use super::{CanaryError, Party, ask_all, open_all};
use crate::signing::ActiveKey;

/// How long such a token lives.
const LIFETIME: Duration = Duration::from_secs(300);

/// Relying parties that are shown one token each.
#[derive(Debug)]
pub struct FirstTokens {
    issuer: IssuerUrl,
    parties: Vec<(String, Arc<Party>)>,
}

impl FirstTokens {
    /// Opens who is to be asked. Relative paths start at `base`.
    ///
    /// # Errors
    /// Which of them cannot be asked by what is said of it.
    pub async fn open(
        canaries: &[CanaryConfig],
        issuer: &IssuerUrl,
        base: &Path,
    ) -> Result<Self, CanaryError> {
        Ok(Self { issuer: issuer.clone(), parties: open_all(canaries, base).await? })
    }

    /// Shows each of them a token that this key has signed, and gives what they say, by their names.
    pub async fn show(&self, key: ActiveKey) -> Vec<(String, CanaryAnswer)> {
        let (said, mut answers) = unbounded_channel();
        ask_all(self.parties.clone(), key, (&self.issuer, LIFETIME), &said).await;
        drop(said);
        let mut all = Vec::new();
        while let Some(answer) = answers.recv().await {
            all.push(answer);
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}
