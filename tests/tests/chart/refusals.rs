//! Values that are refused, each with a sentence that names the value.

use anyhow::{Context as _, Result, ensure};
use e2e::binary;
use serde_json::{Value, json};

use crate::helm::{CHART, Helm, NAMESPACE, RELEASE, one_issuer, over};

/// A signer that is complete.
fn signer(values: Value) -> Value {
    let whole = json!({
        "enabled": true, "highAvailability": true, "issuer": "https://id.example.com/cluster-a",
        "keys": { "files": { "signing": "/etc/kubernetes/pki/sa.key" } },
    });
    json!({ "signer": over(whole, values) })
}

/// What the schema refuses, and what it says; all at once.
fn misshapen() -> Vec<(Value, &'static str)> {
    let issuers = json!([
        { "url": "http://id.example.com" },
        { "url": "https://id.example.com/?a" },
        { "sources": [] },
        { "url": "https://a.example", "source": [] },
    ]);
    vec![
        (json!({ "isuer": {} }), "additional properties 'isuer' not allowed"),
        (json!({ "issuer": { "replicas": "two" } }), "'/issuer/replicas': got string, want integer"),
        (
            json!({ "issuer": { "issuers": issuers } }),
            "'/issuer/issuers/0/url': 'http://id.example.com' does not match",
        ),
        (json!({}), "'/issuer/issuers/1/url': 'https://id.example.com/?a' does not match"),
        (json!({}), "'/issuer/issuers/2': missing property 'url'"),
        (json!({}), "'/issuer/issuers/3': additional properties 'source' not allowed"),
        (json!({ "issuer": { "serve": { "port": 70000 } } }), "'/issuer/serve/port'"),
        (
            json!({ "webhook": { "certificate": { "mode": "own" } } }),
            "one of 'self', 'certManager', 'provided'",
        ),
        (json!({ "webhook": { "failurePolicy": "Deny" } }), "one of 'Ignore', 'Fail'"),
        (json!({ "webhook": { "drainSeconds": 61 } }), "'/webhook/drainSeconds'"),
        (json!({ "webhook": { "clouds": { "oracle": {} } } }), "'oracle' not allowed"),
        (json!({ "image": { "digest": "sha256:short" } }), "'/image/digest'"),
        (json!({ "logFormat": "xml" }), "one of 'json', 'text'"),
        (json!({ "monitoring": { "rules": { "render": true } } }), "'/monitoring/rules/render'"),
        (
            json!({ "signer": { "keys": { "files": { "signing": "sa.key" } } } }),
            "'/signer/keys/files/signing'",
        ),
        (json!({ "signer": { "maxTokenExpiration": "a day" } }), "'/signer/maxTokenExpiration'"),
    ]
}

/// What values may not be to each other, and what is said of it.
fn contradictory() -> Vec<(Value, &'static str)> {
    let ring = |namespace: &str| {
        signer(
            json!({ "keys": { "files": null, "ring": { "namespace": "ring", "vaultNamespace": namespace } } }),
        )
    };
    let both = json!({ "keys": { "ring": { "namespace": "ring", "vaultNamespace": "keys" } } });
    let named = json!({ "keys": { "files": null, "ring": { "namespace": "ring", "vaultNamespace": "keys", "nodes": ["a"] } } });
    let webhook = |certificate: Value| json!({ "webhook": { "certificate": certificate } });
    let private = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
    vec![
        (json!({ "issuer": { "issuers": [] } }), "issuer.issuers is empty; expected at least one entry"),
        (
            json!({ "issuer": { "issuers": [{ "url": "https://a.example" }, { "url": "https://a.example" }] } }),
            "has https://a.example twice; merge",
        ),
        (
            json!({ "issuer": { "serve": { "enabled": false } } }),
            "nobody could read the documents of https://id.example.com/cluster-a",
        ),
        (json!({ "issuer": { "enabled": false }, "webhook": { "enabled": false } }), "nothing would run"),
        (
            json!({ "issuer": { "serve": { "certificate": { "mode": "certManager" } } } }),
            "issuerRef has no name",
        ),
        (json!({ "issuer": { "admin": { "port": 8443 } } }), "are both 8443; choose two"),
        (json!({ "webhook": { "port": 9440 } }), "are both 9440; choose two"),
        (webhook(json!({ "mode": "provided" })), "has no certificate in PEM"),
        (
            webhook(json!({ "mode": "provided", "caBundle": private })),
            "every reader of the registration would see",
        ),
        (signer(json!({ "highAvailability": false })), "after a power cut of every node"),
        (signer(json!({ "issuer": "" })), "signer.issuer is empty"),
        (signer(json!({ "keys": { "files": null } })), "neither of signer.keys.files and signer.keys.ring"),
        (signer(both), "both of signer.keys.files"),
        (
            signer(json!({ "rotation": { "schedule": { "byHand": true } } })),
            "signer.rotation takes signer.keys.ring with nodes",
        ),
        (
            signer(over(named.clone(), json!({ "rotation": { "signers": [] } }))),
            "signer.rotation has signers, which is known",
        ),
        (
            signer(over(named, json!({ "rotation": { "census": {} } }))),
            "the right to read every Secret of the cluster",
        ),
        (ring(NAMESPACE), "names the namespace chancery, where other things are"),
        (ring("kube-system"), "names the namespace kube-system, where other things are"),
    ]
}

#[tokio::test]
async fn wrong_values_are_refused_with_a_sentence() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let all = misshapen().into_iter().fold(one_issuer(), |all, (values, _)| over(all, values));
    let said = helm.template(RELEASE, &all, &[]).await?.refusal()?;
    for (_, sentence) in misshapen() {
        ensure!(said.contains(sentence), "{sentence:?} is missing in {said}");
    }
    for (values, sentence) in contradictory() {
        let values = over(one_issuer(), values);
        let said =
            helm.template(RELEASE, &values, &[]).await?.refusal().with_context(|| values.to_string())?;
        ensure!(said.contains(sentence), "{sentence:?} is missing in {said:?}");
    }
    Ok(())
}

/// Every value of values.yaml is known to the schema, with its own default.
#[tokio::test]
async fn the_schema_knows_every_value() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(format!("{CHART}/values.yaml"))?)?;
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{CHART}/values.schema.json"))?)?;
    known(&values, &schema, &schema, "")?;
    let rendered = Helm::new()?.render(&over(values, one_issuer()), &[]).await?;
    ensure!(rendered.names() == Helm::new()?.render(&one_issuer(), &[]).await?.names());
    Ok(())
}

fn known(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<()> {
    let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let schema = reference.and_then(|it| root.pointer(it)).unwrap_or(schema);
    let (Some(values), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else {
        return Ok(());
    };
    for (name, value) in values {
        let below = properties.get(name).with_context(|| format!("{path}/{name} is not in the schema"))?;
        known(value, below, root, &format!("{path}/{name}"))?;
    }
    let unknown = properties.keys().find(|name| !values.contains_key(*name) && *name != "global");
    let is_free = values.is_empty();
    ensure!(is_free || unknown.is_none(), "{path}/{unknown:?} is in the schema and not in values.yaml");
    Ok(())
}
