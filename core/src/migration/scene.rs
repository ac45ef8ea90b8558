//! What is wanted and what was seen, and what follows from both.

use std::time::Duration;

use super::{ApiServer, Documents, Intent, Observed, Signing};

impl Observed {
    /// What all replicas do.
    pub fn signing(&self, intent: &Intent) -> Signing {
        let for_another = |server: &ApiServer| server.signs_for != intent.to.as_str();
        let mut seen = self.api_servers.values().filter_map(|asked| asked.as_ref().ok());
        match seen.any(for_another) {
            true => Signing::SomeForAnother,
            false if self.api_servers.values().any(Result::is_err) || self.api_servers.is_empty() => {
                Signing::NotAllSeen
            }
            false => Signing::AllForNew,
        }
    }
}

/// What is wanted and what was seen.
pub(super) struct Scene<'a> {
    pub intent: &'a Intent,
    pub observed: &'a Observed,
}

impl<'a> Scene<'a> {
    /// The replicas that were seen.
    pub fn seen(&self) -> impl Iterator<Item = (&'a str, &'a ApiServer)> {
        let asked = self.observed.api_servers.iter();
        asked.filter_map(|(name, asked)| Some((name.as_str(), asked.as_ref().ok()?)))
    }

    pub fn signs_for_new(&self, server: &ApiServer) -> bool {
        server.signs_for == self.intent.to.as_str()
    }

    /// What of the wait is left; `None` while it has not begun.
    pub fn left(&self) -> Option<Duration> {
        let all = self.observed.signing(self.intent) == Signing::AllForNew;
        all.then(|| self.intent.wait().saturating_sub(self.observed.waited))
    }

    pub fn is_waited(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}

impl Documents {
    /// What is wrong, in words.
    pub(super) fn in_words(&self) -> String {
        match (self.is_served, self.problems.as_slice()) {
            (false, []) => "nothing is served".to_owned(),
            (_, problems) => problems.join("; "),
        }
    }
}
