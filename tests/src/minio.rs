//! MinIO: an S3 server, and a relying party that gives S3 credentials for a token.

use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_s3::config::Credentials;

use crate::aws_query::{QueryApi, credentials_in};
use crate::process::{Process, READY, mortal};
use crate::relying_party::{Refusal, TrustedIssuer, Verdict};
use crate::s3_server::{ROOT_PASSWORD, ROOT_USER, S3Server};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

/// The shortest life that STS gives a credential.
const SHORTEST_CREDENTIAL: Duration = Duration::from_secs(900);

/// A running MinIO with one folder of data.
#[derive(Debug)]
pub struct Minio {
    server: S3Server,
    role_arn: Option<String>,
    // The process before its folder: fields are dropped in this order.
    process: Process,
    dir: Scratch,
}

impl Minio {
    /// A plain S3 server.
    pub async fn start() -> Result<Self> {
        Self::start_with(None, None).await
    }

    /// A plain S3 server of `region` that also takes requests to `BUCKET.DOMAIN`, as Amazon's names are.
    pub async fn start_as(domain: &str, region: &'static str) -> Result<Self> {
        Self::start_with(None, Some((domain, region))).await
    }

    /// An S3 server that is also a relying party of `issuer`; whoever it accepts may read and write everything.
    ///
    /// It reads discovery once, at its start: the issuer must be up by then. Of the audiences it takes the first.
    pub async fn start_trusting(issuer: &TrustedIssuer) -> Result<Self> {
        let mut minio = Self::start_with(Some(issuer), None).await?;
        // A role without an issuer behind it is not announced: waiting for it proves that discovery was read.
        let log = minio.dir.join("log");
        let announced = || std::fs::read_to_string(&log).ok().as_deref().and_then(role_in);
        minio.process.ready(READY, async || announced().is_some()).await?;
        minio.role_arn = announced();
        Ok(minio)
    }

    async fn start_with(issuer: Option<&TrustedIssuer>, name: Option<(&str, &'static str)>) -> Result<Self> {
        let dir = Scratch::new("minio")?;
        let address = ports::free_address()?;
        let mut command = command(&address, &dir, issuer)?;
        if let Some((domain, region)) = name {
            command.env("MINIO_DOMAIN", domain).env("MINIO_SITE_REGION", region);
        }
        let mut process = Process::start("minio", command, &dir.join("log"))?;
        let server = S3Server::at(format!("http://{address}"));
        let server = if let Some((_, region)) = name { server.of_region(region) } else { server };
        // It calls itself ready and serves objects some time before it knows whom it may give credentials to.
        let sts = sts_of(&server);
        let form = [("Action", "AssumeRole"), ("Version", "2011-06-15")];
        process.ready(READY, async || sts.call(&form).await.is_ok()).await?;
        Ok(Self { server, role_arn: None, process, dir })
    }

    /// The running program, to kill it or to read its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Credentials of the owner's that are limited to `policy`, which is an IAM policy as JSON.
    pub async fn credentials_limited_to(&self, policy: &str) -> Result<Credentials> {
        let form = [("Action", "AssumeRole"), ("Version", "2011-06-15"), ("Policy", policy)];
        credentials_in(&sts_of(self).call(&form).await?)
    }

    /// The role that bearers of the trusted issuer's tokens may assume.
    pub fn role_arn(&self) -> Result<&str> {
        self.role_arn.as_deref().context("this MinIO trusts no issuer")
    }

    /// Exchanges a token for credentials.
    pub async fn assume_role_with_web_identity(&self, token: &str) -> Result<Verdict<Credentials>> {
        let seconds = SHORTEST_CREDENTIAL.as_secs().to_string();
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", self.role_arn()?),
            ("DurationSeconds", &seconds),
            ("WebIdentityToken", token),
        ];
        let answer = http::client(None)?.post(self.endpoint()).form(&form).send().await?;
        let status = answer.status();
        let body = answer.text().await?;
        if !status.is_success() {
            return Ok(Err(Refusal { status: Some(status.as_u16()), reason: body }));
        }
        Ok(Ok(credentials_in(&body)?))
    }
}

impl Deref for Minio {
    type Target = S3Server;

    fn deref(&self) -> &S3Server {
        &self.server
    }
}

/// The service that gives its owner credentials.
fn sts_of(server: &S3Server) -> QueryApi {
    let (id, secret) = server.root_credentials();
    QueryApi {
        endpoint: server.endpoint().to_owned(),
        service: "sts",
        region: server.region(),
        credentials: Credentials::new(id, secret, None, None, "root"),
    }
}

fn command(address: &str, dir: &Scratch, issuer: Option<&TrustedIssuer>) -> Result<Command> {
    let authorities = dir.join("certs").join("CAs");
    std::fs::create_dir_all(&authorities)?;
    let mut command = mortal(&binary::server("minio")?);
    command.arg("server").arg(dir.join("data")).args(["--address", address]);
    command.arg("--certs-dir").arg(dir.join("certs"));
    command.env("MINIO_ROOT_USER", ROOT_USER).env("MINIO_ROOT_PASSWORD", ROOT_PASSWORD);
    // No console (it would take a second port) and no look for updates.
    command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
    if let Some(issuer) = issuer {
        let audience = issuer.audiences.first().context("MinIO needs an audience")?;
        std::fs::write(authorities.join("ca.crt"), &issuer.ca_pem)?;
        let discovery = format!("{}/.well-known/openid-configuration", issuer.url);
        command.env("MINIO_IDENTITY_OPENID_CONFIG_URL_RP", discovery);
        command.env("MINIO_IDENTITY_OPENID_CLIENT_ID_RP", audience);
        command.env("MINIO_IDENTITY_OPENID_ROLE_POLICY_RP", "readwrite");
    }
    Ok(command)
}

/// The role's name in the log ends where its line or its colour does.
fn role_in(log: &str) -> Option<String> {
    let start = log.find("arn:minio:iam:::role/")?;
    let line = log.get(start..)?.lines().next()?;
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !":/-_".contains(c));
    line.get(..end.unwrap_or(line.len())).map(str::to_owned)
}
