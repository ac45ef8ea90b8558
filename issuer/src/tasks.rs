//! The tasks of the process, by how they end.

use tokio::task::JoinSet;

/// The tasks of the process, by how they end.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Reconcilers and uploaders: end between two rounds.
    pub writing: JoinSet<()>,
    /// Servers: end when requests in flight are answered.
    pub serving: JoinSet<()>,
    /// Whoever only watches: dropped where it stands.
    pub watching: JoinSet<()>,
}

impl Tasks {
    /// Resolves when a task ended that should have run on.
    pub async fn lost(&mut self) -> String {
        let lost = tokio::select! {
            Some(lost) = self.writing.join_next() => lost,
            Some(lost) = self.serving.join_next() => lost,
            Some(lost) = self.watching.join_next() => lost,
            else => return std::future::pending().await,
        };
        lost.err().map_or_else(|| "it returned".to_owned(), |error| error.to_string())
    }
}
