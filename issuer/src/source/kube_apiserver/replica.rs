//! One replica, read again and again.

use std::time::Duration;

use chancery_cluster::access::explain;
use chancery_core::PublicKey;
use chancery_core::jwks::{ObservedJwk, ObservedJwks};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::minted_token::{Workload, mint};
use crate::source::parts::Listing;
use crate::source::reporter::SourceReporter;

/// Where every kube-apiserver serves its key set (`pkg/serviceaccount/openidmetadata.go`).
const PATH: &str = "/openid/v1/jwks";

/// A replica under load answers late, but one that takes longer is as good as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A thousand keys fit.
const LONGEST_ANSWER: usize = 1 << 20;

/// A replica that fails is asked less often, down to once in so many polls.
const SLOWEST: u32 = 6;

/// A replica and a client for it alone.
#[derive(Clone)]
pub(crate) struct Replica {
    pub(super) url: String,
    pub(super) client: Client,
    /// The time between two readings.
    pub(super) poll: Duration,
    /// In whose name it is asked for a token.
    pub(super) canary: Option<Workload>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Replica {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Reads it for ever.
    pub(super) async fn run(self, mut reporter: SourceReporter) {
        let mut backoff = Backoff::new(self.poll, self.poll * SLOWEST);
        loop {
            match self.read().await {
                Ok(reading) => {
                    backoff.reset();
                    reporter.report(reading).await;
                    self.send_canary(&reporter).await;
                    sleep(self.poll).await;
                }
                Err(error) => {
                    reporter.fail(error).await;
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// Finds out with which key it signs, if anybody wants to know.
    async fn send_canary(&self, reporter: &SourceReporter) {
        let Some(workload) = self.canary.as_ref().filter(|_| reporter.wants_canaries()) else { return };
        let minted = timeout(ANSWER_TIMEOUT, mint(self.client.clone(), workload)).await;
        let silent = || Err(format!("no answer to a TokenRequest within {} s", ANSWER_TIMEOUT.as_secs()));
        reporter.canary(minted.unwrap_or_else(|_| silent()));
    }

    async fn read(&self) -> Result<Listing, String> {
        reading(&self.document(PATH).await?)
    }

    /// Its keys.
    ///
    /// # Errors
    /// In words, when it shows none.
    pub async fn keys(&self) -> Result<Vec<PublicKey>, String> {
        Ok(self.read().await?.keys)
    }

    /// A client for it alone.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What it serves at `path`.
    ///
    /// # Errors
    /// In words, when that is not there.
    pub async fn document(&self, path: &str) -> Result<Vec<u8>, String> {
        let (status, body) = timeout(ANSWER_TIMEOUT, self.get(path))
            .await
            .map_err(|_| format!("no answer to GET {path} within {} s", ANSWER_TIMEOUT.as_secs()))??;
        match status {
            StatusCode::OK => Ok(body),
            status => Err(refusal(path, status)),
        }
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
        let answer = self.client.send(request).await.map_err(|error| explain(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| {
            format!("cannot read the answer to GET {path}: {}", crate::error_chain(&*error))
        })?;
        Ok((status, body.to_bytes().into()))
    }
}

fn refusal(path: &str, status: StatusCode) -> String {
    let remedy = match status {
        StatusCode::UNAUTHORIZED => "it does not know our credentials; renew them",
        StatusCode::FORBIDDEN => "bind the ClusterRole system:service-account-issuer-discovery to who we are",
        StatusCode::NOT_FOUND => "it has no issuer; its --service-account-issuer must be an https URL",
        _ => "see its log",
    };
    format!("GET {path} answered {status}; {remedy}")
}

/// The keys of a set. One entry that is none of Kubernetes' is skipped; a set without any is none.
fn reading(body: &[u8]) -> Result<Listing, String> {
    let jwks = ObservedJwks::parse(body).map_err(|error| format!("GET {PATH} answered what is {error}"))?;
    let mut reading = Listing::default();
    for (position, entry) in jwks.entries.into_iter().enumerate() {
        match (entry.is_kubernetes_key(), entry) {
            (true, ObservedJwk { key: Some(key), .. }) => reading.keys.push(key),
            (_, entry) => reading.skipped.push(skipped(position + 1, &entry)),
        }
    }
    match reading.keys.is_empty() {
        true => {
            Err(format!("GET {PATH} answered a set without a usable key: [{}]", reading.skipped.join("; ")))
        }
        false => Ok(reading),
    }
}

fn skipped(position: usize, entry: &ObservedJwk) -> String {
    let kid = entry.kid.as_deref().unwrap_or_default();
    let reason = match &entry.key {
        None => format!(
            "a key of kty {:?} and alg {:?} is not one we can publish",
            entry.kty,
            entry.alg.as_deref().unwrap_or_default()
        ),
        Some(key) => format!(
            "its key id is not the one that Kubernetes gives this key, {}; tokens that name it would not be found",
            key.key_id()
        ),
    };
    format!("entry {position} of the key set (kid {kid:?}): {reason}")
}

#[cfg(test)]
mod tests {
    use chancery_core::Jwks;

    use super::*;
    use crate::source::tests::key;

    #[test]
    fn a_set_is_read_entry_by_entry() {
        let (one, two) = (key(), key());
        let set = String::from_utf8(Jwks::new([one.clone(), two.clone()]).unwrap().to_json()).unwrap();
        assert_eq!(reading(set.as_bytes()).unwrap().keys, [one.clone(), two.clone()]);

        let renamed = set.replace(two.key_id().as_str(), "external-signer-7");
        let read = reading(renamed.as_bytes()).unwrap();
        assert_eq!(read.keys, [one]);
        assert!(read.skipped[0].contains("entry 2") && read.skipped[0].contains(two.key_id().as_str()));

        let unknown = set.replacen(r#""kty":"EC""#, r#""kty":"AKP""#, 1);
        let read = reading(unknown.as_bytes()).unwrap();
        assert_eq!(read.keys, [two]);
        assert!(read.skipped[0].contains(r#"kty "AKP""#), "{:?}", read.skipped);
    }

    #[test]
    fn what_is_no_set_is_a_failure() {
        for body in ["", "<html>", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","kid":"x"}]}"#] {
            assert!(reading(body.as_bytes()).is_err(), "{body}");
        }
    }
}
