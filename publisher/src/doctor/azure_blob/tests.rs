use serde_json::json;

use super::*;
use crate::azure::api::tests::scripted;

const BLOB: &str = "https://oidc.blob.core.windows.net/docs/a/openid/v1/jwks";
const WEB: &str = "https://oidc.z6.web.core.windows.net/a/openid/v1/jwks";

fn answer(status: u16, code: &str) -> Anonymous {
    Anonymous::Answer { status, code: code.to_owned(), location: None, front: None }
}

fn facts(url: &str, anonymous: Anonymous, held: Option<PublisherView>) -> AzureBlobFacts {
    AzureBlobFacts { url: url.to_owned(), anonymous, held, settings: None }
}

fn rules(facts: &AzureBlobFacts) -> Vec<&'static str> {
    explain(facts).into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn the_control_that_stops_a_reader_is_named() {
    let unknown = || Some(PublisherView::Unknown("denied".to_owned()));
    for (url, status, code, held, rule) in [
        (BLOB, 409, "PublicAccessNotPermitted", None, "azure-account-forbids-anonymous"),
        (BLOB, 404, "ResourceNotFound", None, "azure-container-private"),
        (BLOB, 404, "ResourceNotFound", Some(PublisherView::Present), "azure-container-private"),
        (BLOB, 404, "ResourceNotFound", Some(PublisherView::NoContainer), "azure-container-missing"),
        (BLOB, 404, "BlobNotFound", Some(PublisherView::Absent), "azure-blob-missing"),
        (BLOB, 404, "BlobNotFound", Some(PublisherView::Present), "azure-wrong-place"),
        (BLOB, 403, "AuthorizationFailure", None, "azure-network-rules"),
        (BLOB, 403, "AuthorizationFailure", unknown(), "azure-network-rules"),
        (BLOB, 403, "AuthorizationFailure", Some(PublisherView::Present), "azure-container-private"),
        (BLOB, 403, "AccountIsDisabled", None, "azure-account-disabled"),
        (BLOB, 400, "AccountRequiresHttps", None, "azure-https-required"),
        (BLOB, 302, "", None, "azure-redirect"),
        (BLOB, 500, "", None, "azure-refused"),
        (WEB, 404, "WebContentNotFound", Some(PublisherView::Present), "azure-static-website-off"),
        (WEB, 404, "WebContentNotFound", Some(PublisherView::Absent), "azure-blob-missing"),
        (WEB, 403, "", None, "azure-network-rules"),
    ] {
        let facts = facts(url, answer(status, code), held);
        assert_eq!(rules(&facts), [rule], "{facts:?}");
        let [finding] = explain(&facts).try_into().unwrap();
        assert!(finding.message.contains(url) && !finding.remedy.is_empty(), "{finding:?}");
        assert_eq!(finding.breaks, RelyingParty::ALL);
    }
    assert_eq!(rules(&facts(BLOB, Anonymous::Nothing("no name".to_owned()), None)), ["azure-unreachable"]);
    assert!(explain(&facts(BLOB, answer(200, ""), None)).is_empty());
}

#[test]
fn who_stands_in_front_is_named_too() {
    let at = |status| Anonymous::Answer {
        status,
        code: String::new(),
        location: None,
        front: Some("Azure Front Door or CDN"),
    };
    let good = explain(&facts(WEB, at(200), None));
    assert_eq!((good[0].rule, good[0].severity), ("azure-front", Severity::Note));
    assert_eq!(rules(&facts(WEB, at(404), None)), ["azure-blob-missing", "azure-front"]);
}

#[tokio::test]
async fn the_settings_name_every_further_control() {
    let account = json!({ "properties": {
        "allowBlobPublicAccess": false,
        "publicNetworkAccess": "Enabled",
        "networkAcls": { "defaultAction": "Deny" },
    } });
    let container = json!({ "properties": { "publicAccess": "None" } });
    let (api, asked) =
        scripted(vec![("200 OK", account.to_string()), ("200 OK", container.to_string())]).await;
    let account = format!("{}subscriptions/s/storageAccounts/oidc", api.base());
    let settings = settings::read(&api, &account, "docs").await.unwrap();
    let [first, second] = asked.await.unwrap().try_into().unwrap();
    assert!(first.starts_with("GET /subscriptions/s/storageAccounts/oidc?api-version="), "{first}");
    assert!(second.contains("/oidc/blobServices/default/containers/docs?api-version="), "{second}");
    let told = |url, anonymous| {
        rules(&AzureBlobFacts { settings: Some(settings.clone()), ..facts(url, anonymous, None) })
    };
    assert_eq!(
        told(BLOB, answer(409, "PublicAccessNotPermitted")),
        ["azure-account-forbids-anonymous", "azure-network-rules", "azure-container-private"]
    );
    assert_eq!(
        told(WEB, answer(403, "AuthorizationFailure")),
        ["azure-network-rules"],
        "it has a door of its own"
    );
    assert!(told(BLOB, answer(200, "")).is_empty(), "whoever can read is stopped by nothing");
}
