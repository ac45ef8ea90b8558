//! fake-gcs-server: a server that speaks the JSON API of Google Cloud Storage. It asks nobody who he is.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::process::{Process, READY, mortal};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

/// A running fake-gcs-server that keeps its objects in memory.
#[derive(Debug)]
pub struct FakeGcs {
    endpoint: String,
    client: reqwest::Client,
    // The process before its folder: fields are dropped in this order.
    _process: Process,
    _dir: Scratch,
}

impl FakeGcs {
    /// A server without buckets.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("fake-gcs-server")?;
        let port = ports::free()?;
        let address = format!("127.0.0.1:{port}");
        let endpoint = format!("http://{address}");
        let mut command = mortal(&binary::server("fake-gcs-server")?);
        command.args(["-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string()]);
        command.args(["-backend", "memory", "-external-url", &endpoint, "-public-host", &address]);
        let mut process = Process::start("fake-gcs-server", command, &dir.join("log"))?;
        let client = http::client(None)?;
        let buckets = format!("{endpoint}/storage/v1/b?project=p");
        process
            .ready(READY, async || {
                client.get(&buckets).send().await.is_ok_and(|answer| answer.status().is_success())
            })
            .await?;
        Ok(Self { endpoint, client, _process: process, _dir: dir })
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Makes a bucket.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let url = format!("{}/storage/v1/b?project=p", self.endpoint);
        let made = self.client.post(url).json(&json!({ "name": name })).send().await?;
        ensure!(made.status().is_success(), "the bucket {name} was not made: {}", made.status());
        Ok(())
    }

    /// Where anyone reads an object, as `https://storage.googleapis.com/BUCKET/KEY` is in the cloud.
    pub fn object_url(&self, bucket: &str, key: &str) -> String {
        format!("{}/{bucket}/{key}", self.endpoint)
    }

    /// Reads an object.
    pub async fn read_object(&self, bucket: &str, key: &str) -> Result<Vec<u8>> {
        let got = self.client.get(self.object_url(bucket, key)).send().await?;
        let got = got.error_for_status().with_context(|| format!("read {bucket}/{key}"))?;
        Ok(got.bytes().await?.to_vec())
    }
}
