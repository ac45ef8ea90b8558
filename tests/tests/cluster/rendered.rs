//! What `chancery render` says for every distribution and phase, started: equal flags once. Discovery, issuer and key of
//! new tokens, and which tokens are accepted.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::{binary, chancery};
use serde_json::Value;

const NEW: &str = "https://id.example.com/prod";
/// Sorts after the new one, so that whoever sorts is found out.
const OLD: &str = "https://kubernetes.default.svc.cluster.local";
const ACCOUNT: (&str, &str) = ("demo", "app");

/// The newest version of each, and whether its key can be changed by what is rendered.
const DISTRIBUTIONS: [(&str, &str, bool); 14] = [
    ("kubeadm", "1.36.3", true),
    ("kind", "0.33.0", false),
    ("cluster-api", "1.14.2", true),
    ("k3s", "v1.36.1+k3s1", true),
    ("rke2", "v1.36.1+rke2r1", true),
    ("talos", "1.14.0", true),
    ("kops", "1.36.0", true),
    ("k0s", "1.36.1", true),
    ("kubespray", "2.31.0", true),
    ("openshift", "4.22.1", false),
    ("typhoon", "1.36.1", false),
    ("eks-anywhere", "0.25.0", false),
    ("kamaji", "26.8.3-edge", false),
    ("systemd", "1.33.13", true),
];

/// What cannot be done, whatever the version: (who, phase).
fn is_impossible(name: &str, phase: &str) -> bool {
    match name {
        "typhoon" | "eks-anywhere" => phase != "new",
        "openshift" => phase == "accept",
        _ => false,
    }
}

/// The flags of an issuer, as kube-apiserver gets them. Audiences that are not set follow the issuers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags {
    issuers: Vec<String>,
    jwks_uri: Option<String>,
    audiences: Vec<String>,
}

impl Flags {
    pub fn of(flags: &[(String, String)]) -> Self {
        let values = |name: &str| {
            let own = flags.iter().filter(|(its, _)| its == name);
            own.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let issuers = values("service-account-issuer");
        let set = values("api-audiences").first().map(|text| text.split(',').map(str::to_owned).collect());
        let audiences = set.unwrap_or_else(|| issuers.clone());
        Self { issuers, jwks_uri: values("service-account-jwks-uri").pop(), audiences }
    }
}

/// The keys of a phase, by id: who signs, and all that are accepted.
type KeyIds = Vec<String>;

pub struct Keys {
    pub old: KeyFile,
    pub new: KeyFile,
    _dir: Scratch,
}

impl Keys {
    pub fn new() -> Result<Self> {
        let dir = Scratch::new("keys")?;
        Ok(Self { old: KeyFile::new(&dir, "old")?, new: KeyFile::new(&dir, "new")?, _dir: dir })
    }

    fn file(&self, id: &str) -> Result<&KeyFile> {
        [&self.old, &self.new].into_iter().find(|key| key.kid == id).with_context(|| format!("no key {id}"))
    }
}

/// What the command says: one JSON document, or nothing where it refuses with a remedy.
pub async fn render(
    keys: &Keys,
    (name, version, changes_key): (&str, &str, bool),
    phase: &str,
) -> Result<Option<Value>> {
    let mut arguments = vec!["render", name, "--version", version, "--issuer", NEW, "--json"];
    if phase != "new" {
        arguments.extend(["--phase", phase, "--from", OLD]);
    }
    let (new, old) = (keys.new.public.display().to_string(), keys.old.public.display().to_string());
    if changes_key {
        arguments.extend(["--key", &new]);
        arguments.extend(if phase == "new" { vec![] } else { vec!["--from-key", &old] });
    }
    let output = chancery::run(&arguments).await?;
    if is_impossible(name, phase) {
        ensure!(output.code == Some(1) && output.stderr.contains("; "), "{name} {phase}: {output:?}");
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&output.success().with_context(|| format!("{name} {phase}"))?)?))
}

fn pair(argument: &str) -> Result<(String, String)> {
    let (name, value) = argument.trim_start_matches("--").split_once('=').context("no value")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("no text: {value}"))
}

pub fn listed(value: &Value) -> Result<Vec<(String, String)>> {
    let list = value.as_array().with_context(|| format!("no list: {value}"))?;
    list.iter().map(|argument| pair(text(argument)?)).collect()
}

/// The flags that are said.
pub fn said(rendered: &Value) -> Result<Flags> {
    let flags = rendered["flags"].as_array().context("no flags")?.iter();
    let flags = flags.map(|flag| Ok((text(&flag["name"])?.to_owned(), text(&flag["value"])?.to_owned())));
    Ok(Flags::of(&flags.collect::<Result<Vec<_>>>()?))
}

/// The flags out of the files, where those are plain flags; what a running kind node makes of its script.
fn written(name: &str, rendered: &Value) -> Result<Option<Vec<(String, String)>>> {
    let Some(file) = rendered["files"].as_array().and_then(|files| files.first()) else { return Ok(None) };
    let content = text(&file["content"])?;
    let yaml = || serde_saphyr::from_str::<Value>(content).context("no YAML");
    Ok(Some(match name {
        "k3s" | "rke2" => listed(&yaml()?["kube-apiserver-arg+"])?,
        "kamaji" => listed(&yaml()?["spec"]["controlPlane"]["deployment"]["extraArgs"]["apiServer"])?,
        "systemd" => {
            let line = content.trim_end().strip_prefix("SERVICE_ACCOUNT_FLAGS=").context("no flags")?;
            line.split(' ').map(pair).collect::<Result<_>>()?
        }
        "kind" if file["path"] == "kube-apiserver.sed" => edited(content)?,
        _ => return Ok(None),
    }))
}

/// The manifest of a static pod as kubeadm writes it, after the script of a change.
fn edited(script: &str) -> Result<Vec<(String, String)>> {
    let dir = Scratch::new("kind")?;
    let manifest = dir.write(
        "kube-apiserver.yaml",
        "spec:
  containers:
  - command:
    - kube-apiserver
    - --allow-privileged=true
    - --service-account-issuer=https://elsewhere.example
    - --service-account-jwks-uri=https://elsewhere.example/keys
    - --service-account-key-file=/etc/kubernetes/pki/sa.pub
    image: registry.k8s.io/kube-apiserver:v1.36.1
",
    )?;
    let script = dir.write("script", script)?;
    let output = Command::new("sed").arg("-f").arg(script).arg(manifest).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pod: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout)?)?;
    let command = pod["spec"]["containers"][0]["command"].as_array().context("no command")?;
    let (program, arguments) = command.split_first().context("an empty command")?;
    ensure!(*program == "kube-apiserver" && pod["spec"]["containers"][0]["image"].is_string(), "{pod}");
    let flags = arguments.iter().map(|argument| pair(text(argument)?)).collect::<Result<Vec<_>>>()?;
    let kept = ["allow-privileged", "service-account-key-file"];
    ensure!(kept.iter().all(|name| flags.iter().any(|(its, _)| its == name)), "{flags:?}");
    Ok(flags)
}

/// Every different set of flags with the keys that go with it, and who comes to it in which phase.
async fn flag_sets(keys: &Keys) -> Result<BTreeMap<Flags, (KeyIds, Vec<String>)>> {
    let mut sets: BTreeMap<Flags, (KeyIds, Vec<String>)> = BTreeMap::new();
    for distribution in DISTRIBUTIONS {
        for phase in ["new", "accept", "switch", "wait", "drop"] {
            let Some(rendered) = render(keys, distribution, phase).await? else { continue };
            let set = said(&rendered)?;
            if let Some(written) = written(distribution.0, &rendered)? {
                ensure!(Flags::of(&written) == set, "{distribution:?} {phase}: {written:?}, said {set:?}");
            }
            let ids = rendered["verifyingKeys"].as_array().into_iter().flatten();
            let ids: KeyIds = ids.map(|id| Ok(text(id)?.to_owned())).collect::<Result<_>>()?;
            let (known, who) = sets.entry(set).or_default();
            // A change of the issuer alone comes to the same flags, with one key.
            ensure!(known.is_empty() || ids.is_empty() || *known == ids, "{distribution:?} {phase}: {ids:?}");
            *known = if known.is_empty() { ids } else { known.clone() };
            who.push(format!("{} {phase}", distribution.0));
        }
    }
    Ok(sets)
}

async fn start(cluster: &Cluster, keys: &Keys, (flags, ids): (&Flags, &KeyIds)) -> Result<KubeApiserver> {
    // Without keys it has the one that it is made with.
    let own = [keys.new.kid.clone()];
    let ids = if ids.is_empty() { own.as_slice() } else { ids.as_slice() };
    let files = ids.iter().map(|id| keys.file(id)).collect::<Result<Vec<_>>>()?;
    let strings = |list: &'_ [String]| list.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    let (issuers, audiences) = (strings(&flags.issuers), strings(&flags.audiences));
    let mut cluster = cluster
        .clone()
        .issuers(&issuers.lines().collect::<Vec<_>>())
        .api_audiences(&audiences.lines().collect::<Vec<_>>())
        .signing_key(&files[0].private)
        .keys(&files.iter().map(|key| key.public.as_path()).collect::<Vec<_>>());
    if let Some(uri) = &flags.jwks_uri {
        cluster = cluster.jwks_uri(uri);
    }
    let server = KubeApiserver::start(&cluster).await?;
    let document: Value =
        serde_json::from_slice(&server.get_raw("/.well-known/openid-configuration").await?)?;
    ensure!(document["issuer"] == flags.issuers[0].as_str(), "{document}");
    if let Some(uri) = &flags.jwks_uri {
        ensure!(document["jwks_uri"] == uri.as_str(), "{document}");
    }
    let jwks: Value = serde_json::from_slice(&server.get_raw("/openid/v1/jwks").await?)?;
    let shown: Vec<&str> =
        jwks["keys"].as_array().into_iter().flatten().filter_map(|key| key["kid"].as_str()).collect();
    ensure!(
        ids.iter().all(|id| shown.contains(&id.as_str())) && shown.len() == ids.len(),
        "{shown:?}, {ids:?}"
    );
    Ok(server)
}

#[tokio::test]
async fn every_phase_of_every_distribution_signs_and_accepts_what_it_says() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let keys = Keys::new()?;
    let sets = flag_sets(&keys).await?;
    let answers: usize = sets.values().map(|(_, who)| who.len()).sum();
    // accept, switch with wait, drop with new clusters, and a new one of EKS Anywhere, which sets no JWKS URI.
    ensure!(sets.len() == 4 && answers == 14 * 5 - 9, "{answers} answers: {sets:#?}");
    let cluster = Cluster::new(Etcd::shared().await?.url(), OLD, &keys.old.private)?;
    let find = |first: &str, count: usize, has_uri: bool| {
        let is_it = |flags: &&Flags| {
            flags.issuers[0] == first && flags.issuers.len() == count && flags.jwks_uri.is_some() == has_uri
        };
        let found = sets.iter().find(|(flags, _)| is_it(flags));
        found.map(|(flags, (ids, _))| (flags, ids)).context("no such set")
    };
    let audience = [OLD, NEW];
    let accept = start(&cluster, &keys, find(OLD, 2, false)?).await?;
    accept.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
    let old = accept.token_request(ACCOUNT, audience[0], 600).await?;
    signed(&old, (OLD, &keys.old))?;
    let switch = start(&cluster, &keys, find(NEW, 2, true)?).await?;
    let new = switch.token_request(ACCOUNT, audience[1], 600).await?;
    signed(&new, (NEW, &keys.new))?;
    for server in [&accept, &switch] {
        for token in [&old, &new] {
            let verdict = server.token_review(token, &[]).await?;
            ensure!(verdict.is_ok(), "{}: {verdict:?}", server.url());
        }
    }
    drop(accept);
    for has_uri in [true, false] {
        let server = start(&cluster, &keys, find(NEW, 1, has_uri)?).await?;
        signed(&server.token_request(ACCOUNT, NEW, 600).await?, (NEW, &keys.new))?;
        let (refused, accepted) =
            (server.token_review(&old, &[]).await?, server.token_review(&new, &[]).await?);
        ensure!(refused.is_err() && accepted.is_ok(), "{refused:?} {accepted:?}");
    }
    Ok(())
}

/// Whether a token is of this issuer and key.
fn signed(token: &str, (issuer, key): (&str, &KeyFile)) -> Result<()> {
    let mut parts = token
        .split('.')
        .map(|part| -> Result<Value> { Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?) });
    let (header, claims) = (parts.next().context("no header")??, parts.next().context("no claims")??);
    ensure!(claims["iss"] == issuer && header["kid"] == key.kid.as_str(), "{header} {claims}");
    Ok(())
}
