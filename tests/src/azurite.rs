//! Azurite: the Azure Blob Storage of the suites.
//!
//! It stands for the real one in conditions, ETags, metadata, headers and shared access signatures. It differs where the
//! suites must not rely on it: it knows no roles (a bearer token opens everything, its signature unchecked), it serves
//! no static website, it has no rule that forbids anonymous reading of a whole account, it answers 403 where Azure
//! hides a private container behind 404, and in a public container it reads for everybody, whatever they sign with.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::authority::{Authority, LOOPBACK};
use crate::process::{Process, READY, mortal};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

const ACCOUNT: &str = "oidctest";
const KEY: [u8; 32] = [7; 32];
/// The version of the protocol that the signatures of this module are made for.
const SIGNED_VERSION: &str = "2020-12-06";
const EXPIRY: &str = "2099-01-01T00:00:00Z";

/// A running Azurite that keeps everything in memory, with one account.
#[derive(Debug)]
pub struct Azurite {
    endpoint: String,
    client: reqwest::Client,
    // The process before its folder: fields are dropped in this order.
    _process: Process,
    _dir: Scratch,
}

/// How long a signature opens something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// For the rest of this century.
    Lasting,
    /// It has been over for years.
    Expired,
}

impl Azurite {
    /// Over HTTP, which takes shared access signatures.
    pub async fn start() -> Result<Self> {
        Self::start_with(None).await
    }

    /// Over HTTPS, which takes Entra tokens too.
    pub async fn start_with_tls(authority: &Authority) -> Result<Self> {
        Self::start_with(Some(authority)).await
    }

    async fn start_with(authority: Option<&Authority>) -> Result<Self> {
        let dir = Scratch::new("azurite")?;
        let port = ports::free()?;
        let command = command(port, dir.path(), authority)?;
        let mut process = Process::start("azurite", command, &dir.join("log"))?;
        let scheme = if authority.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{port}/{ACCOUNT}");
        // Tests share a server, and each has a runtime of its own: no connection may outlive the request.
        let client = http::builder(authority.map(Authority::pem))?.pool_max_idle_per_host(0).build()?;
        // Any answer will do: the first one is a refusal.
        process.ready(READY, async || client.get(&endpoint).send().await.is_ok()).await?;
        Ok(Self { endpoint, client, _process: process, _dir: dir })
    }

    /// The blob endpoint, `http://127.0.0.1:PORT/ACCOUNT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The same without the account: what a proxy stands before.
    pub fn origin(&self) -> &str {
        self.endpoint.strip_suffix(&format!("/{ACCOUNT}")).unwrap_or(&self.endpoint)
    }

    /// The account, which is the first part of each path.
    pub fn account(&self) -> &'static str {
        ACCOUNT
    }

    /// A client that trusts the server.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Makes a container that nobody reads without credentials.
    pub async fn create_container(&self, name: &str) -> Result<()> {
        self.create(name, self.client.put(self.owned(name, "restype=container&"))).await
    }

    /// Makes a container whose blobs anyone may read (but not list), as an issuer's is.
    pub async fn create_public_container(&self, name: &str) -> Result<()> {
        let request = self.client.put(self.owned(name, "restype=container&"));
        self.create(name, request.header("x-ms-blob-public-access", "blob")).await
    }

    async fn create(&self, name: &str, request: reqwest::RequestBuilder) -> Result<()> {
        let answer = request.header("x-ms-version", SIGNED_VERSION).send().await?;
        let status = answer.status();
        ensure!(status == 201, "make the container {name}: {status} {}", answer.text().await?);
        Ok(())
    }

    /// A shared access signature for a container with some of the rights `r`, `c` and `w`.
    pub fn sas(&self, container: &str, rights: &str) -> String {
        self.sas_of(container, rights, Validity::Lasting)
    }

    /// The same, which may have expired.
    pub fn sas_of(&self, container: &str, rights: &str, validity: Validity) -> String {
        let expiry = if validity == Validity::Expired { "2020-01-01T00:00:00Z" } else { EXPIRY };
        let resource = format!("/blob/{ACCOUNT}/{container}");
        // Start, identifier and address range are not used, nor snapshot, encryption scope and the five headers.
        let fields = [rights, "", expiry, &resource, "", "", "https,http", SIGNED_VERSION, "c"];
        let text = [&fields[..], &[""; 7]].concat().join("\n");
        query(&[("sr", "c"), ("sp", rights), ("se", expiry)], &text)
    }

    /// Where anyone reads a blob of a public container.
    pub fn blob_url(&self, container: &str, path: &str) -> String {
        format!("{}/{container}/{path}", self.endpoint)
    }

    /// Writes a blob as the owner, without a condition.
    pub async fn put_blob(&self, container: &str, path: &str, body: &[u8]) -> Result<()> {
        let request = self.client.put(self.owned(&format!("{container}/{path}"), ""));
        let request = request.header("x-ms-version", SIGNED_VERSION).header("x-ms-blob-type", "BlockBlob");
        let answer = request.body(body.to_vec()).send().await?;
        let status = answer.status();
        ensure!(status == 201, "write {container}/{path}: {status} {}", answer.text().await?);
        Ok(())
    }

    /// Reads a blob as the owner.
    pub async fn read_blob(&self, container: &str, path: &str) -> Result<Vec<u8>> {
        let answer = self.client.get(self.owned(&format!("{container}/{path}"), "")).send().await?;
        let status = answer.status();
        ensure!(status == 200, "read {container}/{path}: {status}");
        Ok(answer.bytes().await?.into())
    }

    /// A URL with the owner's signature.
    fn owned(&self, path: &str, query_before: &str) -> String {
        let fields = [ACCOUNT, "rwdlac", "b", "sco", "", EXPIRY, "", "https,http", SIGNED_VERSION, "", ""];
        let signed = [("ss", "b"), ("srt", "sco"), ("sp", "rwdlac"), ("se", EXPIRY)];
        format!("{}/{path}?{query_before}{}", self.endpoint, query(&signed, &fields.join("\n")))
    }
}

/// The fields of a signature with the signature of `text`.
fn query(fields: &[(&str, &str)], text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &KEY);
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let fields = fields.iter().map(|(name, value)| format!("&{name}={value}")).collect::<String>();
    format!("sv={SIGNED_VERSION}&spr=https,http{fields}&sig={signature}")
}

fn command(port: u16, dir: &Path, authority: Option<&Authority>) -> Result<Command> {
    let mut command = mortal(&binary::server("azurite")?);
    command.args(["--inMemoryPersistence", "--disableTelemetry", "--disableProductStyleUrl", "--silent"]);
    command.arg("--blobPort").arg(port.to_string()).current_dir(dir);
    command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{}", STANDARD.encode(KEY)));
    if let Some(authority) = authority {
        let certificate = authority.issue(dir, &LOOPBACK)?;
        command.args(["--oauth", "basic", "--cert"]).arg(certificate.cert);
        command.arg("--key").arg(certificate.key);
    }
    Ok(command)
}
