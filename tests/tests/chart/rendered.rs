//! What values come to, without a cluster.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use chancery_issuer::config::Config;
use e2e::{binary, chancery};
use serde_json::{Value, json};

use crate::helm::{CHART, Helm, NAMESPACE, RELEASE, Rendered, one_issuer, over};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

/// What the least values come to.
const USUAL: [&str; 21] = [
    "ClusterRole/chancery-webhook",
    "ClusterRoleBinding/chancery-issuer-discovery",
    "ClusterRoleBinding/chancery-webhook",
    "ConfigMap/chancery-issuer",
    "ConfigMap/chancery-report",
    "ConfigMap/chancery-webhook",
    "CustomResourceDefinition/issuers.chancery.dev",
    "CustomResourceDefinition/keyrings.chancery.dev",
    "Deployment/chancery-issuer",
    "Deployment/chancery-webhook",
    "MutatingWebhookConfiguration/chancery-webhook",
    "PodDisruptionBudget/chancery-issuer",
    "PodDisruptionBudget/chancery-webhook",
    "Role/chancery-issuer",
    "Role/chancery-webhook",
    "RoleBinding/chancery-issuer",
    "RoleBinding/chancery-webhook",
    "Service/chancery-issuer",
    "Service/chancery-webhook",
    "ServiceAccount/chancery-issuer",
    "ServiceAccount/chancery-webhook",
];

/// An entry of cases.yaml.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    #[serde(default)]
    values: Option<Value>,
    #[serde(default)]
    apis: Vec<String>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

impl Case {
    fn expected(&self) -> BTreeSet<String> {
        let is_left_out = |name: &str| {
            let any = name.split_once('/').map(|(_, name)| format!("*/{name}"));
            self.without.iter().any(|it| it == name || Some(it) == any.as_ref())
        };
        let usual = USUAL.into_iter().filter(|name| !is_left_out(name));
        usual.map(str::to_owned).chain(self.also.iter().cloned()).collect()
    }
}

#[tokio::test]
async fn each_set_of_values_comes_to_its_objects_and_no_others() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("cases.yaml"))?;
    for case in cases {
        let expected = case.expected();
        let arguments: Vec<&str> = case.apis.iter().flat_map(|api| ["--api-versions", api]).collect();
        let values = over(one_issuer(), case.values.unwrap_or_else(|| json!({})));
        let rendered = helm.render(&values, &arguments).await?;
        ensure!(rendered.names() == expected, "{}: {:?}", case.what, rendered.names());
        everything_is_labelled(&rendered)?;
        // Strictly, as the service itself reads it.
        if expected.contains("ConfigMap/chancery-issuer") {
            let text = rendered.of("ConfigMap", "chancery-issuer")?["data"]["chancery.yaml"].as_str();
            Config::parse(text.unwrap_or_default(), Path::new("/etc/chancery/chancery.yaml"))?;
        }
    }
    Ok(())
}

fn everything_is_labelled(rendered: &Rendered) -> Result<()> {
    for object in &rendered.0 {
        let labels = &object["metadata"]["labels"];
        let is_extra = object["metadata"]["name"]
            .as_str()
            .is_some_and(|it| it.ends_with("-map") || it.ends_with("-text"));
        let is_ours = labels["app.kubernetes.io/instance"] == RELEASE
            && labels["app.kubernetes.io/managed-by"] == "Helm";
        ensure!(is_ours || is_extra, "{object}");
    }
    Ok(())
}

#[tokio::test]
async fn helm_itself_finds_nothing_to_mend() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let values = helm.values(&one_issuer())?;
    helm.run(&["lint", "--strict", CHART, "--values", &values]).await?.success()?;
    Ok(())
}

#[tokio::test]
async fn a_release_has_no_host_of_a_registry_unless_somebody_gives_one() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let image = async |values: Value| {
        let rendered = helm.render(&over(one_issuer(), values), &[]).await?;
        let image = rendered.pod("Deployment", "chancery-issuer")?["spec"]["containers"][0]["image"].clone();
        anyhow::Ok(image.as_str().unwrap_or_default().to_owned())
    };
    let usual = image(json!({})).await?;
    ensure!(!usual.contains('/') && usual.starts_with("chancery:"), "{usual}");
    let digest = format!("sha256:{}", "0a".repeat(32));
    let given =
        json!({ "image": { "repository": "registry.example/a/chancery", "tag": "1", "digest": digest } });
    ensure!(image(given).await? == format!("registry.example/a/chancery@{digest}"));
    Ok(())
}

#[tokio::test]
async fn the_registration_is_what_the_program_prints() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let dir = e2e::scratch::Scratch::new("registration")?;
    let ca = dir.write("ca.crt", PEM)?.display().to_string();
    let certificate = format!("{NAMESPACE}/chancery-webhook");
    for (mode, printed) in [
        (json!({ "mode": "self" }), vec!["--self-signed"]),
        (json!({ "mode": "certManager" }), vec!["--cert-manager", &certificate]),
        (json!({ "mode": "provided", "caBundle": PEM }), vec!["--ca", &ca]),
    ] {
        let values = over(one_issuer(), json!({ "webhook": { "certificate": mode } }));
        let rendered = helm.render(&values, &[]).await?;
        let rendered = rendered.of("MutatingWebhookConfiguration", "chancery-webhook")?;
        let arguments = [&["webhook", "registration", "--namespace", NAMESPACE], printed.as_slice()].concat();
        let printed: Value = serde_json::from_str(&chancery::run(&arguments).await?.success()?)?;
        ensure!(rendered["webhooks"] == printed["webhooks"], "{rendered:#}\n{printed:#}");
        ensure!(rendered["metadata"]["annotations"] == printed["metadata"]["annotations"], "{rendered:#}");
    }
    Ok(())
}

/// What was deployed by hand until now may do the same, and is told the same.
#[tokio::test]
async fn the_webhook_is_that_of_the_manifests() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let manifests = Rendered::read(&std::fs::read_to_string("../deploy/webhook.yaml")?)?;
    let rendered = Helm::new()?.render(&one_issuer(), &[]).await?;
    let name = "chancery-webhook";
    for kind in ["ClusterRole", "Role"] {
        let (ours, theirs) = (&rendered.of(kind, name)?["rules"], &manifests.of(kind, name)?["rules"]);
        ensure!(ours == theirs, "{kind}: {ours:#} and {theirs:#}");
    }
    let (ours, theirs) = (rendered.pod("Deployment", name)?, manifests.pod("Deployment", name)?);
    for pointer in [
        "/spec/containers/0/ports",
        "/spec/containers/0/readinessProbe",
        "/spec/containers/0/livenessProbe",
        "/spec/containers/0/securityContext",
        "/spec/priorityClassName",
        "/spec/terminationGracePeriodSeconds",
    ] {
        ensure!(ours.pointer(pointer) == theirs.pointer(pointer), "{pointer}: {ours:#}");
    }
    Ok(())
}

#[tokio::test]
async fn names_of_any_length_stay_legal_and_different() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let values = over(
        one_issuer(),
        json!({
            "webhook": { "certificate": { "mode": "certManager" } },
            "monitoring": { "monitor": { "render": "always", "kind": "ServiceMonitor" }, "dashboard": { "enabled": true } },
        }),
    );
    let mut seen = BTreeSet::new();
    for end in ["one", "two"] {
        let release = format!("{}-{end}", "a".repeat(49));
        let rendered = Rendered::read(&helm.template(&release, &values, &[]).await?.success()?)?;
        for name in rendered.names() {
            let is_definition = name.starts_with("CustomResourceDefinition/");
            let short = name.split_once('/').is_some_and(|(_, name)| name.len() <= 63);
            ensure!(short && (is_definition || seen.insert(name.clone())), "{name}");
        }
        // The name by which kube-apiserver asks is that of the certificate.
        let registration = rendered.0.iter().find(|it| it["kind"] == "MutatingWebhookConfiguration");
        let service =
            registration.map(|it| it["webhooks"][0]["clientConfig"]["service"].clone()).unwrap_or_default();
        let service = service["name"].as_str().unwrap_or_default();
        let certificate = rendered.of("Certificate", service)?;
        ensure!(
            certificate["spec"]["dnsNames"] == json!([format!("{service}.{NAMESPACE}.svc")]),
            "{certificate}"
        );
        rendered.of("Service", service)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_certificate_is_for_every_host_of_the_issuers() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let values = json!({
        "issuer": {
            "issuers": [
                { "url": "https://id.example.com/a" },
                { "url": "https://id.example.com:8443/b" },
                { "url": "https://192.0.2.1/c" },
                { "url": "https://[2001:db8::1]:443/d" },
            ],
            "serve": {
                "certificate": { "mode": "certManager", "issuerRef": { "name": "public" } },
                "extraHosts": ["other.example.com:444"],
            },
        },
    });
    let rendered = Helm::new()?.render(&values, &[]).await?;
    let spec = &rendered.of("Certificate", "chancery-issuer")?["spec"];
    ensure!(spec["dnsNames"] == json!(["other.example.com", "id.example.com"]), "{spec:#}");
    ensure!(spec["ipAddresses"] == json!(["192.0.2.1", "2001:db8::1"]), "{spec:#}");
    Ok(())
}

#[tokio::test]
async fn a_changed_configuration_is_a_new_pod_and_nothing_else_is() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let helm = Helm::new()?;
    let pods = async |values: Value| {
        let rendered = helm.render(&over(one_issuer(), values), &[]).await?;
        let pod = |name: &str| anyhow::Ok(rendered.pod("Deployment", name)?.clone());
        anyhow::Ok((pod("chancery-issuer")?, pod("chancery-webhook")?))
    };
    let first = pods(json!({})).await?;
    let replicas =
        pods(json!({ "issuer": { "replicas": 3 }, "webhook": { "failurePolicy": "Fail" } })).await?;
    ensure!(replicas == first);
    let region = pods(json!({ "webhook": { "clouds": { "aws": { "region": "eu-central-1" } } } })).await?;
    ensure!(region.0 == first.0 && region.1 != first.1);
    let issuer = pods(json!({ "issuer": { "report": { "events": false } } })).await?;
    ensure!(issuer.0 != first.0 && issuer.1 == first.1);
    Ok(())
}
