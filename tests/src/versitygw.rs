//! versitygw: a second S3 server, written independently of MinIO.

use std::ffi::OsStr;
use std::ops::Deref;
use std::process::Command;

use anyhow::{Context, Result};
use aws_sdk_s3::config::Credentials;

use crate::aws_query::{QueryApi, credentials_in};
use crate::process::{Process, READY, mortal};
use crate::s3_server::{ROOT_PASSWORD, ROOT_USER, S3Server};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

const HEALTH: &str = "/healthz";

/// A running versitygw with one folder of data.
#[derive(Debug)]
pub struct Versitygw {
    server: S3Server,
    // The processes before their folder: fields are dropped in this order.
    process: Process,
    iam: Option<Iam>,
    _dir: Scratch,
}

/// The IAM service beside it: users, policies, OIDC providers, as AWS's own.
#[derive(Debug)]
struct Iam {
    endpoint: String,
    _process: Process,
}

impl Versitygw {
    /// A plain S3 server.
    pub async fn start() -> Result<Self> {
        Self::start_in(Scratch::new("versitygw")?, None, &[]).await
    }

    /// An S3 server with users and policies, which are kept by an IAM service of its own.
    pub async fn start_with_iam() -> Result<Self> {
        let dir = Scratch::new("versitygw")?;
        let (address, socket) = (ports::free_address()?, dir.join("iam.sock"));
        std::fs::create_dir(dir.join("iam"))?;
        let mut command = command(&address)?;
        command.arg("iam").arg("--dir").arg(dir.join("iam")).arg("--private-ports").arg(&socket);
        let mut process = Process::start("versitygw iam", command, &dir.join("iam.log"))?;
        let endpoint = format!("http://{address}");
        healthy(&mut process, &endpoint).await?;
        let iam = Iam { endpoint, _process: process };
        Self::start_in(dir, Some(iam), &["--iam-standalone-endpoint".as_ref(), socket.as_os_str()]).await
    }

    async fn start_in(dir: Scratch, iam: Option<Iam>, options: &[&OsStr]) -> Result<Self> {
        let address = ports::free_address()?;
        let mut command = command(&address)?;
        // Without `--sidecar`: metadata in extended attributes appear together with the bytes. In a sidecar they are
        // written before, so that a reader may get the new ETag with the old bytes, and undo somebody's write.
        std::fs::create_dir(dir.join("data"))?;
        command.args(options).arg("posix").arg(dir.join("data"));
        let mut process = Process::start("versitygw", command, &dir.join("log"))?;
        let endpoint = format!("http://{address}");
        healthy(&mut process, &endpoint).await?;
        Ok(Self { server: S3Server::at(endpoint), process, iam, _dir: dir })
    }

    /// The IAM service, called by the owner. None in a plain server.
    pub fn iam(&self) -> Result<QueryApi> {
        let iam = self.iam.as_ref().context("this versitygw has no IAM service")?;
        let (id, secret) = self.root_credentials();
        Ok(QueryApi {
            endpoint: iam.endpoint.clone(),
            service: "iam",
            region: self.region(),
            credentials: Credentials::new(id, secret, None, None, "root"),
        })
    }

    /// Credentials of a new user whose only policy is `policy`, which is an IAM policy as JSON.
    pub async fn credentials_limited_to(&self, user: &str, policy: &str) -> Result<Credentials> {
        let iam = self.iam()?;
        let call = async |action, more: &[(&'static str, &str)]| {
            let mut form = vec![("Action", action), ("Version", "2010-05-08"), ("UserName", user)];
            form.extend_from_slice(more);
            iam.call(&form).await
        };
        call("CreateUser", &[]).await?;
        call("PutUserPolicy", &[("PolicyName", "only"), ("PolicyDocument", policy)]).await?;
        credentials_in(&call("CreateAccessKey", &[]).await?)
    }

    /// The running program, to kill it or to read its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Deref for Versitygw {
    type Target = S3Server;

    fn deref(&self) -> &S3Server {
        &self.server
    }
}

fn command(address: &str) -> Result<Command> {
    let mut command = mortal(&binary::server("versitygw")?);
    command.env("ROOT_ACCESS_KEY", ROOT_USER).env("ROOT_SECRET_KEY", ROOT_PASSWORD);
    command.args(["--port", address, "--health", HEALTH]);
    Ok(command)
}

async fn healthy(process: &mut Process, endpoint: &str) -> Result<()> {
    let client = http::client(None)?;
    let probe = async || {
        client
            .get(format!("{endpoint}{HEALTH}"))
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
    };
    process.ready(READY, probe).await
}
