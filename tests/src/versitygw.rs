//! versitygw: a second S3 server, written independently of MinIO.

use std::ops::Deref;
use std::process::Command;

use anyhow::Result;

use crate::process::{Process, READY, mortal};
use crate::s3_server::{ROOT_PASSWORD, ROOT_USER, S3Server};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

const HEALTH: &str = "/healthz";

/// A running versitygw with one folder of data.
#[derive(Debug)]
pub struct Versitygw {
    server: S3Server,
    // The process before its folder: fields are dropped in this order.
    process: Process,
    _dir: Scratch,
}

impl Versitygw {
    /// A plain S3 server.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("versitygw")?;
        let address = ports::free_address()?;
        let mut command = command(&address)?;
        // Without `--sidecar`: metadata in extended attributes appear together with the bytes. In a sidecar they are
        // written before, so that a reader may get the new ETag with the old bytes, and undo somebody's write.
        std::fs::create_dir(dir.join("data"))?;
        command.arg("posix").arg(dir.join("data"));
        let mut process = Process::start("versitygw", command, &dir.join("log"))?;
        let endpoint = format!("http://{address}");
        healthy(&mut process, &endpoint).await?;
        Ok(Self { server: S3Server::at(endpoint), process, _dir: dir })
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
