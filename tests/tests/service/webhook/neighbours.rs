//! Another vendor's webhook beside ours, in one cluster: before us it adds what we would add, after us another container.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use e2e::authority::{Authority, LOOPBACK};
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::READY;
use e2e::scratch::Scratch;
use e2e::stand_in::{self, Answer, Api, StandIn};
use e2e::tls_front::TlsFront;
use e2e::wait;
use hyper::Request;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{create, pod};

const MOUNT: &str = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// Answers as amazon-eks-pod-identity-webhook does, or adds a container.
struct Vendor {
    role: String,
}

impl Api for Vendor {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let review: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (uid, pod) = (&review["request"]["uid"], &review["request"]["object"]);
        let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
        let patch = match request.uri().path() {
            // Whoever has the variables is left alone.
            "/identity" if pod["spec"]["containers"][0].get("env").is_none() => self.identity(),
            "/sidecar" if containers == 1 => {
                json!([{ "op": "add", "path": "/spec/containers/-", "value": { "name": "mesh", "image": "mesh:1" } }])
            }
            _ => json!([]),
        };
        let patch = STANDARD.encode(patch.to_string());
        let response = json!({ "uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch });
        stand_in::json(
            200,
            &json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }),
        )
    }
}

impl Vendor {
    /// To the first container alone, as its old versions did, by a volume of another name than ours.
    fn identity(&self) -> Value {
        let token = json!({ "audience": "sts.amazonaws.com", "expirationSeconds": 86400, "path": "token" });
        let volume =
            json!({ "name": "vendor-token", "projected": { "sources": [{ "serviceAccountToken": token }] } });
        let mount = json!({ "name": "vendor-token", "mountPath": MOUNT, "readOnly": true });
        let variables = json!([
            { "name": "AWS_ROLE_ARN", "value": self.role },
            { "name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": format!("{MOUNT}/token") },
        ]);
        json!([
            { "op": "add", "path": "/spec/volumes", "value": [volume] },
            { "op": "add", "path": "/spec/containers/0/volumeMounts", "value": [mount] },
            { "op": "add", "path": "/spec/containers/0/env", "value": variables },
        ])
    }
}

/// Fixture 34: the pod is valid, and each container has everything once, by one volume.
pub async fn another_vendor_injects_too(cluster: &KubeApiserver, role: &str) -> Result<()> {
    let dir = Scratch::new("vendor")?;
    let authority = Authority::new(dir.path())?;
    let vendor = StandIn::start(Arc::new(Vendor { role: role.to_owned() })).await?;
    let front = TlsFront::start(vendor.url(), &authority.issue(dir.path(), &LOOPBACK)?).await?;
    // kube-apiserver asks in the order of the names.
    for (name, path) in [("a-vendor", "identity"), ("z-vendor", "sidecar")] {
        let entry = json!({
            "name": format!("{path}.vendor.example"),
            "clientConfig": { "url": format!("{}/{path}", front.url()), "caBundle": STANDARD.encode(authority.pem()) },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"] }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": super::faults::PATIENT,
        });
        cluster.create(CONFIGURATIONS, &json!({ "metadata": { "name": name }, "webhooks": [entry] })).await?;
    }
    let shared = wait::value_within(READY, "a pod that all three have looked at", async || {
        let (status, pod) = create(cluster, &pod("shared", "app"), true).await?;
        ensure!(status == StatusCode::CREATED, "{status}: {pod}");
        let spec = &pod["spec"];
        let is_vendors = spec["volumes"][0]["name"] == "vendor-token";
        Ok((is_vendors && spec["containers"][1]["name"] == "mesh").then_some(pod))
    })
    .await?;
    let spec = &shared["spec"];
    ensure!(spec["volumes"].as_array().is_some_and(|volumes| volumes.len() == 1), "{shared}");
    for container in ["/initContainers/0", "/containers/0", "/containers/1"] {
        let list = |field: &str| spec.pointer(&format!("{container}/{field}")).and_then(Value::as_array);
        let mounts = list("volumeMounts").map_or(0, Vec::len);
        let named = |name: &str| list("env").into_iter().flatten().filter(|it| it["name"] == name).count();
        ensure!((mounts, named("AWS_ROLE_ARN"), named("AWS_REGION")) == (1, 1, 1), "{container}: {shared}");
    }
    let client = cluster.kube_client().await?;
    for name in ["a-vendor", "z-vendor"] {
        let api = kube::Api::<k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration>::all(
            client.clone(),
        );
        api.delete(name, &Default::default()).await?;
    }
    // It fails open only where that was asked for: nobody may be kept out by one that is gone.
    wait::value_within(READY, "a pod that we alone have looked at", async || {
        let (status, pod) = create(cluster, &pod("alone", "app"), true).await?;
        let is_ours = pod["spec"]["volumes"][0]["name"] == "aws-iam-token";
        let one = pod["spec"]["containers"].as_array().is_some_and(|containers| containers.len() == 1);
        Ok((status == StatusCode::CREATED && is_ours && one).then_some(()))
    })
    .await
}
