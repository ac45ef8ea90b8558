//! The steps of `chancery render kubeadm`, typed as they stand there, with the real kubeadm in a file system of its own: the
//! manifest that it writes has the flags that were said.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::binary;
use e2e::scratch::Scratch;
use serde_json::Value;

use crate::rendered::{Flags, Keys, listed, render, said, text};

const KUBEADM: (&str, &str, bool) = ("kubeadm", "1.36.3", true);

/// What stands in the place of a cluster: the ConfigMap as a person has edited it.
const KUBECTL: &str = r#"#!/bin/sh
case "$*" in
  *'get configmap kubeadm-config'*) sed '/^---$/,$d; s/^kind: ClusterConfiguration/&\nkubernetesVersion: v1.36.3/' cluster-configuration.yaml ;;
  *'edit configmap kubeadm-config'*) ;;
  *'get --raw /readyz'*) ;;
  *) echo "kubectl $*: nobody said that" >&2; exit 1 ;;
esac
"#;

/// Runs the steps with `/etc` as an empty folder of their own, as root of their own.
fn typed(dir: &Scratch, files: &Path, commands: &[&str]) -> Result<String> {
    let etc = dir.join("etc");
    std::fs::create_dir_all(etc.join("kubernetes"))?;
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin)?;
    for (name, script) in [("kubectl", KUBECTL), ("crictl", "#!/bin/sh\n")] {
        let path = bin.join(name);
        std::fs::write(&path, script)?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    std::fs::copy(binary::server("kubeadm")?, bin.join("kubeadm"))?;
    let script = format!("set -eu\nmount --bind '{}' /etc\n{}\n", etc.display(), commands.join("\n"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(files)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()?;
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{script}\n{said}");
    std::fs::read_to_string(etc.join("kubernetes/manifests/kube-apiserver.yaml")).context(said)
}

/// The flags of the container in a static pod's manifest.
fn flags_of(manifest: &str) -> Result<Flags> {
    let pod: Value = serde_saphyr::from_str(manifest)?;
    let command =
        pod.pointer("/spec/containers/0/command").and_then(Value::as_array).context("no command")?;
    let arguments: Value = command.iter().skip(1).cloned().collect();
    Ok(Flags::of(&listed(&arguments)?))
}

#[tokio::test]
async fn the_steps_of_each_phase_have_kubeadm_write_the_flags_that_were_said() -> Result<()> {
    if binary::skipped(&["kubeadm"]) {
        return Ok(());
    }
    let keys = Keys::new()?;
    let dir = Scratch::new("kubeadm")?;
    // One node, phase after phase.
    for phase in ["accept", "switch", "wait", "drop"] {
        let rendered = render(&keys, KUBEADM, phase).await?.context("no answer")?;
        let files = dir.join(phase);
        for file in rendered["files"].as_array().context("no files")? {
            let path = files.join(text(&file["path"])?);
            std::fs::create_dir_all(path.parent().context("no folder")?)?;
            std::fs::write(path, text(&file["content"])?)?;
        }
        std::fs::create_dir_all(files.join("pki"))?;
        // The private half, which only the offline tool writes.
        std::fs::copy(&keys.new.private, files.join("pki/sa.key"))?;
        let steps = rendered["steps"].as_array().context("no steps")?.iter();
        let commands = steps.flat_map(|step| step["commands"].as_array().into_iter().flatten());
        let commands = commands.map(text).collect::<Result<Vec<_>>>()?;
        let manifest = typed(&dir, &files, &commands)?;
        ensure!(flags_of(&manifest)? == said(&rendered)?, "{phase}: {manifest}");
        let public = std::fs::read_to_string(dir.join("etc/kubernetes/pki/sa.pub"))?;
        let count = public.matches("BEGIN PUBLIC KEY").count();
        ensure!(count == if phase == "drop" { 1 } else { 2 }, "{phase}: {public}");
    }
    Ok(())
}
