//! Where a `chancery issuer` runs: a folder, a serving certificate, two ports, and the configuration that says so.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::authority::{Authority, LOOPBACK, ServerCertificate};
use crate::chancery::IssuerService;
use crate::relying_party::TrustedIssuer;
use crate::s3_server::S3Server;
use crate::scratch::Scratch;
use crate::witness::kids;
use crate::{http, ports, wait};

/// A place for one process. The service itself is started from it, as often as the test likes.
#[derive(Debug)]
pub struct Site {
    dir: Scratch,
    authority: Arc<Authority>,
    certificate: ServerCertificate,
    client: reqwest::Client,
    host: String,
    port: u16,
    admin_port: u16,
    environment: Vec<(String, String)>,
    /// The configuration; JSON is YAML. Written to the file at every start.
    pub config: Value,
}

impl Site {
    /// A site without issuers. It serves over HTTPS on 127.0.0.1, and keeps a state.
    pub fn new() -> Result<Self> {
        Self::named("127.0.0.1")
    }

    /// The same, whose issuer URLs have this host: `127.0.0.1` or `localhost`.
    pub fn named(host: &str) -> Result<Self> {
        let dir = Scratch::new("site")?;
        let authority = Authority::new(dir.path())?;
        let certificate = authority.issue(dir.path(), &LOOPBACK)?;
        let (port, admin_port) = (ports::free()?, ports::free()?);
        std::fs::create_dir(dir.join("state"))?;
        let config = json!({
            "issuers": [],
            "serve": [{
                "listen": format!("127.0.0.1:{port}"),
                "tls": { "certificate": certificate.cert, "privateKey": certificate.key },
            }],
            "admin": { "listen": format!("127.0.0.1:{admin_port}") },
            "state": { "directory": dir.join("state") },
        });
        let client = http::client(Some(authority.pem()))?;
        let (host, authority, environment) = (host.to_owned(), Arc::new(authority), Vec::new());
        Ok(Self { dir, authority, certificate, client, host, port, admin_port, environment, config })
    }

    /// A second site for the same issuers, as behind a load balancer: same names, port and certificate, at
    /// `127.0.0.NUMBER`. It must not outlive this one, whose certificate it uses.
    pub fn replica(&self, number: u8) -> Result<Self> {
        let dir = Scratch::new("replica")?;
        let admin_port = ports::free()?;
        let address = Ipv4Addr::new(127, 0, 0, number);
        let client = http::client_of(self.authority.pem(), &self.host, IpAddr::V4(address))?;
        std::fs::create_dir(dir.join("state"))?;
        let mut config = self.config.clone();
        for (pointer, value) in [
            ("/serve/0/listen", json!(format!("{address}:{}", self.port))),
            ("/admin/listen", json!(format!("127.0.0.1:{admin_port}"))),
            ("/state/directory", json!(dir.join("state"))),
        ] {
            *config.pointer_mut(pointer).with_context(|| format!("a configuration without {pointer}"))? =
                value;
        }
        let (authority, certificate) = (self.authority.clone(), self.certificate.clone());
        let (host, environment) = (self.host.clone(), self.environment.clone());
        Ok(Self {
            dir,
            authority,
            certificate,
            client,
            host,
            port: self.port,
            admin_port,
            environment,
            config,
        })
    }

    /// Adds an issuer at `path` (empty, or with a leading slash) with one `files` source of these paths.
    pub fn add_issuer_of_files(&mut self, path: &str, files: &[&Path], targets: Value) -> Result<()> {
        self.add_issuer(path, json!([{ "files": { "paths": files } }]), targets)
    }

    /// Adds an issuer at `path` (empty, or with a leading slash).
    pub fn add_issuer(&mut self, path: &str, sources: Value, targets: Value) -> Result<()> {
        let issuer = json!({
            "url": self.url(path),
            "sources": sources,
            "targets": targets,
            "verify": { "ca": self.authority.path() },
        });
        let issuers = self.config.get_mut("issuers").and_then(Value::as_array_mut);
        issuers.context("a configuration without issuers")?.push(issuer);
        Ok(())
    }

    /// The URL of the issuer at `path`, which is where this site serves it.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", self.host, self.port)
    }

    /// The public port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the site.
    pub fn dir(&self) -> &Scratch {
        &self.dir
    }

    /// The authority of the serving certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The files of the serving certificate.
    pub fn certificate(&self) -> &ServerCertificate {
        &self.certificate
    }

    /// A client that trusts the serving certificate.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// What a relying party is told of the issuer at `path`.
    pub fn trusted(&self, path: &str, audience: &str) -> TrustedIssuer {
        TrustedIssuer {
            url: self.url(path),
            audiences: vec![audience.to_owned()],
            ca_pem: self.authority.pem().to_owned(),
        }
    }

    /// Gives the service an environment variable.
    pub fn env(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Gives the service the credentials of the owner of `server`, and nothing else of AWS.
    pub fn use_credentials_of(&mut self, server: &S3Server) {
        let (id, secret) = server.root_credentials();
        self.env("AWS_ACCESS_KEY_ID", id);
        self.env("AWS_SECRET_ACCESS_KEY", secret);
        self.env("AWS_EC2_METADATA_DISABLED", "true");
    }

    /// Writes the configuration.
    pub fn write_config(&self) -> Result<PathBuf> {
        self.dir.write("chancery.yaml", serde_json::to_string_pretty(&self.config)?)
    }

    /// Starts the service, and waits for nothing.
    pub fn start(&self) -> Result<IssuerService> {
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        IssuerService::start_with(&self.write_config()?, &environment)
    }

    /// Starts the service, and waits until it says that every issuer is served.
    pub async fn start_ready(&self) -> Result<IssuerService> {
        let mut service = self.start()?;
        let ready = async || self.admin("readyz").await.is_ok_and(|(status, _)| status == 200);
        service.process().ready(wait::SOON, ready).await?;
        Ok(service)
    }

    /// Where a page on the admin port is.
    pub fn admin_url(&self, page: &str) -> String {
        format!("http://127.0.0.1:{}/{page}", self.admin_port)
    }

    /// Status and text of a page on the admin port.
    pub async fn admin(&self, page: &str) -> Result<(u16, String)> {
        let answer = http::client(None)?.get(self.admin_url(page)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// The value of the metric whose name and labels are these, as `/metrics` spells them, in any order of labels.
    /// None when there is no such line.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<Option<f64>> {
        let (status, text) = self.admin("metrics").await?;
        ensure!(status == 200, "/metrics: {status}: {text}");
        let mut matching = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
        });
        let value = matching.next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
        ensure!(matching.next().is_none(), "{name} with {labels:?} is several metrics");
        Ok(value)
    }

    /// The bytes of the document at `path` below `base`, as a relying party reads it.
    pub async fn read(&self, base: &str, path: &str) -> Result<Vec<u8>> {
        let answer = self.client.get(format!("{base}/{path}")).send().await?;
        let status = answer.status();
        ensure!(status == 200, "GET {base}/{path}: {status}");
        Ok(answer.bytes().await?.into())
    }

    /// The key ids in the JWKS below `base`.
    pub async fn kids(&self, base: &str) -> Result<BTreeSet<String>> {
        Ok(kids(&serde_json::from_slice(&self.read(base, "openid/v1/jwks").await?)?))
    }

    /// Waits until the discovery document below `base` can be read, and the JWKS there has exactly `expected`.
    pub async fn shows(&self, base: &str, expected: &[&str]) -> Result<()> {
        let expected: BTreeSet<String> = expected.iter().map(|kid| (*kid).to_owned()).collect();
        wait::until(&format!("{expected:?} at {base}"), async || {
            self.read(base, ".well-known/openid-configuration").await?;
            let kids = self.kids(base).await?;
            ensure!(kids == expected, "there is {kids:?}");
            Ok(true)
        })
        .await
    }
}

/// A target that is a directory, for [`Site::add_issuer`].
pub fn directory_target(path: &Path) -> Value {
    json!({ "to": { "name": "directory", "directory": { "path": path } } })
}

/// A target that is a public bucket behind `endpoint`, which may be a proxy; relying parties read it from `server`.
pub fn bucket_target(server: &S3Server, endpoint: &str, bucket: &str) -> Value {
    json!({
        "to": {
            "name": "bucket",
            "s3": { "bucket": bucket, "region": server.region(), "endpoint": endpoint, "pathStyle": true },
        },
        "publicUrl": format!("{}/{bucket}", server.endpoint()),
    })
}
