use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::fields::{LABEL, RepositorySecret};
use super::*;
use crate::error::Class;

fn secret(fields: &[(&str, &str)]) -> RepositorySecret {
    let labels = BTreeMap::from([(LABEL.to_owned(), "repository".to_owned())]);
    let value = |(name, value): &(&str, &str)| ((*name).to_owned(), Zeroizing::new((*value).to_owned()));
    RepositorySecret { labels, values: fields.iter().map(value).collect() }
}

fn account(annotations: &[(&str, &str)]) -> ServiceAccount {
    let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let name = service_account("argocd", "production").unwrap();
    ServiceAccount { name, uid: "u".to_owned(), annotations: annotations.collect() }
}

fn all() -> ServiceAccount {
    account(&[
        ("eks.amazonaws.com/role-arn", "arn:aws:iam::123456789012:role/argocd-prod"),
        ("azure.workload.identity/client-id", "11111111-2222-3333-4444-555555555555"),
        ("azure.workload.identity/tenant-id", "11111111-2222-3333-4444-555555555556"),
        ("iam.gke.io/gcp-service-account", "argocd@project.iam.gserviceaccount.com"),
        (
            "gcp.auth.fluxcd.io/workload-identity-provider",
            "projects/123/locations/global/workloadIdentityPools/pool/providers/argo",
        ),
    ])
}

fn login(fields: &[(&str, &str)]) -> Result<Login, ExchangeError> {
    let repository = secret(fields).repository()?;
    let settings = Settings { trust_domain: Some("example.org".to_owned()), ..Settings::default() };
    repository.login(repository.identity.as_ref().unwrap(), &all(), &settings)
}

const ECR: &str = "oci://123456789012.dkr.ecr.us-west-2.amazonaws.com/prod-charts";

#[test]
fn a_01_a_16_a_secret_of_today_is_read_as_it_is() {
    let plain =
        secret(&[("type", "helm"), ("url", "https://charts.example/x"), ("password", "p"), ("unknown", "x")]);
    let repository = plain.repository().unwrap();
    assert_eq!((&repository.identity, repository.has_static), (&None, true));
    let azure = secret(&[("url", ECR), ("useAzureWorkloadIdentity", "true")]).repository().unwrap();
    assert!(azure.has_static && azure.identity.is_none(), "Argo CD's own identity stays Argo CD's");
    assert!(!format!("{plain:?}").contains("\"p\""));
    let other = RepositorySecret { labels: BTreeMap::new(), ..plain };
    assert_eq!(other.repository().unwrap_err().code(), "argocd-repository", "no other Secret is read");
}

#[test]
fn a_02_each_project_has_a_service_account_of_its_own() {
    for (project, name) in
        [("production", "argocd-project-production"), ("", "argocd-global"), ("a.b", "argocd-project-a.b")]
    {
        assert_eq!(service_account("argocd", project).unwrap().name(), name);
    }
    for project in ["Production", "a/b", "../x", "a_b", "-", &"x".repeat(250)] {
        assert!(service_account("argocd", project).is_err(), "{project}");
    }
}

#[test]
fn a_04_each_provider_has_its_authenticator_which_may_be_overridden() {
    use Authenticator::{Acr, Ecr, Http, Passthrough};
    let http = ("workloadIdentityPathTemplate", "/token");
    for (provider, url, other, expected) in [
        ("aws", ECR, None, Some(Ecr)),
        ("aws", ECR, Some("ecr"), Some(Ecr)),
        ("aws", ECR, Some("passthrough"), None),
        ("aws", "oci://registry.example/x", None, None),
        ("gcp", "oci://europe-west1-docker.pkg.dev/p/charts", None, Some(Passthrough)),
        ("azure", "oci://myregistry.azurecr.io/charts", None, Some(Acr)),
        ("azure", "https://dev.azure.com/org/project/_git/repo", Some("passthrough"), Some(Passthrough)),
        ("k8s", "oci://quay.io/myorg/charts", None, Some(Http)),
        ("k8s", "oci://zot.example:5000/charts", Some("passthrough"), Some(Passthrough)),
        ("k8s", "oci://quay.io/myorg/charts", Some("acr"), None),
        ("spiffe", "oci://quay.io/myorg/charts", None, Some(Http)),
        ("vault", ECR, None, None),
    ] {
        let mut fields =
            vec![("url", url), ("project", "production"), ("workloadIdentityProvider", provider), http];
        fields.extend(other.map(|other| ("workloadIdentityAuthenticator", other)));
        let found = login(&fields);
        assert_eq!(
            found.as_ref().ok().map(|login| login.authenticator),
            expected,
            "{provider} {other:?} {found:?}"
        );
    }
    let fields = |project| {
        [("url", "oci://quay.io/x"), ("project", project), ("workloadIdentityProvider", "spiffe"), http]
    };
    for (project, id) in [
        ("production", "spiffe://example.org/argocd/project/production"),
        ("", "spiffe://example.org/argocd/global"),
    ] {
        assert_eq!(login(&fields(project)).unwrap().subject, Subject::Spiffe(id.to_owned()));
    }
}

#[test]
fn a_10_each_override_changes_one_thing() {
    let with = |provider, url, more: &[(&'static str, &'static str)]| {
        let mut fields = vec![("url", url), ("workloadIdentityProvider", provider)];
        fields.extend(more);
        login(&fields)
    };
    let plain = with("aws", ECR, &[]).unwrap().provider;
    let audience = with("aws", ECR, &[("workloadIdentityAudience", "other")]).unwrap().provider;
    assert_eq!((plain.audience().as_str(), audience.audience().as_str()), ("sts.amazonaws.com", "other"));
    assert_eq!(plain.host(), audience.host());
    let sts = [("workloadIdentityTokenURL", "https://sts.us-east-1.amazonaws.com")];
    let elsewhere = with("aws", ECR, &sts).unwrap().provider;
    assert_eq!(
        (elsewhere.host(), elsewhere.audience().as_str()),
        (Some("sts.us-east-1.amazonaws.com"), "sts.amazonaws.com")
    );
    for (provider, url, hostile) in [
        ("aws", ECR, "https://sts.amazonaws.com.evil.example"),
        ("aws", ECR, "http://127.0.0.1:1"),
        ("azure", "oci://myregistry.azurecr.io/x", "https://login.evil.example"),
        ("gcp", "oci://gcr.io/x", "https://sts.evil.example/v1/token"),
        ("k8s", "oci://quay.io/x", "https://quay.io/token"),
    ] {
        let error = with(provider, url, &[("workloadIdentityTokenURL", hostile)]).unwrap_err();
        assert_eq!(error.class(), Class::Permanent, "{hostile}");
    }
}

#[test]
fn a_11_the_fields_of_a_template_are_read_and_lead_nowhere_else() {
    let quay = [
        ("url", "oci://quay.io/myorg/charts"),
        ("workloadIdentityProvider", "k8s"),
        ("workloadIdentityPathTemplate", "/oauth2/federation/robot/token"),
        ("workloadIdentityMethod", "GET"),
        ("workloadIdentityAuthType", "basic"),
        ("workloadIdentityUsername", "myorg+argocd"),
        ("workloadIdentityResponseTokenField", "token"),
    ];
    let found = login(&quay).unwrap();
    let Provider::Template(template) = &found.provider else { panic!() };
    assert_eq!(
        (found.host.as_str(), template.server.host(), &template.method),
        ("quay.io", "quay.io", &Method::GET)
    );
    assert_eq!(
        (template.authentication, template.values.repository.as_str()),
        (Authentication::Basic, "myorg/charts")
    );
    assert_eq!(template.audience, "https://quay.io");
    for (field, value) in [
        ("workloadIdentityAuthHost", "evil.example"),
        ("workloadIdentityAuthHost", "127.0.0.1"),
        ("workloadIdentityMethod", "DELETE"),
        ("workloadIdentityAuthType", "digest"),
        ("workloadIdentityParams", "[]"),
        ("workloadIdentityPathTemplate", "/x?token={token}"),
        ("workloadIdentityPathTemplate", "//evil.example/x"),
    ] {
        let mut fields = quay.to_vec();
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        assert!(login(&fields).is_err(), "{field}: {value}");
    }
    for url in
        ["ssh://git@example.org/x", "git@example.org:x", "https://user@example.org/x", "", "https:///x"]
    {
        let repository = Repository { url: url.to_owned(), ..Repository::default() };
        assert!(repository.host().is_err(), "{url}");
    }
}
