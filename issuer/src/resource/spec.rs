//! From the spec of an object to an entry of the configuration: pure.
//!
//! A spec has the words of an entry of `chancery.yaml`, and says less. Whoever may write objects has not therefore the rights
//! of this process, so that an object names no file of it, no other namespace, no credentials, and no address that would be
//! sent some, unless the configuration names that address too. What it leaves out here is filled in: the namespace and the
//! kubeconfig of its sources, and the CA of the look from outside.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Everything that an object may say, as paths into its spec; `[]` stands for each element of a list.
pub(super) const MAY_SAY: [&str; 37] = [
    "url",
    "owner",
    "maxAgeSeconds",
    "retention",
    "sources[].name",
    "sources[].kubeApiserver.discover",
    "sources[].kubeApiserver.pollSeconds",
    "sources[].kubeApiserver.canary.serviceAccount",
    "sources[].configMap.name",
    "sources[].configMap.labelSelector",
    "sources[].configMap.keys[]",
    "sources[].secret.name",
    "sources[].secret.labelSelector",
    "sources[].secret.fields[]",
    "sources[].ring.configMap.name",
    "targets[].publicUrl",
    "targets[].to.name",
    "targets[].to.directory.path",
    "targets[].to.s3.bucket",
    "targets[].to.s3.region",
    "targets[].to.s3.prefix",
    "targets[].to.s3.endpoint",
    "targets[].to.s3.pathStyle",
    "targets[].to.s3.timeoutSeconds",
    "targets[].to.azureBlob.account",
    "targets[].to.azureBlob.endpoint",
    "targets[].to.azureBlob.container",
    "targets[].to.azureBlob.prefix",
    "targets[].to.azureBlob.timeoutSeconds",
    "targets[].to.gcs.bucket",
    "targets[].to.gcs.prefix",
    "targets[].to.gcs.endpoint",
    "targets[].to.gcs.timeoutSeconds",
    "verify.enabled",
    "verify.every",
    "verify.for[]",
    "verify.longestCache",
];

/// What the configuration says for all objects.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectLimits {
    /// Where the objects are, and what they read.
    pub namespace: String,
    /// How sources reach the cluster; as a pod in it when missing.
    pub kubeconfig: Option<PathBuf>,
    /// The folder below which directories are.
    pub directory: Option<PathBuf>,
    /// Endpoints that may be named.
    pub endpoints: Vec<String>,
    /// By which issuers are read from outside.
    pub ca: Option<PathBuf>,
}

/// The entry of the configuration that a spec is.
///
/// # Errors
/// What came, what was expected, what to do.
pub(super) fn entry(spec: &Value, limits: &ObjectLimits) -> Result<Value, String> {
    if !spec.is_object() {
        return Err("the object has no spec; expected one with `url` and `sources`".to_owned());
    }
    let mut said = Vec::new();
    list_paths(spec, String::new(), &mut said);
    if let Some(path) = said.iter().find(|path| !may_say(path)) {
        return Err(format!(
            "`{path}` is nothing that an object may say: files of this process, other namespaces, credentials and whom \
             they are sent to are said in chancery.yaml; docs/issuer-resource.md lists what an object may say"
        ));
    }
    let mut entry = spec.clone();
    for source in elements(&mut entry, "sources") {
        fill_in_source(source, limits);
    }
    for target in elements(&mut entry, "targets") {
        check_target(target.get_mut("to"), limits)?;
    }
    if let (Some(ca), Some(entry)) = (&limits.ca, entry.as_object_mut()) {
        let verify = entry.entry("verify").or_insert_with(|| json!({}));
        insert(verify, "ca", text(ca));
    }
    Ok(entry)
}

/// The paths of all values in `value`, which is at `path`. What is null is not said.
fn list_paths(value: &Value, path: String, said: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() => {
            let dot = if path.is_empty() { "" } else { "." };
            fields.iter().for_each(|(name, value)| list_paths(value, format!("{path}{dot}{name}"), said));
        }
        Value::Array(elements) if !elements.is_empty() => {
            elements.iter().for_each(|value| list_paths(value, format!("{path}[]"), said));
        }
        _ => said.push(path),
    }
}

/// Whether `path` is in the list, or leads to something there: `kubeApiserver: {}` says something, too.
fn may_say(path: &str) -> bool {
    let leads_on = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    MAY_SAY.iter().any(|known| known.strip_prefix(path).is_some_and(leads_on))
}

/// A source reads in the cluster and the namespace of its object.
fn fill_in_source(source: &mut Value, limits: &ObjectLimits) {
    let ObjectLimits { namespace, kubeconfig, .. } = limits;
    for (place, is_in_namespace) in
        [("/kubeApiserver", false), ("/configMap", true), ("/secret", true), ("/ring/configMap", true)]
    {
        let Some(place) = source.pointer_mut(place) else { continue };
        if is_in_namespace {
            insert(place, "namespace", json!(namespace));
        }
        if let Some(kubeconfig) = kubeconfig {
            insert(place, "kubeconfig", text(kubeconfig));
        }
    }
    if let Some(canary) = source.pointer_mut("/kubeApiserver/canary") {
        insert(canary, "namespace", json!(namespace));
    }
}

fn check_target(to: Option<&mut Value>, limits: &ObjectLimits) -> Result<(), String> {
    let Some(to) = to else { return Ok(()) };
    for pointer in ["/s3/endpoint", "/azureBlob/endpoint", "/gcs/endpoint"] {
        if let Some(endpoint) = to.pointer(pointer).and_then(Value::as_str)
            && !limits.endpoints.iter().any(|known| known == endpoint)
        {
            return Err(format!(
                "the endpoint {endpoint:?} is none that objects may name, since our credentials are sent there; add it to \
                 `resources.endpoints` in chancery.yaml, or leave it out"
            ));
        }
    }
    let Some(path) = to.pointer_mut("/directory/path") else { return Ok(()) };
    let Some(root) = &limits.directory else {
        return Err(
            "objects may not have directories as targets; set `resources.directory` in chancery.yaml to the \
                    folder below which they may, or publish to a bucket"
                .to_owned(),
        );
    };
    let below = path.as_str().filter(|path| is_below(path)).ok_or_else(|| {
        format!(
            "{path} is no folder that an object may name; expected names of letters, digits, `.`, `_` and `-` with `/` \
             between them, none beginning with `.` and none `openid`, such as cluster-a"
        )
    })?;
    *path = text(&root.join(below));
    Ok(())
}

/// Whether `path` stays below a folder, and out of the places where the documents of an issuer around it are: folders may
/// lie in each other as URLs do, and a folder in place of a document would keep that from being written.
fn is_below(path: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_own = |name: &str| !name.is_empty() && !name.starts_with('.') && name != "openid";
    path.split('/').all(|name| is_own(name) && name.chars().all(legal))
}

fn elements<'a>(value: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn insert(value: &mut Value, field: &str, content: Value) {
    if let Value::Object(fields) = value {
        Map::insert(fields, field.to_owned(), content);
    }
}

fn text(path: &Path) -> Value {
    json!(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::IssuerConfig;
    use crate::resource::DEFINITION;

    fn limits() -> ObjectLimits {
        ObjectLimits {
            namespace: "ours".to_owned(),
            kubeconfig: Some("kubeconfig".into()),
            directory: Some("/srv/www".into()),
            endpoints: vec!["https://minio.example:9000".to_owned()],
            ca: Some("/etc/ca.pem".into()),
        }
    }

    /// Something of everything that may be said together.
    fn full() -> Value {
        json!({
            "url": "https://id.example.com/a",
            "owner": "a",
            "maxAgeSeconds": 60,
            "retention": "1d",
            "sources": [
                { "name": "own", "kubeApiserver": {
                    "discover": true, "pollSeconds": 5, "canary": { "serviceAccount": "c" },
                } },
                { "configMap": { "name": "keys", "keys": ["*.pub"] } },
                { "secret": { "labelSelector": "a=b", "fields": ["tls.crt"] } },
                { "ring": { "configMap": { "name": "ring" } } },
            ],
            "targets": [
                { "to": { "name": "www", "directory": { "path": "a/b" } }, "publicUrl": "https://b.example" },
                { "to": { "s3": {
                    "bucket": "b", "region": "r", "prefix": "p", "pathStyle": true, "timeoutSeconds": 7,
                    "endpoint": "https://minio.example:9000",
                } } },
                { "to": { "azureBlob": { "account": "account", "container": "docs" } } },
                { "to": { "gcs": { "bucket": "b" } } },
            ],
            "verify": { "enabled": true, "every": "5s", "for": ["aws"], "longestCache": "1h" },
        })
    }

    #[test]
    fn a_spec_is_an_entry_of_the_file_in_its_own_namespace() {
        let entry = entry(&full(), &limits()).unwrap();
        assert_eq!(entry["sources"][1]["configMap"]["namespace"], "ours");
        assert_eq!(entry["sources"][0]["kubeApiserver"]["canary"]["namespace"], "ours");
        assert_eq!(entry["sources"][3]["ring"]["configMap"]["kubeconfig"], "kubeconfig");
        assert_eq!(entry["targets"][0]["to"]["directory"]["path"], "/srv/www/a/b");
        let config = IssuerConfig::of_entry(entry).unwrap().value;
        assert_eq!(config.verify.ca.as_deref(), Some(Path::new("/etc/ca.pem")));
        assert_eq!((config.sources.len(), config.targets.len(), config.max_age_seconds), (4, 4, 60));
        let bare = json!({ "url": "https://a.example", "sources": [{ "kubeApiserver": {} }] });
        let bare = super::entry(&bare, &ObjectLimits::default()).unwrap();
        assert!(bare.get("verify").is_none());
        assert!(IssuerConfig::of_entry(bare).is_ok());
    }

    #[test]
    fn what_takes_files_credentials_or_other_namespaces_is_refused_by_name() {
        for (pointer, value, word) in [
            ("/sources/0", json!({ "files": { "paths": ["/etc/passwd"] } }), "`sources[].files.paths[]`"),
            ("/sources/3", json!({ "ring": { "directory": "/ring" } }), "`sources[].ring.directory`"),
            ("/sources/1/configMap/namespace", json!("theirs"), "`sources[].configMap.namespace`"),
            ("/sources/1/configMap/kubeconfig", json!("k"), "`sources[].configMap.kubeconfig`"),
            ("/sources/2/secret/namespace", json!("kube-system"), "`sources[].secret.namespace`"),
            (
                "/sources/0/kubeApiserver/endpoints",
                json!(["https://x"]),
                "`sources[].kubeApiserver.endpoints[]`",
            ),
            ("/sources/0/kubeApiserver/canary/namespace", json!("x"), "canary.namespace`"),
            ("/targets/0/to/adopt", json!(true), "`targets[].to.adopt`"),
            ("/targets/1/to/s3/credentialsFile", json!("c"), "`targets[].to.s3.credentialsFile`"),
            ("/targets/1/to/s3/profile", json!("c"), "`targets[].to.s3.profile`"),
            ("/targets/1/to/s3/endpoint", json!("https://evil.example"), "resources.endpoints"),
            ("/targets/3/to/gcs/endpoint", json!("https://evil.example"), "resources.endpoints"),
            ("/targets/2/to/azureBlob/clientId", json!("c"), "`targets[].to.azureBlob.clientId`"),
            ("/targets/0/to/directory/path", json!("/etc"), "no folder that an object may name"),
            ("/targets/0/to/directory/path", json!("a/../../etc"), "no folder that an object may name"),
            ("/targets/0/to/directory/path", json!("a/.well-known"), "no folder that an object may name"),
            ("/targets/0/to/directory/path", json!("a/openid/v1/jwks"), "no folder that an object may name"),
            ("/targets/0/to/directory/path", json!(7), "no folder that an object may name"),
            ("/verify/ca", json!("/etc/shadow"), "`verify.ca`"),
            ("/verify/resolve", json!(["a:443:127.0.0.1"]), "`verify.resolve[]`"),
            ("/verify/allowJwksHosts", json!(["a"]), "`verify.allowJwksHosts[]`"),
            ("/sinks", json!([{ "vault": {} }]), "`sinks[].vault`"),
            ("/registrations", json!([{ "aws": {} }]), "`registrations[].aws`"),
            ("/declared", json!([0]), "`declared[]`"),
        ] {
            let mut spec = full();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            match spec.pointer_mut(parent).unwrap() {
                Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
                parent => insert(parent, field, value),
            }
            let refused = entry(&spec, &limits()).unwrap_err();
            assert!(refused.contains(word), "{pointer}: {refused}");
        }
        let no_directories = ObjectLimits { directory: None, ..limits() };
        assert!(entry(&full(), &no_directories).unwrap_err().contains("set `resources.directory`"));
        assert!(entry(&json!("a"), &limits()).unwrap_err().contains("no spec"));
    }

    /// A name with a dot in it looks like two; no field of the configuration has such a name.
    #[test]
    fn a_name_with_dots_passes_for_no_path() {
        let mut spec = full();
        insert(&mut spec, "verify.enabled", json!(true));
        let entry = entry(&spec, &limits()).unwrap();
        assert!(IssuerConfig::of_entry(entry).unwrap_err().contains("unknown field `verify.enabled`"));
    }

    #[test]
    fn what_the_types_refuse_is_refused_in_words() {
        for (pointer, value, word) in [
            ("/url", json!("http://a.example"), "https"),
            ("/retention", json!("0s"), "would withdraw a key while its tokens live"),
            ("/verify/every", json!("soon"), "is not a time"),
            ("/sources", json!([]), "has no `sources`"),
            ("/targets/1/to/s3/bucket", json!("s3://b"), "expected a bucket's name alone"),
            ("/targets/0/publicUrl", json!("ftp://b"), "`publicUrl`"),
            ("/targets/3/to/name", json!("www"), "two targets are called \"www\""),
            ("/verify/for", json!(["nobody"]), "nobody"),
        ] {
            let mut spec = full();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            insert(spec.pointer_mut(parent).unwrap(), field, value);
            let refused = IssuerConfig::of_entry(entry(&spec, &limits()).unwrap()).unwrap_err();
            assert!(refused.contains(word), "{pointer}: {refused}");
        }
    }

    /// The paths that a schema has values for.
    fn paths(schema: &Value, path: String, found: &mut BTreeSet<String>) {
        if let Some(fields) = schema["properties"].as_object() {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, schema) in fields {
                paths(schema, format!("{path}{dot}{name}"), found);
            }
        } else if schema["items"].is_object() {
            paths(&schema["items"], format!("{path}[]"), found);
        } else {
            found.insert(path);
        }
    }

    #[test]
    fn the_definition_has_what_an_object_may_say_and_nothing_else() {
        let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut defined = BTreeSet::new();
        paths(schema, String::new(), &mut defined);
        let listed: BTreeSet<String> = MAY_SAY.map(str::to_owned).into();
        assert_eq!(defined, listed);
        let mut said = Vec::new();
        list_paths(&full(), String::new(), &mut said);
        let said: BTreeSet<String> = said.into_iter().collect();
        let unsaid: Vec<_> = listed.difference(&said).collect();
        // Each of these excludes another, or is said of another place as well.
        let excluded = [
            "configMap.labelSelector",
            "secret.name",
            "azureBlob.endpoint",
            "azureBlob.prefix",
            "azureBlob.timeoutSeconds",
            "gcs.endpoint",
            "gcs.prefix",
            "gcs.timeoutSeconds",
        ];
        assert!(unsaid.iter().all(|path| excluded.iter().any(|end| path.ends_with(end))), "{unsaid:?}");
    }
}
