//! What `chancery keygen export` writes, read by those it is written for: kind's own code, and Cluster API's own schema
//! on a real kube-apiserver.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::{binary, chancery, wait};
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example.com/prod";
/// Sorts before the signing one, so that whoever sorts is found out.
const ACCEPTED: [&str; 2] = ["https://a.example.com", "https://kubernetes.default.svc.cluster.local"];

/// The files of an export with two accepted issuers.
async fn export(format: &str) -> Result<Scratch> {
    let dir = Scratch::new("export")?;
    let key = KeyFile::new(&dir, "signing")?;
    let mut arguments = vec!["keygen", "export", "--format", format, "--issuer", ISSUER, "--cluster", "prod"];
    ACCEPTED.iter().for_each(|issuer| arguments.extend(["--accepted-issuer", issuer]));
    let mut arguments: Vec<&Path> = arguments.into_iter().map(Path::new).collect();
    arguments.extend([Path::new("--key"), &key.private, Path::new("--out-dir"), dir.path()]);
    chancery::run(&arguments).await?.success()?;
    Ok(dir)
}

fn yaml(text: &str) -> Result<Value> {
    serde_saphyr::from_str(text).with_context(|| format!("no YAML: {text}"))
}

/// What kind makes of a configuration for a version of Kubernetes: kubeadm's documents by kind, and the node's mounts.
fn kind(configuration: &Path, version: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let output = Command::new(binary::server("kind")?).arg(configuration).arg(version).output()?;
    ensure!(output.status.success(), "kind: {}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let stream = printed.get("kubeadm").and_then(Value::as_str).context("no kubeadm configuration")?;
    let documents = stream.split("---\n").map(yaml).collect::<Result<_>>()?;
    let mounts = printed.get("mounts").and_then(Value::as_array).context("no mounts")?;
    Ok((documents, mounts.clone()))
}

fn document<'a>(documents: &'a [Value], kind: &str) -> Result<&'a Value> {
    documents.iter().find(|document| document["kind"] == kind).with_context(|| format!("no {kind}"))
}

/// The values of a flag among kubeadm's `extraArgs`, a list in v1beta4 and a mapping before.
fn values<'a>(arguments: &'a Value, flag: &str) -> Vec<&'a str> {
    match arguments {
        Value::Array(list) => list
            .iter()
            .filter(|entry| entry["name"] == flag)
            .filter_map(|entry| entry["value"].as_str())
            .collect(),
        other => other[flag].as_str().into_iter().collect(),
    }
}

/// The issuers that a kubeadm patch of the static pod appends, in order.
fn appended_issuers(patch: &str) -> Result<Vec<String>> {
    let operations = yaml(patch)?;
    let operations = operations.as_array().context("no list of operations")?;
    operations
        .iter()
        .map(|operation| {
            let (op, path) = (&operation["op"], &operation["path"]);
            ensure!(*op == "add" && *path == "/spec/containers/0/command/-", "{operation}");
            let issuer =
                operation["value"].as_str().and_then(|flag| flag.strip_prefix("--service-account-issuer="));
            Ok(issuer.with_context(|| format!("no issuer: {operation}"))?.to_owned())
        })
        .collect()
}

#[tokio::test]
async fn kind_signs_as_the_issuer_and_accepts_the_others_with_every_version() -> Result<()> {
    if binary::skipped(&["kind"]) {
        return Ok(());
    }
    let files = export("kind").await?;
    // kubeadm v1beta4, and twice v1beta3.
    for version in ["v1.36.1", "v1.35.0", "v1.31.0"] {
        let (documents, mounts) = kind(&files.join("kind-cluster.yaml"), version)?;
        let arguments = &document(&documents, "ClusterConfiguration")?["apiServer"]["extraArgs"];
        assert_eq!(values(arguments, "service-account-issuer"), [ISSUER], "{version}");
        assert_eq!(
            values(arguments, "service-account-jwks-uri"),
            [format!("{ISSUER}/openid/v1/jwks")],
            "{version}"
        );
        for configuration in ["InitConfiguration", "JoinConfiguration"] {
            let directory = &document(&documents, configuration)?["patches"]["directory"];
            let mounted = |mount: &&Value| mount["container"] == *directory;
            let mount = mounts
                .iter()
                .find(mounted)
                .with_context(|| format!("{version} {configuration}: no patches"))?;
            let folder = mount["host"].as_str().context("a mount of nothing")?;
            let entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
            let [patch] = entries.as_slice() else { panic!("{entries:?}") };
            assert_eq!(patch.file_name(), "kube-apiserver0accepted-issuers+json.yaml");
            assert_eq!(appended_issuers(&std::fs::read_to_string(patch.path())?)?, ACCEPTED);
        }
        for file in ["sa.key", "sa.pub"] {
            let mounted = |mount: &Value| mount["container"] == format!("/etc/kubernetes/pki/{file}");
            let mount = mounts
                .iter()
                .find(|mount| mounted(mount))
                .with_context(|| format!("{file} is not mounted"))?;
            assert_eq!(mount["host"], json!(files.join(file)));
        }
    }
    Ok(())
}

/// Why the accepted issuers are no flags there: if kind ever keeps both, the patch may go.
#[tokio::test]
async fn kind_keeps_the_last_of_two_flags_of_one_name() -> Result<()> {
    if binary::skipped(&["kind"]) {
        return Ok(());
    }
    let dir = Scratch::new("kind")?;
    let configuration = dir.write(
        "kind.yaml",
        "kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: prod
kubeadmConfigPatches:
- |
  apiVersion: kubeadm.k8s.io/v1beta4
  kind: ClusterConfiguration
  apiServer:
    extraArgs: [{name: service-account-issuer, value: one}, {name: service-account-issuer, value: two}]
",
    )?;
    let (documents, _) = kind(&configuration, "v1.36.1")?;
    let arguments = &document(&documents, "ClusterConfiguration")?["apiServer"]["extraArgs"];
    assert_eq!(values(arguments, "service-account-issuer"), ["two"]);
    Ok(())
}

const CONTROL_PLANES: &str =
    "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmcontrolplanes";

/// A KubeadmControlPlane that has what its schema demands, with the spec of an exported patch.
fn control_plane(name: &str, patch: &Value) -> Value {
    let mut object = patch.clone();
    object["metadata"] = json!({ "name": name, "namespace": "default" });
    object["spec"]["version"] = json!("v1.36.1");
    object["spec"]["machineTemplate"] = json!({ "spec": { "infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate", "name": "prod",
    } } });
    object
}

async fn management_cluster() -> Result<(KubeApiserver, Scratch)> {
    let keys = Scratch::new("keys")?;
    let key = KeyFile::new(&keys, "sa")?;
    let cluster = Cluster::new(Etcd::shared().await?.url(), "https://management.example", &key.private)?;
    let server = KubeApiserver::start(&cluster).await?;
    let crd = yaml(&std::fs::read_to_string(binary::server("cluster-api")?)?)?;
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
    let served = async || server.get_raw(CONTROL_PLANES).await.map(|_| true);
    wait::until("KubeadmControlPlanes to be served", served).await?;
    Ok((server, keys))
}

#[tokio::test]
async fn cluster_api_takes_the_control_plane_and_the_secret_as_they_are_exported() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "cluster-api"]) {
        return Ok(());
    }
    let (server, _keys) = management_cluster().await?;
    let files = export("capi-secret").await?;
    let patch = yaml(&std::fs::read_to_string(files.join("kubeadm-control-plane-patch.yaml"))?)?;
    let strict = |path: &str| format!("{path}?fieldValidation=Strict");
    let admin = server.admin_token();

    let (status, answer) =
        server.post(&strict(CONTROL_PLANES), admin, &control_plane("prod", &patch)).await?;
    assert_eq!(status, 201, "{answer}");
    let kept = &answer["spec"]["kubeadmConfigSpec"];
    assert_eq!(
        values(&kept["clusterConfiguration"]["apiServer"]["extraArgs"], "service-account-issuer"),
        [ISSUER]
    );
    let content = kept["files"][0]["content"].as_str().context("no file")?;
    assert_eq!(appended_issuers(content)?, ACCEPTED);
    let folder =
        kept["initConfiguration"]["patches"]["directory"].as_str().context("no folder of patches")?;
    assert_eq!(kept["joinConfiguration"]["patches"]["directory"], folder);
    assert_eq!(kept["files"][0]["path"], format!("{folder}/kube-apiserver0accepted-issuers+json.yaml"));

    let secret = yaml(&std::fs::read_to_string(files.join("prod-sa.yaml"))?)?;
    let (status, answer) = server.post(&strict("/api/v1/namespaces/default/secrets"), admin, &secret).await?;
    assert_eq!(status, 201, "{answer}");

    // What was exported before is refused, so the schema is at work; so is a field that does not exist.
    let mut twice = control_plane("twice", &patch);
    let flag = |value: &str| json!({ "name": "service-account-issuer", "value": value });
    twice["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"] =
        json!([flag("https://one.example"), flag("https://two.example")]);
    let (status, answer) = server.post(&strict(CONTROL_PLANES), admin, &twice).await?;
    assert_eq!(status, 422, "{answer}");
    let mut misspelt = control_plane("misspelt", &patch);
    misspelt["spec"]["kubeadmConfigSpec"]["patchez"] = json!({});
    let (status, answer) = server.post(&strict(CONTROL_PLANES), admin, &misspelt).await?;
    assert_eq!(status, 400, "{answer}");
    Ok(())
}
