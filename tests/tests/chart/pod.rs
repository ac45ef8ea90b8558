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

/// A running one. Killed on drop.
pub struct Pod {
    pub process: Process,
    admin: u16,
    _root: Scratch,
}

impl Pod {
    /// Starts the pod that a workload of the release makes.
    pub async fn start(stage: &Stage, template: &Value) -> Result<Self> {
        let spec = &template["spec"];
        let container = &spec["containers"][0];
        let root = Scratch::new("pod")?;
        let mut mounts = system(&root)?;
        service_account(stage, &root, spec["serviceAccountName"].as_str().context("no account")?).await?;
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volume =
                spec["volumes"].as_array().into_iter().flatten().find(|it| it["name"] == mount["name"]);
            let files = files_of(stage, volume.context("a mount of no volume")?).await?;
            let folder = root.join(mount["mountPath"].as_str().context("no path")?.trim_start_matches('/'));
            fs::create_dir_all(&folder)?;
            for (name, content) in files {
                fs::write(folder.join(name), content)?;
            }
        }
        let program = binary::chancery()?;
        fs::write(root.join("chancery"), "")?;
        mounts.push((program, "chancery".to_owned()));
        let mut command = mortal(Path::new("unshare"));
        command.args(["--map-root-user", "--mount", "--", "sh", "-c", START, "sh"]).arg(root.path());
        for (from, to) in &mounts {
            command.arg(from).arg(to);
        }
        command.args(["--", "/chancery"]).args(texts(&container["args"]));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        command.env("KUBERNETES_SERVICE_PORT", stage.server.port().to_string());
        for variable in container["env"].as_array().into_iter().flatten() {
            if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
                command.env(name, value);
            }
        }
        let ports = container["ports"].as_array().into_iter().flatten();
        let admin =
            ports.filter(|port| port["name"] == "admin").find_map(|port| port["containerPort"].as_u64());
        let process = Process::start("pod", command, &root.join("log"))?;
        Ok(Self { process, admin: admin.context("no admin port")?.try_into()?, _root: root })
    }

    /// Status and text of a page of its admin port.
    pub async fn page(&self, path: &str) -> Result<(u16, String)> {
        let answer =
            http::client(None)?.get(format!("http://127.0.0.1:{}/{path}", self.admin)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
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

async fn service_account(stage: &Stage, root: &Scratch, name: &str) -> Result<()> {
    let folder = root.join(ACCOUNT);
    fs::create_dir_all(&folder)?;
    let token = stage.server.token_request((crate::helm::NAMESPACE, name), API_AUDIENCE, 3600).await?;
    fs::write(folder.join("token"), token)?;
    fs::write(folder.join("ca.crt"), stage.server.ca_pem())?;
    fs::write(folder.join("namespace"), crate::helm::NAMESPACE)?;
    Ok(())
}

/// The files of a volume, as they are in the cluster now.
async fn files_of(stage: &Stage, volume: &Value) -> Result<BTreeMap<String, Vec<u8>>> {
    let below = format!("/api/v1/namespaces/{}", crate::helm::NAMESPACE);
    let (path, source) = match (&volume["configMap"], &volume["secret"]) {
        (map @ Value::Object(_), _) => {
            (format!("{below}/configmaps/{}", map["name"].as_str().context("no name")?), map)
        }
        (_, secret @ Value::Object(_)) => {
            (format!("{below}/secrets/{}", secret["secretName"].as_str().context("no name")?), secret)
        }
        _ => bail!("a volume that no kubelet of ours knows: {volume}"),
    };
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
