//! `chancery render`: what a distribution is told of its issuer, offline.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use chancery_core::key_file::read_public_keys;
use chancery_core::quoted::escaped;
use chancery_core::{IssuerUrl, PublicKey};
use chancery_files::{Access, NewFile};
use chancery_render::readme::readme;
use chancery_render::{
    Distribution, Keys, KubernetesName, Phase, Place, Rendered, RenderedFile, Request, Stage, Version,
};
use serde_json::json;
use zeroize::Zeroizing;

use crate::given;
use crate::keygen::destination::{place, real};
use crate::output::say;

#[derive(clap::Args)]
#[command(
    after_help = "Without --phase it is for a new cluster. The phases are accept, switch, wait and drop, in this order; docs/bootstrap.md says what\neach distribution takes from which version on. No private key is read: `chancery keygen export` writes those.\nExit code: 0 done, 1 when the distribution or its version cannot do it, with the remedy."
)]
pub struct Args {
    /// For whom: kubeadm, kind, cluster-api, k3s, rke2, talos, kops, k0s, kubespray, openshift, typhoon, eks-anywhere,
    /// kamaji or systemd
    distribution: Distribution,
    /// The distribution's own version, such as 1.36; of kubeadm and systemd that of Kubernetes
    #[arg(long, value_name = "VERSION")]
    version: Version,
    /// The issuer URL that the cluster has, or shall have
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// How far a change of the issuer goes: accept, switch, wait or drop
    #[arg(long, value_name = "PHASE", requires = "from")]
    phase: Option<Phase>,
    /// The issuer before the change, as kube-apiserver's flag has it; again for each further one that is accepted
    #[arg(long, value_name = "ISSUER", requires = "phase")]
    from: Vec<String>,
    /// --service-account-jwks-uri before the change, if it is set
    #[arg(long, value_name = "URL", requires = "phase")]
    from_jwks_uri: Option<String>,
    /// Public half of the key that signs, or shall sign; without it, keys stay what they are
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Public half of the key that signs before the change; again for each further one that is accepted
    #[arg(long, value_name = "FILE", requires = "key")]
    from_key: Vec<PathBuf>,
    /// A further audience that kube-apiserver takes for its own; can be repeated
    #[arg(long = "audience", value_name = "AUDIENCE")]
    audiences: Vec<String>,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "kubernetes")]
    cluster: KubernetesName,
    /// The namespace of the cluster's objects, for cluster-api and kamaji
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: KubernetesName,
    /// The folder of sa.key and sa.pub on a control-plane node, for systemd
    #[arg(long, value_name = "FOLDER", default_value = "/etc/kubernetes/pki")]
    key_dir: String,
    /// An existing folder for the files; without it, all is printed
    #[arg(long, value_name = "FOLDER")]
    out_dir: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Print one JSON document, the flags as data among it
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let directory = real(args.out_dir.as_deref().unwrap_or(Path::new(".")));
    let request = request(args, &directory)?;
    let rendered = args.distribution.render(&request)?;
    let readme = readme(&request, &rendered);
    if args.out_dir.is_some() {
        write(&directory, &rendered, (&readme, args.force))?;
    }
    match (args.json, args.out_dir.is_some()) {
        (true, _) => say(&format!("{}\n", serde_json::to_string_pretty(&json!(rendered))?))?,
        (false, true) => say(&listing(&directory, &rendered))?,
        (false, false) => say(&whole(&readme, &rendered))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn request(args: &Args, directory: &Path) -> anyhow::Result<Request> {
    let stage = match args.phase {
        None => Stage::New { accepted: Vec::new() },
        Some(phase) => {
            Stage::Change { from: args.from.clone(), from_jwks_uri: args.from_jwks_uri.clone(), phase }
        }
    };
    let directory = directory.to_str().context("the path of --out-dir is not UTF-8; use another folder")?;
    Ok(Request {
        version: Some(args.version),
        issuer: args.issuer.clone(),
        stage,
        keys: args.key.as_deref().map(|new| keys(new, &args.from_key)).transpose()?,
        audiences: args.audiences.clone(),
        place: Place {
            cluster: args.cluster.clone(),
            namespace: args.namespace.clone(),
            directory: directory.to_owned(),
            key_directory: args.key_dir.clone(),
        },
    })
}

fn keys(new: &Path, old: &[PathBuf]) -> anyhow::Result<Keys> {
    let one = |path: &Path| -> anyhow::Result<PublicKey> {
        let read = read_public_keys(&given::read(path)?);
        let path = escaped(path.display());
        match (read.keys.as_slice(), read.skipped.first()) {
            ([key], None) => Ok(key.clone()),
            (_, Some(skipped)) => bail!("{path}: {skipped}"),
            (keys, None) => {
                bail!("{path} holds {} public keys; give one file for each, with one key", keys.len())
            }
        }
    };
    let old = old.iter().map(|path| one(path)).collect::<Result<_, _>>()?;
    Ok(Keys { new: one(new)?, old })
}

fn write(directory: &Path, rendered: &Rendered, (readme, force): (&str, bool)) -> anyhow::Result<()> {
    let new = |path: &str, content: &str| NewFile {
        path: path.into(),
        access: Access::Public,
        bytes: Zeroizing::new(content.as_bytes().to_vec()),
    };
    let files = rendered.files.iter().map(|RenderedFile { path, content }| new(path, content));
    place(directory, files.chain([new("README.md", readme)]).collect(), force)
}

fn listing(directory: &Path, rendered: &Rendered) -> String {
    let names = rendered.files.iter().map(|file| file.path.as_str()).chain(["README.md"]);
    let mut text: String =
        names.map(|name| format!("{}\n", escaped(directory.join(name).display()))).collect();
    text.push_str(
        "README.md has the steps, what to check before the next phase, and the kube-apiserver flags\n",
    );
    text
}

fn whole(readme: &str, rendered: &Rendered) -> String {
    let files = rendered.files.iter();
    let files: String =
        files.map(|file| format!("\n## {}\n\n```\n{}```\n", file.path, file.content)).collect();
    format!("{readme}{files}")
}
