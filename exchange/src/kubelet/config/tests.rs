use proptest::prelude::*;
use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "apiVersion": CONFIG_VERSION,
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "chancery-ecr",
            "apiVersion": API_VERSION,
            "matchImages": ["*.dkr.ecr.*.amazonaws.com", "registry.example:5000/team"],
            "defaultCacheDuration": "0s",
            "args": ["exchange", "kubelet", "--to", "aws"],
            "tokenAttributes": {
                "serviceAccountTokenAudience": "sts.amazonaws.com",
                "cacheType": "ServiceAccount",
                "requireServiceAccount": true,
                "requiredServiceAccountAnnotationKeys": ["eks.amazonaws.com/role-arn"],
            },
        }],
    })
}

fn codes(config: &Value, context: &Context) -> Vec<&'static str> {
    check(config, context).into_iter().map(|finding| finding.code).collect()
}

#[test]
fn kind_4185_a_good_configuration_has_no_findings() {
    assert_eq!(check(&good(), &Context::default()), []);
    assert_eq!(audiences(&good()).into_iter().collect::<Vec<_>>(), ["sts.amazonaws.com"]);
    let images = ["123456789012.dkr.ecr.eu-central-1.amazonaws.com/app:1", "registry.example:5000/team/app"];
    let context = Context { images: images.map(str::to_owned).to_vec(), ..Context::default() };
    assert_eq!(check(&good(), &context), []);
}

#[test]
fn kind_4185_what_fails_in_silence_is_named() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 16] = [
        (|config| config["apiVersion"] = "kubelet.config.k8s.io/v1beta1".into(), "config-kind"),
        (|config| config["providers"] = json!([]), "config-empty"),
        (
            |config| {
                config["providers"] = json!([config["providers"][0].clone(), config["providers"][0].clone()]);
            },
            "name-twice",
        ),
        (|config| config["providers"][0]["name"] = "bin/x".into(), "name"),
        (
            |config| {
                config["providers"][0]["apiVersion"] = "credentialprovider.kubelet.k8s.io/v1beta1".into();
            },
            "api-version",
        ),
        (|config| config["providers"][0]["matchImages"] = json!([]), "match-images"),
        (|config| config["providers"][0]["matchImages"] = json!(["registry.example/*"]), "match-images"),
        (|config| config["providers"][0]["defaultCacheDuration"] = "5".into(), "cache-duration"),
        (|config| config["providers"][0]["cacheKeyType"] = "ServiceAccount".into(), "cache-key-type"),
        (
            |config| config["providers"][0]["tokenAttributes"]["cacheKeyType"] = "Image".into(),
            "cache-key-type",
        ),
        (|config| config["providers"][0]["tokenAttributes"] = Value::Null, "token-attributes"),
        (
            |config| config["providers"][0]["tokenAttributes"]["serviceAccountTokenAudience"] = "".into(),
            "audience",
        ),
        (|config| config["providers"][0]["tokenAttributes"]["cacheType"] = Value::Null, "cache-type"),
        (
            |config| config["providers"][0]["args"] = json!(["exchange", "kubelet", "--to", "direct"]),
            "cache-type",
        ),
        (
            |config| config["providers"][0]["tokenAttributes"]["requireServiceAccount"] = false.into(),
            "annotation-keys",
        ),
        (
            |config| {
                config["providers"][0]["tokenAttributes"]["optionalServiceAccountAnnotationKeys"] =
                    json!(["eks.amazonaws.com/role-arn"]);
            },
            "annotation-keys",
        ),
    ];
    for (change, code) in changes {
        let mut config = good();
        change(&mut config);
        assert_eq!(codes(&config, &Context::default()), [code]);
    }
    let context = Context { images: vec!["docker.io/library/app".to_owned()], ..Context::default() };
    assert_eq!(codes(&good(), &context), ["image-unmatched"]);
}

#[test]
fn jfrog_81_a_node_needs_the_right_to_ask_for_the_audience() {
    let role = |resources: Value, verbs: Value| json!({ "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": [{ "apiGroups": [""], "resources": resources, "verbs": verbs }] });
    let binding = |group: &str| json!({ "kind": "ClusterRoleBinding", "roleRef": { "kind": "ClusterRole", "name": "r" }, "subjects": [{ "kind": "Group", "name": group }] });
    let right = role(json!(["sts.amazonaws.com"]), json!([rbac::VERB]));
    for (manifests, is_allowed) in [
        (vec![right.clone(), binding(rbac::NODES)], true),
        (vec![json!({ "kind": "List", "items": [right.clone(), binding(rbac::NODES)] })], true),
        (vec![role(json!(["*"]), json!(["*"])), binding(rbac::NODES)], true),
        (vec![right.clone()], false),
        (vec![right, binding("system:masters")], false),
        (vec![role(json!(["other"]), json!([rbac::VERB])), binding(rbac::NODES)], false),
        (vec![role(json!(["sts.amazonaws.com"]), json!(["get"])), binding(rbac::NODES)], false),
    ] {
        let context = Context { rbac: manifests, ..Context::default() };
        assert_eq!(check(&good(), &context).is_empty(), is_allowed, "{context:?}");
        let words = check(&good(), &context).pop().map(|finding| finding.words).unwrap_or_default();
        assert_eq!(words.contains(rbac::VERB), !is_allowed, "{words}");
    }
}

#[test]
fn durations_are_read_as_go_does() {
    for good in ["0s", "0", "5m", "1h30m", "1.5h", "300ms", "1us"] {
        assert!(is_duration(good), "{good}");
    }
    for bad in ["", "5", "s", "5x", "-", "1h30", "1 h"] {
        assert!(!is_duration(bad), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_configuration_makes_the_check_panic(text in any::<String>(), duration in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..4)) {
        let mut config = good();
        config["providers"][0]["name"] = text.as_str().into();
        config["providers"][0]["matchImages"] = json!(list);
        config["providers"][0]["defaultCacheDuration"] = duration.as_str().into();
        _ = check(&config, &Context { images: list, rbac: vec![config.clone()] });
    }
}
