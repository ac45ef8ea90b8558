//! Everything of the crate that reads what somebody else wrote, by the folder of the corpus that is for it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::discovery::ObservedDiscovery;
use chancery_core::jwks::ObservedJwks;
use chancery_exchange::kubelet::{config, pattern, rbac};
use chancery_exchange::preflight::{Expectation, Strictness, check};
use chancery_exchange::provider::google::{self, Impersonation};
use chancery_exchange::provider::template::body::Body;
use chancery_exchange::provider::template::operator_server;
use chancery_exchange::provider::template::preset::Preset;
use chancery_exchange::provider::template::text::{PathText, Text, Values};
use chancery_exchange::provider::{AzureProvider, HttpTemplate, aws, azure};
use chancery_exchange::registry::{RegistryHost, acr, ecr, of_image};
use chancery_exchange::service_account::ServiceAccountName;
use chancery_exchange::{UnverifiedToken, git, kubelet, oauth};
use chancery_wire::HttpResponse;
use chancery_wire::xml::Element;
use jiff::Timestamp;
use zeroize::Zeroizing;

pub type Reader = fn(&str);

/// The folders, and who reads what is in them.
pub const READERS: [(&str, Reader); 8] = [
    ("answers", answers),
    ("documents", documents),
    ("git", git_request),
    ("kubelet", of_kubelet),
    ("settings", settings),
    ("templates", templates),
    ("tokens", tokens),
    ("xml", xml),
];

/// The signature of every token that is made here: nothing shows it.
const CANARY: &str = "c2VjcmV0LWNhbmFyeQ";

/// A header and claims in a line each, or a token as it is.
fn tokens(text: &str) {
    _ = UnverifiedToken::parse(text);
    let Some((header, claims)) = text.split_once('\n') else { return };
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let Ok(token) = UnverifiedToken::parse(&format!("{}.{}.{CANARY}", part(header), part(claims))) else {
        return;
    };
    let now = Timestamp::from_second(2_000_000_000).unwrap();
    for strictness in [Strictness::Strict, Strictness::Compatible] {
        let expected = Expectation {
            audiences: vec!["sts.amazonaws.com".to_owned()],
            issuer: Some("https://id.example/cluster-a".to_owned()),
            algorithms: vec!["RS256"],
            longest: Some(20_000),
            strictness,
            ..Expectation::default()
        };
        let preflight = check(&token, &expected, now);
        let told = format!("{preflight:?} {token:?} {:?}", preflight.verdict(&token));
        assert!(!told.contains(CANARY), "{told}");
    }
    _ = token.claims().service_account();
}

fn xml(text: &str) {
    if let Ok(root) = Element::parse(text) {
        _ = (
            root.text_of("Code"),
            root.find("Credentials").map(Element::text),
            root.children("Error").count(),
        );
    }
    answers(&format!("200\n{text}"));
    answers(&format!("400\n{text}"));
}

/// A status and a body.
fn answers(text: &str) {
    let (status, body) = text.split_once('\n').unwrap_or(("200", text));
    let status = status.parse().ok().and_then(|status| http::StatusCode::from_u16(status).ok());
    let answer = HttpResponse {
        status: status.unwrap_or(http::StatusCode::OK),
        version: http::Version::HTTP_11,
        peer: None,
        headers: http::HeaderMap::new(),
        body: Zeroizing::new(body.as_bytes().to_vec()),
    };
    let now = Timestamp::from_second(2_000_000_000).unwrap();
    let host = |text: &str| text.parse::<RegistryHost>().unwrap();
    let template = template("/t", "").unwrap();
    for read in [
        aws::answer::read(&answer, now),
        AzureProvider::read(&answer, now),
        Impersonation::read(&answer, now),
        Impersonation::read_id_token(&answer, now),
        oauth::read_token(&answer, now),
        ecr::read(&answer, &host("123456789012.dkr.ecr.eu-central-1.amazonaws.com"), now),
        ecr::read(&answer, &host("public.ecr.aws"), now),
        acr::read(&answer, &host("a.azurecr.io"), now),
        template.read(&answer, now),
    ] {
        // What cannot be used is told in words that fit a terminal.
        if let Err(error) = read {
            let told = error.to_string();
            assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told:?}");
        }
    }
}

fn template(path: &str, body: &str) -> Option<HttpTemplate> {
    // One that asks by GET, and one by POST.
    let preset = if body.is_empty() { Preset::Quay } else { Preset::JFrog };
    let preset = preset.template(operator_server("registry.example:8443").ok()?, values()).ok()?;
    let template =
        HttpTemplate { path: PathText::parse(path).ok()?, body: Body::parse(body).ok()?, ..preset };
    template.checked().ok()
}

fn values() -> Values {
    let names = ["scope", "identity", "provider", "mount", "role", "x"];
    let params: BTreeMap<String, String> =
        names.map(|name| (name.to_owned(), format!("{name}/..\"&=?#"))).into();
    Values {
        username: "org+robot".to_owned(),
        registry: "registry.example".to_owned(),
        repository: "team/app".to_owned(),
        params,
    }
}

/// The template that a file of the corpus holds.
pub fn template_of(text: &str) -> Option<HttpTemplate> {
    let (path, body) = text.split_once('\n').unwrap_or((text, ""));
    template(path, body)
}

/// A path, and a body in the lines after it. Whatever they are, a token stands in no URL and goes to no other host.
fn templates(text: &str) {
    _ = (Text::parse(text), operator_server(text));
    let Some(template) = template_of(text) else { return };
    let subject = UnverifiedToken::parse(&format!("eyJhbGciOiJSUzI1NiJ9.e30.{CANARY}")).unwrap();
    if let Ok(request) = template.request(&subject) {
        let url = request.url();
        assert!(!url.as_str().contains(CANARY), "{url}");
        assert_eq!((url.host_str(), url.port()), (Some("registry.example"), Some(8443)), "{url}");
    }
}

fn of_kubelet(text: &str) {
    if let Ok(request) = kubelet::Request::parse(text) {
        _ = (request.host(), of_image(&request.image));
    }
    if let Ok(document) = serde_json::from_str::<serde_json::Value>(text) {
        let context = config::Context {
            rbac: vec![document.clone()],
            images: vec!["registry.example:5000/a/b".to_owned()],
        };
        _ = (config::check(&document, &context), config::audiences(&document).len());
        _ = rbac::allows(&[document], "sts.amazonaws.com");
    }
    _ = (pattern::matches(text, "registry.example/a"), pattern::fault(text), pattern::host(text));
}

fn settings(text: &str) {
    _ = (text.parse::<aws::RoleArn>(), aws::RoleArn::of_server(text), text.parse::<aws::Region>());
    _ = (text.parse::<azure::TenantId>(), text.parse::<azure::ClientId>());
    _ = (text.parse::<google::WorkloadProvider>(), text.parse::<google::ServiceAccountEmail>());
    _ = (
        text.parse::<ServiceAccountName>(),
        text.parse::<RegistryHost>(),
        of_image(text),
        operator_server(text),
    );
    _ = (aws::partition::tenant_sts(text), aws::SessionName::of(text));
    #[cfg(feature = "spiffe")]
    {
        use chancery_exchange::subject::spiffe::{SpiffeId, WorkloadSocket};
        _ = (text.parse::<SpiffeId>(), text.parse::<WorkloadSocket>());
    }
}

fn documents(text: &str) {
    _ = (ObservedDiscovery::parse(text.as_bytes()), ObservedJwks::parse(text.as_bytes()));
}

fn git_request(text: &str) {
    let asked = git::Request::parse(text);
    _ = asked.is_known();
}
