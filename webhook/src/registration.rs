//! What tells kube-apiserver to ask us: a MutatingWebhookConfiguration.
//!
//! It has two entries. A pod that asks by its label is kept out while nobody answers, since it would run without what it
//! asked for; no other pod ever is. Neither is asked for pods that we, or the cluster, need to start: mirror pods, those of
//! `kube-system` and of our own namespace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::azure;

/// The namespaces of the cluster's own parts.
pub const EXCLUDED: [&str; 2] = ["kube-system", "kube-node-lease"];

/// Its usual name.
pub const NAME: &str = "chancery-webhook";

/// How long kube-apiserver waits for an answer, in seconds. We take a millisecond, or as long as one look at the API server.
const TIMEOUT: u8 = 5;

/// Where kube-apiserver finds us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// Beside the cluster.
    Url(String),
}

/// Who says by whom the webhook's certificate is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaBundle {
    /// We do, by certificates in PEM.
    Pem(String),
    /// The webhook itself writes the field.
    SelfSigned,
    /// cert-manager's CA injector writes it, from the Secret of a Certificate, `NAMESPACE/NAME`
    /// (cert-manager `pkg/controller/cainjector`, annotation `cert-manager.io/inject-ca-from`).
    CertManager(String),
}

/// The object. `own_namespace` is where our pods run.
pub fn registration(address: &Address, own_namespace: &str, bundle: &CaBundle) -> Value {
    let mut client = match address {
        Address::Service { namespace, name, port } => {
            json!({ "service": { "namespace": namespace, "name": name, "port": port, "path": "/mutate" } })
        }
        Address::Url(url) => json!({ "url": url }),
    };
    if let (Some(client), CaBundle::Pem(pem)) = (client.as_object_mut(), bundle) {
        client.insert("caBundle".to_owned(), STANDARD.encode(pem).into());
    }
    let mut metadata = json!({ "name": NAME, "labels": { "app.kubernetes.io/name": "chancery" } });
    if let (Some(metadata), CaBundle::CertManager(certificate)) = (metadata.as_object_mut(), bundle) {
        metadata.insert("annotations".to_owned(), json!({ "cert-manager.io/inject-ca-from": certificate }));
    }
    let by_label = |operator: &str| json!([{ "key": azure::USE, "operator": operator, "values": ["true"] }]);
    let entry = |name: &str, failure: &str, labels: Value| {
        let namespaces =
            EXCLUDED.into_iter().chain([own_namespace]).collect::<std::collections::BTreeSet<_>>();
        json!({
            "name": name,
            "clientConfig": client,
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced" }],
            "failurePolicy": failure,
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT,
            "admissionReviewVersions": ["v1"],
            "objectSelector": { "matchExpressions": labels },
            "namespaceSelector": { "matchExpressions": [
                { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": namespaces },
            ] },
            "matchConditions": [{
                "name": "no-mirror-pod",
                "expression": "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
            }],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [
            entry("pods.webhook.chancery.dev", "Ignore", by_label("NotIn")),
            entry("labelled-pods.webhook.chancery.dev", "Fail", by_label("In")),
        ],
    })
}
