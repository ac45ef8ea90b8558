//! Tasks that are joined, each with a name to say which of them ended.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

/// Tasks that end together. Dropping them ends them where they stand.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
}

impl Tasks {
    /// Starts a task that an operator knows as `name`.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name.into());
    }

    /// Resolves when a task ended, with its name and how it ended; never while there is none.
    pub async fn ended(&mut self) -> String {
        match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => format!("{} returned", self.name(id)),
            Some(Err(error)) => format!("{}: {}", self.name(error.id()), how(&error)),
            None => std::future::pending().await,
        }
    }

    /// Waits until all of them have ended by themselves.
    pub async fn join_all(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    /// Ends all of them where they stand, and waits until they have.
    pub async fn end(&mut self) {
        self.running.shutdown().await;
    }

    fn name(&mut self, id: Id) -> String {
        self.names.remove(&id).unwrap_or_default()
    }
}

fn how(error: &JoinError) -> &'static str {
    if error.is_panic() { "it panicked, as standard error tells" } else { "it was ended" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_is_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("the one that stays", std::future::pending());
        tasks.spawn("the one that returns", async {});
        assert_eq!(tasks.ended().await, "the one that returns returned");
        tasks.spawn("the one that panics", async { panic!("as a test") });
        assert!(tasks.ended().await.starts_with("the one that panics: it panicked"));
        tasks.end().await;
        tasks.join_all().await;
    }
}
