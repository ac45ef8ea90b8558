//! k3s and RKE2: `service.key`, one file of PKCS#1 private keys that signs with its first and verifies with all.

use zeroize::Zeroizing;

use super::flags::{all_flags, issuer_flags};
use super::readme::{self, Readme};
use super::yaml::quoted;
use super::{ExportError, ExportFile, ExportRequest};
use crate::{Key, PrivateKey};

const DISTRIBUTION: &str = "k3s";

pub(super) fn render(request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let live = "/var/lib/rancher/k3s/server/tls";
    let flags = all_flags(request, &format!("{live}/service.current.key"), &format!("{live}/service.key"));
    let readme = Readme { title: "k3s", steps: &steps(request), flags: &flags };
    Ok(vec![
        ExportFile::private("server/tls/service.key", &service_key(request)?),
        ExportFile::public("config.yaml.d/50-service-account-issuer.yaml", drop_in(request)),
        readme::file(request, &readme),
    ])
}

fn service_key(request: &ExportRequest<'_>) -> Result<Zeroizing<String>, ExportError> {
    let mut keys = vec![request.signing_key];
    for key in request.further_keys {
        keys.push(key.private_key().ok_or_else(|| private_half_needed(key))?);
    }
    let pems: Vec<Zeroizing<String>> = keys.into_iter().map(pkcs1).collect::<Result<_, _>>()?;
    // Sized at once: a string that grows leaves copies of the keys behind.
    let mut file = Zeroizing::new(String::with_capacity(pems.iter().map(|pem| pem.len()).sum()));
    pems.iter().for_each(|pem| file.push_str(pem));
    Ok(file)
}

fn pkcs1(key: &PrivateKey) -> Result<Zeroizing<String>, ExportError> {
    if key.is_rsa() {
        return Ok(key.to_exposed_pem()?);
    }
    let public = key.public_key();
    Err(ExportError::RsaOnly {
        distribution: DISTRIBUTION,
        key_id: public.key_id().to_string(),
        kind: public.description(),
    })
}

fn private_half_needed(key: &Key) -> ExportError {
    let key_id = key.public_key().key_id().to_string();
    ExportError::PrivateHalfNeeded { distribution: DISTRIBUTION, key_id }
}

fn drop_in(request: &ExportRequest<'_>) -> String {
    let arguments: String = issuer_flags(request)
        .iter()
        .map(|(name, value)| format!("- {}\n", quoted(&format!("{name}={value}"))))
        .collect();
    format!("# The plus adds to what the other configuration files say.\nkube-apiserver-arg+:\n{arguments}")
}

fn steps(request: &ExportRequest<'_>) -> String {
    format!(
        "1. On every server: `install -D -m 644 config.yaml.d/50-service-account-issuer.yaml
   /etc/rancher/k3s/config.yaml.d/50-service-account-issuer.yaml`.
2. A new cluster: before the first start of the first server,
   `install -D -m 600 server/tls/service.key /var/lib/rancher/k3s/server/tls/service.key`.
3. A cluster that is running: `k3s certificate rotate-ca --path={directory}/server`, then restart every server, one at a
   time. Never copy over the live file. To change the key without refusing a token, go in two passes: first the old
   key with the new one after it, then the new with the old after it; otherwise the first server to restart signs with
   a key that the others do not know yet.
4. RKE2 takes the same files below `/etc/rancher/rke2` and `/var/lib/rancher/rke2`, with `rke2` for `k3s`.
",
        directory = request.directory
    )
}
