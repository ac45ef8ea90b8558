//! kube-apiserver: one replica of a control plane, and its API as the tests use it.
//!
//! There is no controller manager beside it: no ServiceAccount appears by itself, and nothing is garbage-collected.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::process::{Process, READY, mortal};
use crate::relying_party::{Refusal, Verdict};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

const ADMIN_TOKEN: &str = "admintoken";

/// A running kube-apiserver.
#[derive(Debug)]
pub struct KubeApiserver {
    port: u16,
    url: String,
    // Kept for its files, which the server reads while it runs.
    cluster: Cluster,
    client: reqwest::Client,
    // The process before its folder: fields are dropped in this order.
    process: Process,
    dir: Scratch,
}

impl KubeApiserver {
    /// Starts one replica of `cluster` on a free port, and returns when it is ready to serve.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_on(ports::free()?, cluster).await
    }

    /// The same on a given port: that of a replica which has ended, or one that the issuer URL names.
    pub async fn start_on(port: u16, cluster: &Cluster) -> Result<Self> {
        let dir = Scratch::new("kube-apiserver")?;
        let process = Process::start("kube-apiserver", command(cluster, &dir, port)?, &dir.join("log"))?;
        let mut server = Self {
            port,
            url: format!("https://127.0.0.1:{port}"),
            cluster: cluster.clone(),
            client: http::client(Some(cluster.authority().pem()))?,
            process,
            dir,
        };
        let ready = format!("{}/readyz", server.url);
        let client = server.client.clone();
        server
            .process
            .ready(READY, async || {
                let probe = client.get(&ready).bearer_auth(ADMIN_TOKEN).send().await;
                probe.is_ok_and(|answer| answer.status().is_success())
            })
            .await?;
        Ok(server)
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port, on which [`start_on`](Self::start_on) can start a successor after this one was killed.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The description that it was started from.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The CA of the API server's certificate. Replicas of one cluster share it.
    pub fn ca_pem(&self) -> &str {
        self.cluster.authority().pem()
    }

    /// The file that holds [`ca_pem`](Self::ca_pem); it lives as long as this server, or the
    /// cluster's description.
    pub fn ca_path(&self) -> &Path {
        self.cluster.authority().path()
    }

    /// A bearer token of the group `system:masters`.
    pub fn admin_token(&self) -> &'static str {
        ADMIN_TOKEN
    }

    /// The running program, to kill it or to read its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// A client with the rights of an administrator.
    pub async fn kube_client(&self) -> Result<kube::Client> {
        let content = self.kubeconfig_content(ADMIN_TOKEN).to_string();
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&content)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Writes an administrator's kubeconfig to `path`.
    pub fn kubeconfig(&self, path: &Path) -> Result<()> {
        self.kubeconfig_with(ADMIN_TOKEN, path)
    }

    /// Writes the kubeconfig of whoever has this bearer token to `path`.
    pub fn kubeconfig_with(&self, token: &str, path: &Path) -> Result<()> {
        std::fs::write(path, self.kubeconfig_content(token).to_string())
            .with_context(|| format!("write {}", path.display()))
    }

    /// The server's own folder, with its `log`.
    pub fn dir(&self) -> &Scratch {
        &self.dir
    }

    fn kubeconfig_content(&self, token: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "admin" } }],
            "clusters": [{
                "name": "e2e",
                "cluster": { "server": self.url, "certificate-authority": self.ca_path() },
            }],
            "users": [{ "name": "admin", "user": { "token": token } }],
        })
    }

    /// The bytes that it serves at `path` to an administrator. Any status but 200 is an error.
    pub async fn get_raw(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.client.get(self.address(path)).bearer_auth(ADMIN_TOKEN).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        ensure!(status == StatusCode::OK, "GET {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body.into())
    }

    /// Makes a ServiceAccount, and its namespace when there is none. Either may exist already.
    pub async fn create_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let metadata = |name: &str| json!({ "metadata": { "name": name } });
        self.create("/api/v1/namespaces", &metadata(namespace)).await?;
        self.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &metadata(name)).await
    }

    /// Asks for a token of a ServiceAccount through TokenRequest, for one audience. kube-apiserver refuses a life
    /// of less than 600 seconds.
    pub async fn token_request(
        &self,
        (namespace, name): (&str, &str),
        audience: &str,
        seconds: u64,
    ) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let spec = json!({ "spec": { "audiences": [audience], "expirationSeconds": seconds } });
        let (status, answer) = self.post(&path, ADMIN_TOKEN, &spec).await?;
        ensure!(status == StatusCode::CREATED, "POST {path}: {status}: {answer}");
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        Ok(token.context("a TokenRequest without a token")?.to_owned())
    }

    /// Has the API server look at a token as it does for webhooks and for itself: the user of one that it accepts, for its
    /// own audiences or for those that are given.
    pub async fn token_review(&self, token: &str, audiences: &[&str]) -> Result<Verdict> {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = json!({ "spec": { "token": token, "audiences": audiences } });
        let (status, answer) = self.post(path, ADMIN_TOKEN, &review).await?;
        ensure!(status == StatusCode::CREATED, "POST {path}: {status}: {answer}");
        if answer.pointer("/status/authenticated") != Some(&Value::Bool(true)) {
            let reason = answer.pointer("/status/error").unwrap_or(&Value::Null).to_string();
            return Ok(Err(Refusal { status: None, reason }));
        }
        let user = answer.pointer("/status/user/username").and_then(Value::as_str);
        Ok(Ok(user.context("a TokenReview without a user")?.to_owned()))
    }

    /// The sum of the samples of one of its metrics.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let page = String::from_utf8(self.get_raw("/metrics").await?)?;
        let samples = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
        });
        let values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(values.sum())
    }

    /// Shows a token to this server as a relying party, which answers with the user that it takes the bearer for.
    pub async fn self_subject_review(&self, token: &str) -> Result<Verdict> {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (status, answer) = self.post(path, token, &json!({})).await?;
        if status != StatusCode::CREATED {
            return Ok(Err(Refusal { status: Some(status.as_u16()), reason: answer.to_string() }));
        }
        let user = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
        Ok(Ok(user.context("a SelfSubjectReview without a user")?.to_owned()))
    }

    /// The same, asked again until the token is accepted or `deadline` has passed; the last answer.
    ///
    /// A server refuses every token of a trusted issuer until it has read that issuer's discovery document, which
    /// it does beside its start (being ready does not wait for it) and, when that fails, again after ten seconds.
    pub async fn self_subject_review_within(&self, deadline: Duration, token: &str) -> Result<Verdict> {
        let started = Instant::now();
        loop {
            let verdict = self.self_subject_review(token).await?;
            if verdict.is_ok() || started.elapsed() > deadline {
                return Ok(verdict);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Creates an object from its JSON; one that exists already is left as it is.
    pub async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let (status, answer) = self.post(path, ADMIN_TOKEN, object).await?;
        let made = [StatusCode::CREATED, StatusCode::CONFLICT].contains(&status);
        ensure!(made, "POST {path}: {status}: {answer}");
        Ok(())
    }

    /// A POST with the bearer token `token`, answered in JSON (or in text, as a JSON string).
    pub async fn post(&self, path: &str, token: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let answer = self.client.post(self.address(path)).bearer_auth(token).json(body).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

fn command(cluster: &Cluster, dir: &Scratch, port: u16) -> Result<Command> {
    let tokens = dir.write("tokens.csv", format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"))?;
    let mut command = mortal(&binary::server(cluster.program())?);
    // Its heap is small while it starts, so that a third of that work would be collecting garbage.
    command.env("GOGC", "400");
    command.args(cluster.arguments(dir)?);
    command.arg(format!("--secure-port={port}"));
    command.arg(format!("--token-auth-file={}", tokens.display()));
    command.arg(format!("--cert-dir={}", dir.join("certs").display()));
    command.args([
        "--bind-address=127.0.0.1",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        // It would refuse pods without a ServiceAccount, which only a controller manager makes.
        "--disable-admission-plugins=ServiceAccount",
    ]);
    Ok(command)
}
