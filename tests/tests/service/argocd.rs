//! Logins of Argo CD's repositories: Secrets and ServiceAccounts of a real cluster, and a resolver that has the Role of
//! docs/exchange.md and no other right.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::API_AUDIENCE;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::{Process, READY, mortal};
use e2e::scratch::Scratch;
use e2e::{binary, ports, token};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const NAMESPACE: &str = "argocd";

/// The Role, for two repositories and one project.
async fn grant(cluster: &KubeApiserver) -> Result<()> {
    let account = "argocd-project-production";
    let below = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
    let rules = json!([
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["zot", "plain"], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [account], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account], "verbs": ["create"] },
    ]);
    let role = json!({ "metadata": { "name": "resolver" }, "rules": rules });
    cluster.create(&format!("{below}/roles"), &role).await?;
    let binding = json!({
        "metadata": { "name": "resolver" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "resolver" },
        "subjects": [{ "kind": "ServiceAccount", "name": "resolver", "namespace": NAMESPACE }],
    });
    cluster.create(&format!("{below}/rolebindings"), &binding).await
}

async fn repository(cluster: &KubeApiserver, name: &str, fields: &Value) -> Result<()> {
    let labels = json!({ "argocd.argoproj.io/secret-type": "repository" });
    let secret = json!({ "metadata": { "name": name, "labels": labels }, "stringData": fields });
    cluster.create(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret).await
}

async fn ask(socket: &Path, name: &str) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).await?;
    let head =
        format!("GET /v1/repositories/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok(serde_json::from_str(body)?)
}

/// A project's repository is logged in to with a token of the project's ServiceAccount; one without a provider is as it
/// was; what the Role does not name is had by nobody.
pub async fn repositories_of_argo_cd_log_in_by_their_projects(
    cluster: &KubeApiserver,
    dir: &Scratch,
) -> Result<()> {
    for name in ["resolver", "argocd-project-production"] {
        cluster.create_service_account(NAMESPACE, name).await?;
    }
    grant(cluster).await?;
    let of = |project: &str| {
        json!({
            "type": "helm", "url": "oci://zot.example/charts", "project": project,
            "workloadIdentityProvider": "k8s", "workloadIdentityAuthenticator": "passthrough",
            "workloadIdentityAudience": "zot.example",
        })
    };
    repository(cluster, "zot", &of("production")).await?;
    repository(cluster, "other", &of("production")).await?;
    repository(cluster, "plain", &json!({ "url": "https://charts.example", "password": "p" })).await?;
    let kubeconfig = dir.join("argocd.kubeconfig");
    let token = cluster.token_request((NAMESPACE, "resolver"), API_AUDIENCE, 3600).await?;
    cluster.kubeconfig_with(&token, &kubeconfig)?;
    let socket = dir.join("argocd.sock");
    let mut command = mortal(&binary::chancery()?);
    command.args(["exchange", "argocd", "--socket"]).arg(&socket).arg("--kubeconfig").arg(&kubeconfig);
    let admin = ports::free_address()?;
    command.args(["--admin-listen", &admin]);
    let mut resolver = Process::start("chancery exchange argocd", command, &dir.join("argocd.log"))?;
    resolver.ready(READY, async || UnixStream::connect(&socket).await.is_ok()).await?;

    let given = ask(&socket, "zot").await?;
    let password = given.get("password").and_then(Value::as_str).with_context(|| given.to_string())?;
    let claims = token::claims(password)?;
    let subject = json!("system:serviceaccount:argocd:argocd-project-production");
    ensure!(claims.get("sub") == Some(&subject), "{claims}");
    ensure!(claims.get("aud") == Some(&json!(["zot.example"])), "{claims}");
    ensure!(ask(&socket, "plain").await? == json!({ "credentials": "static" }));
    let refused = ask(&socket, "other").await?;
    ensure!(refused.get("code") == Some(&json!("cluster-forbidden")), "{refused}");
    ensure!(!resolver.log().contains(password), "{}", resolver.log());
    ask(&socket, "zot").await?;
    let page = reqwest::get(format!("http://{admin}/metrics")).await?.text().await?;
    let of = |name: &str| format!(r#"{{kind="Secret",namespace="argocd",name="{name}",operation="login""#);
    for line in [
        format!("chancery_exchange_cache_misses_total{}}} 1", of("zot")),
        format!("chancery_exchange_cache_hits_total{}}} 1", of("zot")),
        format!(
            r#"chancery_exchange_failures_total{},class="permanent",code="cluster-forbidden"}} 1"#,
            of("other")
        ),
    ] {
        ensure!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    ensure!(!page.contains(password), "{page}");
    Ok(())
}
