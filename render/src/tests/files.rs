//! What the files say, read back by the rules of those they are for.

use serde_json::{Value, json};

use super::*;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
        Value::String(text) => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Flags of kubeadm, a list in v1beta4 and a mapping before.
fn extra_args(value: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match value {
        Value::Array(list) => list.iter().map(|flag| (text(&flag["name"]), text(&flag["value"]))).collect(),
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        other => panic!("{other}"),
    }
}

fn argument(text: &str) -> (String, String) {
    let (name, value) = text.trim_start_matches("--").split_once('=').unwrap();
    (name.to_owned(), value.to_owned())
}

/// What a patch of the static pod appends.
fn appended(patch: &Value) -> Vec<(String, String)> {
    let operations = patch.as_array().into_iter().flatten();
    let flags = operations.map(|operation| {
        assert_eq!(
            (&operation["op"], &operation["path"]),
            (&json!("add"), &json!("/spec/containers/0/command/-"))
        );
        argument(operation["value"].as_str().unwrap())
    });
    flags.collect()
}

const PATCH: &str = "patches/kube-apiserver0accepted-issuers+json.yaml";

/// The values of fields as flags of these names, in order.
fn named(pairs: &[(&str, &Value)]) -> Vec<(String, String)> {
    let values = |(name, value): &(&str, &Value)| {
        let name = (*name).to_owned();
        texts(value).into_iter().map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    };
    pairs.iter().flat_map(values).collect()
}

/// The flags that come of the files, by the rules of their distribution.
fn flags(name: &str, files: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let first = || yaml(files.values().next().unwrap().split("\n---\n").next().unwrap());
    let patched = || files.get(PATCH).map(|patch| appended(&yaml(patch))).unwrap_or_default();
    match name {
        "kubeadm" => {
            let configuration = yaml(files["cluster-configuration.yaml"].split("\n---\n").next().unwrap());
            [extra_args(&configuration["apiServer"]["extraArgs"]), patched()].concat()
        }
        "cluster-api" => {
            let spec = &yaml(&files["kubeadm-control-plane-patch.yaml"])["spec"]["kubeadmConfigSpec"];
            let own = extra_args(&spec["clusterConfiguration"]["apiServer"]["extraArgs"]);
            let patch = spec["files"][0]["content"].as_str().map(|content| appended(&yaml(content)));
            [own, patch.unwrap_or_default()].concat()
        }
        "kind" => match files.get("kube-apiserver.sed") {
            Some(script) => {
                let lines = script.lines().filter_map(|line| line.strip_prefix("\\1- "));
                lines.map(|line| argument(line.trim_end_matches(['\\', '|']))).collect()
            }
            None => {
                let patches = &yaml(&files["kind-cluster.yaml"])["nodes"][0]["kubeadmConfigPatches"];
                let list = extra_args(&yaml(patches[0].as_str().unwrap())["apiServer"]["extraArgs"]);
                let mut map = extra_args(&yaml(patches[1].as_str().unwrap())["apiServer"]["extraArgs"]);
                map.sort();
                assert_eq!(map, list, "v1beta3 and v1beta4");
                [list, patched()].concat()
            }
        },
        "typhoon" => {
            let line = files["module-arguments.tf.txt"].trim_end().split_once(" = ").unwrap();
            vec![("service-account-issuer".to_owned(), line.1.trim_matches('"').to_owned())]
        }
        "systemd" => {
            let line =
                files["service-account.env"].trim_end().strip_prefix("SERVICE_ACCOUNT_FLAGS=").unwrap();
            line.split(' ').map(argument).filter(|(name, _)| !name.ends_with("key-file")).collect()
        }
        "kubespray" => {
            let variables = yaml(&files["group_vars/k8s_cluster/service-account-issuer.yml"]);
            let patch = appended(&variables["kubeadm_patches"][0]["patch"]);
            [extra_args(&variables["kube_kubeadm_apiserver_extra_args"]), patch, patched()].concat()
        }
        other => fields(other, &first(), files),
    }
}

/// The same of those who have fields of their own, or plain arguments; `first` is the first file.
fn fields(name: &str, first: &Value, files: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let arguments = |value: &Value| texts(value).iter().map(|text| argument(text)).collect::<Vec<_>>();
    match name {
        "k3s" | "rke2" => arguments(&first["kube-apiserver-arg+"]),
        "kamaji" => arguments(&first["spec"]["controlPlane"]["deployment"]["extraArgs"]["apiServer"]),
        "talos" if files.contains_key("machine-config-patch.yaml") => {
            let arguments = first["cluster"]["apiServer"]["extraArgs"].clone();
            let names = ["service-account-issuer", "service-account-jwks-uri", "api-audiences"];
            names.iter().flat_map(|name| named(&[(name, &arguments[*name])])).collect()
        }
        "talos" => {
            let mut documents = files["kube-service-account-config.yaml"].split("\n---\n").map(yaml);
            let (own, server) = (documents.next().unwrap(), documents.next().unwrap_or_default());
            let audiences = texts(&own["accepted"]["audiences"]).join(",");
            let audiences = if audiences.is_empty() { Value::Null } else { json!(audiences) };
            named(&[
                ("service-account-issuer", &own["issuer"]["issuerURL"]),
                ("service-account-issuer", &own["accepted"]["issuers"]),
                ("service-account-jwks-uri", &server["extraArgs"]["service-account-jwks-uri"]),
                ("api-audiences", &audiences),
            ])
        }
        "kops" => {
            let server = &first["spec"]["kubeAPIServer"];
            named(&[
                ("service-account-issuer", &server["serviceAccountIssuer"]),
                ("service-account-issuer", &server["additionalServiceAccountIssuers"]),
                ("service-account-jwks-uri", &server["serviceAccountJWKSURI"]),
            ])
        }
        "k0s" => {
            let api = &first["spec"]["api"];
            let raw = texts(&api["rawArgs"]);
            [extra_args(&api["extraArgs"]), raw.iter().map(|text| argument(text)).collect()].concat()
        }
        "openshift" => named(&[("service-account-issuer", &first["spec"]["serviceAccountIssuer"])]),
        "eks-anywhere" => {
            named(&[("service-account-issuer", &first["spec"]["podIamConfig"]["serviceAccountIssuer"])])
        }
        other => panic!("nobody reads {other}"),
    }
}

/// Whether the operator or the module adds flags by itself: what the files say is where it begins.
fn adds_by_itself(name: &str) -> bool {
    ["openshift", "typhoon"].contains(&name)
}

#[test]
fn the_files_say_what_the_flags_say_issuers_in_their_order() {
    let mut read = 0;
    all(|distribution, _, rendered| {
        let name = distribution.as_str();
        let files: BTreeMap<String, String> =
            rendered.files.iter().map(|file| (file.path.clone(), file.content.clone())).collect();
        let said = flags(name, &files);
        let expected: Vec<(String, String)> = rendered
            .flags
            .iter()
            .filter(|flag| !flag.name.ends_with("key-file"))
            .map(|flag| (flag.name.to_owned(), flag.value.clone()))
            .collect();
        let of = |flags: &[(String, String)], name: &str| {
            flags.iter().filter(|(its, _)| its == name).map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let names = ["service-account-issuer", "service-account-jwks-uri", "api-audiences"];
        for flag in names {
            let (said, expected) = (of(&said, flag), of(&expected, flag));
            let is_so = said == expected || adds_by_itself(name) && expected.starts_with(&said);
            assert!(is_so, "{name} {:?} {flag}: {said:?}, expected {expected:?}", rendered.phase);
        }
        read += 1;
    });
    assert!(read > 100, "{read} answers were read");
}

#[test]
fn every_public_key_that_is_accepted_is_in_the_file_for_it() {
    for (name, file) in
        [("kubeadm", "pki/sa.pub"), ("k0s", "sa.pub"), ("kubespray", "sa.pub"), ("systemd", "sa.pub")]
    {
        for (phase, keys) in [
            (Phase::Accept, vec![OTHER_RSA, RSA]),
            (Phase::Switch, vec![RSA, OTHER_RSA]),
            (Phase::Drop, vec![RSA]),
        ] {
            let files = files(name, &with_keys(sample(Some(phase)), (RSA, OTHER_RSA)));
            let expected: Vec<PublicKey> = keys.into_iter().map(key).collect();
            assert_eq!(read_public_keys(&files[file]).keys, expected, "{name} {phase}");
        }
    }
    let request = with_keys(sample(Some(Phase::Accept)), (P256, RSA));
    let patch = yaml(&files("cluster-api", &request)["sa-public-keys-patch.yaml"]);
    let pems = patch["stringData"]["tls.crt"].as_str().unwrap();
    assert_eq!(read_public_keys(pems).keys, [key(RSA), key(P256)]);
    let document = files("talos", &request)["kube-service-account-config.yaml"].clone();
    let accepted = yaml(document.split("\n---\n").next().unwrap())["accepted"]["publicKeys"].clone();
    assert_eq!(texts(&accepted).iter().map(|pem| key(pem)).collect::<Vec<_>>(), [key(P256)]);
}

#[test]
fn the_private_half_is_brought_in_the_switch_alone() {
    for name in ["kubeadm", "k0s", "kubespray", "systemd"] {
        for phase in [Phase::Accept, Phase::Switch, Phase::Drop] {
            let rendered =
                distribution(name).render(&with_keys(sample(Some(phase)), (RSA, OTHER_RSA))).unwrap();
            let commands: String = rendered.steps.iter().flat_map(|step| step.commands.clone()).collect();
            assert_eq!(commands.contains("sa.key"), phase == Phase::Switch, "{name} {phase}: {commands}");
        }
    }
}

/// A document of Talos that says no audiences has those of the signing issuer: tokens in use would be refused.
#[test]
fn talos_keeps_the_audience_of_tokens_in_use() {
    let document = |phase| {
        let text = files("talos", &at("1.14", phase))["kube-service-account-config.yaml"].clone();
        yaml(text.split("\n---\n").next().unwrap())["accepted"]["audiences"].clone()
    };
    assert_eq!(document(Some(Phase::Accept)), json!([OLD, NEW]));
    assert_eq!(document(Some(Phase::Switch)), json!([NEW, OLD]));
    assert_eq!(document(None), Value::Null);
}

#[test]
fn what_an_earlier_phase_put_on_a_node_is_removed() {
    for name in ["kubeadm", "kubespray"] {
        let rendered = distribution(name).render(&sample(Some(Phase::Drop))).unwrap();
        let commands: Vec<&String> = rendered.steps.iter().flat_map(|step| &step.commands).collect();
        assert!(
            commands.iter().any(|command| command.starts_with("rm -f /etc/kubernetes/patches/")),
            "{commands:?}"
        );
    }
}
