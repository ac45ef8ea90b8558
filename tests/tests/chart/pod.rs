//! A process in the place of a pod, started as kubelet would start it: with the arguments, the environment and the files of
//! the rendered pod, and nothing else of ours. Only the image is missing: the program and the system's libraries lie in the
//! root in its place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::cluster::API_AUDIENCE;
use e2e::process::{Process, mortal};
use e2e::scratch::Scratch;
use e2e::{binary, http};
use serde_json::Value;

use crate::cluster::Stage;

/// Where a pod finds the token of its ServiceAccount.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
/// What of this machine a dynamically linked program needs.
const SYSTEM: [&str; 8] = ["bin", "dev", "etc/ssl", "lib", "lib64", "nix", "proc", "usr"];
const NAMES: [&str; 3] = ["etc/hosts", "etc/nsswitch.conf", "etc/resolv.conf"];

/// In namespaces of its own: mounts each pair of paths, then becomes the program.
const START: &str = r#"set -e
root=$1
shift
while [ "$1" != -- ]; do
  mount --rbind "$1" "$root/$2"
  shift 2
done
shift
exec setpriv --pdeathsig KILL -- chroot "$root" "$@""#;

/// The node on which all of them are.
pub const NODE: &str = "control-plane-1";

/// A running one. Killed on drop.
pub struct Pod {
    pub process: Process,
    admin: u16,
    client: reqwest::Client,
    root: Scratch,
}

impl Pod {
    /// Starts the pod that a workload of the release makes.
    pub async fn start(stage: &Stage, workload: &Value) -> Result<Self> {
        let namespace = workload["metadata"]["namespace"].as_str().context("no namespace")?;
        let spec = &workload["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        let root = Scratch::new("pod")?;
        let mut mounts = system(&root)?;
        fs::write(root.join("chancery"), "")?;
        mounts.push((binary::chancery()?, "chancery".to_owned()));
        if spec["automountServiceAccountToken"] != Value::Bool(false) {
            let account = spec["serviceAccountName"].as_str().context("no account")?;
            service_account(stage, &root, (namespace, account)).await?;
        }
        for mount in list(&container["volumeMounts"]) {
            let volume = list(&spec["volumes"]).iter().find(|it| it["name"] == mount["name"]);
            let files = files_of(stage, namespace, volume.context("a mount of no volume")?).await?;
            let folder = root.join(mount["mountPath"].as_str().context("no path")?.trim_start_matches('/'));
            fs::create_dir_all(&folder)?;
            for (name, content) in files {
                fs::write(folder.join(name), content)?;
            }
        }
        let mut command = mortal(Path::new("unshare"));
        command.args(["--map-root-user", "--mount", "--", "sh", "-c", START, "sh"]).arg(root.path());
        for (from, to) in &mounts {
            command.arg(from).arg(to);
        }
        command.args(["--", "/chancery"]).args(arguments(container));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        command.env("KUBERNETES_SERVICE_PORT", stage.server.port().to_string());
        command.envs(variables(container));
        let mut ports = list(&container["ports"]).iter().filter(|port| port["name"] == "admin");
        let admin = ports.find_map(|port| port["containerPort"].as_u64()).context("no admin port")?;
        let process = Process::start("pod", command, &root.join("log"))?;
        Ok(Self { process, admin: admin.try_into()?, client: http::client(None)?, root })
    }

    /// A path of the pod as this machine sees it: of its image's root, or of its node.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Status and text of a page of its admin port.
    pub async fn page(&self, path: &str) -> Result<(u16, String)> {
        let answer = self.client.get(format!("http://127.0.0.1:{}/{path}", self.admin)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Its environment, with what the node alone knows.
fn variables(container: &Value) -> Vec<(&str, &str)> {
    let variables = list(&container["env"]).iter().filter_map(|variable| {
        let is_node = variable["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName";
        Some((variable["name"].as_str()?, if is_node { NODE } else { variable["value"].as_str()? }))
    });
    variables.collect()
}

/// Its arguments, with `$(VARIABLE)` replaced.
fn arguments(container: &Value) -> Vec<String> {
    let texts = list(&container["args"]).iter().filter_map(Value::as_str);
    let replaced = texts.map(|text| {
        let variables = variables(container).into_iter();
        variables.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
    });
    replaced.collect()
}

/// Lays out what an image would have; what has to be mounted for it.
fn system(root: &Scratch) -> Result<Vec<(PathBuf, String)>> {
    let mut mounts = Vec::new();
    fs::create_dir_all(root.join("etc"))?;
    for name in SYSTEM {
        let there = Path::new("/").join(name);
        if there.is_symlink() {
            symlink(fs::read_link(&there)?, root.join(name))?;
        } else if there.is_dir() {
            fs::create_dir_all(root.join(name))?;
            mounts.push((there, name.to_owned()));
        }
    }
    for name in NAMES {
        if let Ok(content) = fs::read(Path::new("/").join(name)) {
            fs::write(root.join(name), content)?;
        }
    }
    Ok(mounts)
}

async fn service_account(stage: &Stage, root: &Scratch, account: (&str, &str)) -> Result<()> {
    let folder = root.join(ACCOUNT);
    fs::create_dir_all(&folder)?;
    let token = stage.server.token_request(account, API_AUDIENCE, 3600).await?;
    fs::write(folder.join("token"), token)?;
    fs::write(folder.join("ca.crt"), stage.server.ca_pem())?;
    fs::write(folder.join("namespace"), account.0)?;
    Ok(())
}

/// The files of a volume, as they are in the cluster now. A folder of the node is empty.
async fn files_of(stage: &Stage, namespace: &str, volume: &Value) -> Result<BTreeMap<String, Vec<u8>>> {
    let (map, secret) = (&volume["configMap"], &volume["secret"]);
    let (source, kind, name) = match (map.is_object(), secret.is_object()) {
        (true, _) => (map, "configmaps", &map["name"]),
        (_, true) => (secret, "secrets", &secret["secretName"]),
        _ if volume["hostPath"].is_object() => return Ok(BTreeMap::new()),
        _ => bail!("a volume that this kubelet does not know: {volume}"),
    };
    let path = format!("/api/v1/namespaces/{namespace}/{kind}/{}", name.as_str().context("no name")?);
    let object =
        stage.get(&path).await?.with_context(|| format!("{path} is not there: the pod would wait"))?;
    let mut files = BTreeMap::new();
    for (key, content) in object["data"].as_object().into_iter().flatten() {
        let items = source["items"].as_array();
        let item = items.map(|items| items.iter().find(|item| item["key"] == **key));
        let name = match item {
            None => key.as_str(),
            Some(Some(item)) => item["path"].as_str().context("no path")?,
            Some(None) => continue,
        };
        let text = content.as_str().unwrap_or_default();
        let content =
            if object["kind"] == "Secret" { STANDARD.decode(text)? } else { text.as_bytes().to_vec() };
        files.insert(name.to_owned(), content);
    }
    Ok(files)
}
