use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::pem_file::{Content, Encoding};
use crate::{KeySpec, PemFile};

const ISSUER: &str = "https://id.example.com/prod";

struct Sample {
    signing_key: PrivateKey,
    further_keys: Vec<Key>,
    issuer: IssuerUrl,
    accepted_issuers: Vec<IssuerUrl>,
    cluster: KubernetesName,
    namespace: KubernetesName,
}

impl Sample {
    fn new(spec: KeySpec) -> Self {
        Self {
            signing_key: PrivateKey::generate(spec).unwrap(),
            further_keys: Vec::new(),
            issuer: ISSUER.parse().unwrap(),
            accepted_issuers: Vec::new(),
            cluster: "prod".parse().unwrap(),
            namespace: "fleet".parse().unwrap(),
        }
    }

    fn further(mut self, key: Key) -> Self {
        self.further_keys.push(key);
        self
    }

    fn accepting(mut self, issuer: &str) -> Self {
        self.accepted_issuers.push(issuer.parse().unwrap());
        self
    }

    fn try_render(&self, distribution: Distribution) -> Result<BTreeMap<String, ExportFile>, ExportError> {
        let request = ExportRequest {
            signing_key: &self.signing_key,
            further_keys: &self.further_keys,
            issuer: &self.issuer,
            accepted_issuers: &self.accepted_issuers,
            cluster: &self.cluster,
            namespace: &self.namespace,
            directory: "/srv/a \"b\": c",
        };
        let files = distribution.render(&request)?;
        Ok(files.into_iter().map(|file| (file.path.clone(), file)).collect())
    }

    #[track_caller]
    fn render(&self, distribution: Distribution) -> BTreeMap<String, ExportFile> {
        self.try_render(distribution).unwrap()
    }
}

fn private_key() -> Key {
    Key::Private(Box::new(PrivateKey::generate(KeySpec::Rsa2048).unwrap()))
}

fn public_key(spec: KeySpec) -> Key {
    Key::Public(PrivateKey::generate(spec).unwrap().public_key().clone())
}

fn text<'a>(files: &'a BTreeMap<String, ExportFile>, path: &str) -> &'a str {
    str::from_utf8(&files[path].bytes).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn key_ids(pem: &str) -> Vec<String> {
    let file = PemFile::read(pem, None);
    file.blocks.iter().map(|block| block.public_key().unwrap().key_id().to_string()).collect()
}

fn issuer_arguments() -> Value {
    json!([
        {"name": "service-account-issuer", "value": ISSUER},
        {"name": "service-account-jwks-uri", "value": format!("{ISSUER}/openid/v1/jwks")},
    ])
}

#[test]
fn private_material_is_in_private_files_alone() {
    let sample = Sample::new(KeySpec::Rsa2048);
    let pem = sample.signing_key.to_exposed_pem().unwrap();
    let (plain, encoded) = (pem.lines().nth(5).unwrap(), STANDARD.encode(pem.as_bytes()));
    for distribution in Distribution::ALL {
        let files = sample.render(distribution);
        let holds = |file: &ExportFile| {
            let text = str::from_utf8(&file.bytes).unwrap();
            text.contains(plain) || text.contains(&encoded)
        };
        let holders: Vec<_> = files.values().filter(|file| holds(file)).collect();
        assert_eq!(holders.len(), 1, "{distribution}");
        for file in files.values() {
            assert_eq!(file.access == Access::Private, holds(file), "{distribution} {}", file.path);
        }
    }
}

#[test]
fn every_readme_names_the_keys_and_the_flags_in_order() {
    let sample = Sample::new(KeySpec::Rsa2048);
    for distribution in Distribution::ALL {
        let files = sample.render(distribution);
        let readme = text(&files, "README.md");
        assert!(readme.contains(sample.signing_key.public_key().key_id().as_str()), "{readme}");
        let flags = format!(
            "--service-account-issuer={ISSUER}\n--service-account-jwks-uri={ISSUER}/openid/v1/jwks\n--service-account-signing-key-file="
        );
        assert!(readme.contains(&flags), "{distribution}: {readme}");
        assert!(readme.contains(&format!("--api-audiences={ISSUER}\n")), "{distribution}: {readme}");
    }
}

/// What the patch adds to the command of the static pod, in order.
fn added_flags(patch: &str) -> Vec<String> {
    let patch = yaml(patch);
    let operations = patch.as_array().unwrap();
    operations
        .iter()
        .map(|operation| {
            assert_eq!(
                (&operation["op"], &operation["path"]),
                (&json!("add"), &json!("/spec/containers/0/command/-"))
            );
            operation["value"].as_str().unwrap().to_owned()
        })
        .collect()
}

const PATCH_FILE: &str = "kube-apiserver0accepted-issuers+json.yaml";

#[test]
fn kubeadm_gets_the_pair_all_public_keys_and_accepted_issuers_as_a_patch() {
    let sample = Sample::new(KeySpec::P256)
        .further(public_key(KeySpec::Rsa2048))
        .accepting("https://kubernetes.default.svc.cluster.local")
        .accepting("https://a.example.com");
    let files = sample.render(Distribution::Kubeadm);
    let signing = sample.signing_key.public_key().key_id().to_string();
    assert_eq!(key_ids(text(&files, "pki/sa.key")), [signing.as_str()]);
    let further = sample.further_keys[0].public_key().key_id().to_string();
    assert_eq!(key_ids(text(&files, "pki/sa.pub")), [signing, further]);

    let (cluster, init) = text(&files, "cluster-configuration.yaml").split_once("---\n").unwrap();
    let (cluster, init) = (yaml(cluster), yaml(init));
    assert_eq!(cluster["apiVersion"], "kubeadm.k8s.io/v1beta4");
    assert_eq!(cluster["apiServer"]["extraArgs"], issuer_arguments());
    assert_eq!(init["kind"], "InitConfiguration");
    assert_eq!(init["patches"]["directory"], "/etc/kubernetes/patches");
    assert_eq!(
        added_flags(text(&files, &format!("patches/{PATCH_FILE}"))),
        [
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-account-issuer=https://a.example.com"
        ]
    );
    assert!(text(&files, "README.md").contains(&format!("/etc/kubernetes/patches/{PATCH_FILE}")));
}

/// kind merges flags by name, Cluster API refuses two of one name, kubeadm sorted them: none is ever repeated there.
#[test]
fn an_issuer_without_others_needs_no_patch() {
    for distribution in [Distribution::Kubeadm, Distribution::Kind, Distribution::CapiSecret] {
        let files = Sample::new(KeySpec::P256).render(distribution);
        for (path, file) in &files {
            let text = str::from_utf8(&file.bytes).unwrap();
            assert!(!path.contains("patches") && !text.contains("/etc/kubernetes/patches"), "{path}: {text}");
        }
    }
}

#[test]
fn kind_mounts_the_pair_and_the_patch_and_repeats_no_flag() {
    let sample = Sample::new(KeySpec::Rsa2048).accepting("https://old.example.com");
    let files = sample.render(Distribution::Kind);
    let cluster = yaml(text(&files, "kind-cluster.yaml"));
    let node = &cluster["nodes"][0];
    assert_eq!(node["extraMounts"][0]["hostPath"], "/srv/a \"b\": c/sa.key");
    assert_eq!(node["extraMounts"][1]["containerPath"], "/etc/kubernetes/pki/sa.pub");
    assert_eq!(node["extraMounts"][2]["hostPath"], "/srv/a \"b\": c/patches");
    assert_eq!(node["extraMounts"][2]["containerPath"], "/etc/kubernetes/patches");
    let patch = |index: usize| yaml(node["kubeadmConfigPatches"][index].as_str().unwrap());
    let (list, map) = (patch(0), patch(1));
    assert_eq!(list["apiVersion"], "kubeadm.k8s.io/v1beta4");
    assert_eq!(list["apiServer"]["extraArgs"], issuer_arguments());
    assert_eq!(map["apiVersion"], "kubeadm.k8s.io/v1beta3");
    assert_eq!(
        map["apiServer"]["extraArgs"],
        json!({"service-account-issuer": ISSUER, "service-account-jwks-uri": format!("{ISSUER}/openid/v1/jwks")})
    );
    for (index, kind) in [(2, "InitConfiguration"), (3, "JoinConfiguration")] {
        assert_eq!(patch(index), json!({"kind": kind, "patches": {"directory": "/etc/kubernetes/patches"}}));
    }
    let patch = text(&files, &format!("patches/{PATCH_FILE}"));
    assert_eq!(added_flags(patch), ["--service-account-issuer=https://old.example.com"]);
}

#[test]
fn cluster_api_gets_the_secret_it_would_have_made() {
    let sample = Sample::new(KeySpec::P384).further(public_key(KeySpec::P256));
    let files = sample.render(Distribution::CapiSecret);
    let secret = yaml(text(&files, "prod-sa.yaml"));
    assert_eq!(
        secret["metadata"],
        json!({"name": "prod-sa", "namespace": "fleet", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}})
    );
    assert_eq!((&secret["kind"], &secret["type"]), (&json!("Secret"), &json!("cluster.x-k8s.io/secret")));
    let decoded = |name: &str| STANDARD.decode(secret["data"][name].as_str().unwrap()).unwrap();
    let signing = sample.signing_key.public_key().key_id().to_string();
    assert_eq!(key_ids(str::from_utf8(&decoded("tls.key")).unwrap()), [signing.as_str()]);
    assert_eq!(key_ids(str::from_utf8(&decoded("tls.crt")).unwrap())[0], signing);

    let patch = yaml(text(&files, "kubeadm-control-plane-patch.yaml"));
    let arguments = &patch["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"];
    assert_eq!(*arguments, issuer_arguments());
}

#[test]
fn cluster_api_gets_accepted_issuers_as_a_file_for_kubeadm() {
    let files =
        Sample::new(KeySpec::P256).accepting("https://old.example.com").render(Distribution::CapiSecret);
    let patch = yaml(text(&files, "kubeadm-control-plane-patch.yaml"));
    let spec = &patch["spec"]["kubeadmConfigSpec"];
    assert_eq!(spec["clusterConfiguration"]["apiServer"]["extraArgs"], issuer_arguments());
    assert_eq!(spec["files"][0]["path"], format!("/etc/kubernetes/patches/{PATCH_FILE}"));
    let added = added_flags(spec["files"][0]["content"].as_str().unwrap());
    assert_eq!(added, ["--service-account-issuer=https://old.example.com"]);
    for configuration in ["initConfiguration", "joinConfiguration"] {
        assert_eq!(spec[configuration]["patches"]["directory"], "/etc/kubernetes/patches");
    }
}

#[test]
fn k3s_gets_private_rsa_keys_in_order() {
    let sample = Sample::new(KeySpec::Rsa2048).further(private_key());
    let files = sample.render(Distribution::K3s);
    let file = PemFile::read(text(&files, "server/tls/service.key"), None);
    let [first, second] = file.blocks.as_slice() else { panic!("{file:?}") };
    for block in [first, second] {
        assert!(matches!(block.content, Content::Private(_, Encoding::Pkcs1)), "{block:?}");
    }
    assert_eq!(first.public_key(), Some(sample.signing_key.public_key()));
    let drop_in = yaml(text(&files, "config.yaml.d/50-service-account-issuer.yaml"));
    assert_eq!(
        drop_in,
        json!({"kube-apiserver-arg+": [
            format!("service-account-issuer={ISSUER}"),
            format!("service-account-jwks-uri={ISSUER}/openid/v1/jwks"),
        ]})
    );
}

#[test]
fn openshift_gets_the_installer_files() {
    let files = Sample::new(KeySpec::Rsa4096).render(Distribution::Openshift);
    let private = text(&files, "tls/bound-service-account-signing-key.key");
    assert!(private.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
    let manifest = yaml(text(&files, "manifests/cluster-authentication-02-config.yaml"));
    assert_eq!(
        manifest,
        json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "Authentication",
            "metadata": {"name": "cluster"},
            "spec": {"serviceAccountIssuer": ISSUER},
        })
    );
}

#[test]
fn what_a_distribution_cannot_take_is_refused_with_the_remedy() {
    let rsa = || Sample::new(KeySpec::Rsa2048);
    for (distribution, sample, words) in [
        (Distribution::K3s, Sample::new(KeySpec::P256), "RSA keys alone"),
        (Distribution::K3s, rsa().further(public_key(KeySpec::Rsa2048)), "file of its private key"),
        (Distribution::Openshift, Sample::new(KeySpec::P256), "RSA keys alone"),
        (Distribution::Openshift, rsa().further(public_key(KeySpec::Rsa2048)), "2 keys are given"),
        (Distribution::Openshift, rsa().accepting("https://old.example.com"), "no --accepted-issuer"),
    ] {
        let error = sample.try_render(distribution).unwrap_err().to_string();
        assert!(error.contains(words), "{distribution}: {error}");
    }
}

#[test]
fn names_that_would_break_yaml_or_kubernetes_are_refused() {
    for name in ["", "Prod", "a b", "a\nb: c", "-a", "a-", "a.b", &"a".repeat(61)] {
        assert!(name.parse::<KubernetesName>().is_err(), "{name:?}");
    }
    assert!("prod-1".parse::<KubernetesName>().is_ok());
}
