//! Every rule of the definition, both ways, in a namespace that nobody follows.

use anyhow::{Context as _, Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::stage::{Stage, object};

const NAMESPACE: &str = "rules";

/// A spec with `value` at `pointer`.
fn with(pointer: &str, value: Value) -> Value {
    let mut spec = json!({
        "url": "https://id.example.com/a",
        "sources": [{ "configMap": { "name": "keys" } }],
        "targets": [{ "to": { "s3": { "bucket": "b" } } }],
        "verify": {},
    });
    let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(Value::Object(fields)) = spec.pointer_mut(parent) {
        fields.insert(field.to_owned(), value);
    }
    spec
}

/// A spec that the API server takes, a neighbour that it refuses, and what it says.
type Rule = (Value, Value, &'static str);

fn at(pointer: &'static str, good: Value, bad: Value, why: &'static str) -> Rule {
    (with(pointer, good), with(pointer, bad), why)
}

fn rules() -> Vec<Rule> {
    vec![
        at(
            "/url",
            json!("https://a.example/b"),
            json!("http://a.example/b"),
            "an issuer begins with https://",
        ),
        at("/url", json!("https://a.example/b"), json!("https://a.example/?b"), "neither query nor fragment"),
        at("/url", json!("https://a.example/b"), json!("https://a.example/#b"), "neither query nor fragment"),
        at("/url", json!("https://a.example"), Value::Null, "url: Required value"),
        at("/owner", json!("team-a"), json!("team a"), "should match"),
        at("/maxAgeSeconds", json!(60), json!(-1), "greater than or equal to 0"),
        at("/retention", json!("1d 12h"), json!("soon"), "should match"),
        at("/verify/every", json!("60s"), json!("-1s"), "should match"),
        at("/verify/for", json!(["aws", "azure"]), json!(["aws", "aws"]), "Duplicate value"),
    ]
}

fn rules_of_sources() -> Vec<Rule> {
    let (one, two) =
        ("expected exactly one of kubeApiserver", "expected exactly one of name and labelSelector");
    let source = |good: Value, bad: Value, why| at("/sources", json!([good]), json!([bad]), why);
    vec![
        at("/sources", json!([{ "kubeApiserver": {} }]), json!([]), "should have at least 1 items"),
        source(json!({ "secret": { "name": "s" } }), json!({ "name": "none" }), one),
        source(
            json!({ "ring": { "configMap": { "name": "r" } } }),
            json!({ "kubeApiserver": {}, "configMap": { "name": "c" } }),
            one,
        ),
        source(
            json!({ "configMap": { "labelSelector": "a=b", "keys": ["*.pub"] } }),
            json!({ "configMap": { "labelSelector": "a=b", "name": "c" } }),
            two,
        ),
        source(json!({ "secret": { "labelSelector": "a=b" } }), json!({ "secret": {} }), two),
        source(
            json!({ "secret": { "name": "s", "fields": ["sa.pub", "tls.crt"] } }),
            json!({ "secret": { "name": "s", "fields": ["tls.key"] } }),
            "should match",
        ),
        source(
            json!({ "kubeApiserver": { "canary": { "serviceAccount": "c" }, "pollSeconds": 1 } }),
            json!({ "kubeApiserver": { "pollSeconds": 0 } }),
            "greater than or equal to 1",
        ),
    ]
}

fn rules_of_targets() -> Vec<Rule> {
    let one = "expected exactly one of directory";
    let to =
        |good: Value, bad: Value, why| at("/targets", json!([{ "to": good }]), json!([{ "to": bad }]), why);
    let public = |url: &str| json!([{ "to": { "s3": { "bucket": "b" } }, "publicUrl": url }]);
    vec![
        to(json!({ "gcs": { "bucket": "b" } }), json!({ "name": "none" }), one),
        to(
            json!({ "directory": { "path": "a/b-1" } }),
            json!({ "directory": { "path": "a" }, "gcs": { "bucket": "b" } }),
            one,
        ),
        to(
            json!({ "directory": { "path": "a..b" } }),
            json!({ "directory": { "path": "a/../b" } }),
            "should match",
        ),
        to(json!({ "directory": { "path": "a" } }), json!({ "directory": { "path": "/a" } }), "should match"),
        to(
            json!({ "azureBlob": { "account": "abc", "container": "$web" } }),
            json!({ "azureBlob": { "account": "abc", "endpoint": "https://e", "container": "c" } }),
            "expected exactly one of account and endpoint",
        ),
        to(
            json!({ "s3": { "bucket": "b", "timeoutSeconds": 300 } }),
            json!({ "s3": { "bucket": "b", "timeoutSeconds": 301 } }),
            "less than or equal to 300",
        ),
        at(
            "/targets",
            public("https://b.example/x"),
            public("https://me@b.example/x"),
            "without user, query and fragment",
        ),
    ]
}

/// Each lets the good in and says what is wrong; the URL stays what it is; an unknown field is refused by whoever asks
/// strictly, as kubectl does.
pub async fn hold(stage: &Stage) -> Result<()> {
    stage.server.create("/api/v1/namespaces", &json!({ "metadata": { "name": NAMESPACE } })).await?;
    let api = stage.api_in(NAMESPACE);
    let create = async |name: String, spec: Value| {
        let made = api.create(&PostParams::default(), &object(&name, spec)).await;
        made.map(drop).map_err(|error| error.to_string())
    };
    let rules = [rules(), rules_of_sources(), rules_of_targets()].into_iter().flatten();
    for (number, (good, bad, why)) in rules.enumerate() {
        let taken = create(format!("good-{number}"), good.clone()).await;
        ensure!(taken.is_ok(), "{good}: {taken:?}");
        let refused = create(format!("bad-{number}"), bad.clone()).await;
        ensure!(refused.as_ref().is_err_and(|said| said.contains(why)), "{bad}: {refused:?}");
    }
    let page = std::fs::read_to_string("../docs/issuer-resource.md")?;
    let sample =
        page.split("```yaml\n").nth(2).and_then(|rest| rest.split("```").next()).context("no sample")?;
    let sample: Value = serde_saphyr::from_str(sample)?;
    let taken = create("sample".to_owned(), sample["spec"].clone()).await;
    ensure!(taken.is_ok() && sample["spec"]["url"].is_string(), "{sample}: {taken:?}");
    let change = async |spec: Value| {
        let changed =
            api.patch("good-0", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await;
        changed.map(drop).map_err(|error| error.to_string())
    };
    let moved = change(json!({ "url": "https://b.example" })).await;
    ensure!(moved.as_ref().is_err_and(|said| said.contains("cannot change")), "{moved:?}");
    change(json!({ "url": "https://a.example/b", "maxAgeSeconds": 5 })).await.map_err(anyhow::Error::msg)?;
    let strict = format!("/apis/chancery.dev/v1alpha1/namespaces/{NAMESPACE}/issuers?fieldValidation=Strict");
    let mut unknown = serde_json::to_value(object("strict", with("/sinks", json!([]))))?;
    unknown["metadata"]["namespace"] = json!(NAMESPACE);
    let (status, said) = stage.server.post(&strict, stage.server.admin_token(), &unknown).await?;
    let said = said.to_string();
    ensure!(status == 400 && said.contains("unknown field \\\"spec.sinks\\\""), "{status}: {said}");
    api.get("good-0").await.map(drop).context("what was taken is there")
}
