//! The readings of one document, without credentials and with the publisher's, and the account's settings.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::DocumentKind;
use chancery_core::trust::azure::Cloud;
use http::HeaderMap;
use http::header::LOCATION;

use super::{Anonymous, AzureBlobFacts, PublisherView, account_settings};
use crate::doctor::anonymous::{anonymous_read, header_text};
use crate::limits::ANONYMOUS_READ;
use crate::store::azure_blob::{AzureBlobConnection, AzureBlobStore};
use crate::store::{DocumentStore, StoreErrorKind};
use crate::target::AzureBlobTarget;

/// Headers that give away who stands in front of the account.
const FRONTS: [(&str, &str); 6] = [
    ("x-azure-ref", "Azure Front Door or CDN"),
    ("cf-ray", "Cloudflare"),
    ("x-amz-cf-id", "CloudFront"),
    ("x-served-by", "Fastly"),
    ("x-akamai-request-id", "Akamai"),
    ("via", "a proxy"),
];

/// Looks at a target: as everybody at `base`, the issuer URL as a rule; as its publisher; and at the account's settings
/// where the target names its resource id and its credentials may read them.
pub async fn probe(target: &AzureBlobTarget, base: &str) -> AzureBlobFacts {
    let path = DocumentKind::Jwks.path();
    let url = format!("{}/{path}", base.trim_end_matches('/'));
    let (anonymous, held) = tokio::join!(anonymous(&url, ANONYMOUS_READ), async {
        let store = AzureBlobStore::new(Arc::new(AzureBlobConnection::open(target).ok()?), target).ok()?;
        Some(held(&store, path).await)
    });
    let settings = match &target.resource_id {
        Some(id) => account_settings(id, &target.container, Cloud::Public, &target.identity()).await.ok(),
        None => None,
    };
    AzureBlobFacts { url, anonymous, held, settings }
}

/// Reads `url` as anybody would: no credentials, no proxy, no redirect.
pub async fn anonymous(url: &str, timeout: Duration) -> Anonymous {
    let answer = match anonymous_read(url, timeout).await {
        Ok(answer) => answer,
        Err(why) => return Anonymous::Nothing(why),
    };
    let header = |name: &str| header_text(&answer, name);
    Anonymous::Answer {
        status: answer.status.as_u16(),
        code: header("x-ms-error-code").unwrap_or_default(),
        location: header(LOCATION.as_str()),
        front: front(&answer.headers),
    }
}

fn front(headers: &HeaderMap) -> Option<&'static str> {
    FRONTS.into_iter().find(|(header, _)| headers.contains_key(*header)).map(|(_, name)| name)
}

/// Reads the document at `path` of a target, with the publisher's credentials.
pub async fn held(store: &dyn DocumentStore, path: &str) -> PublisherView {
    match store.read(path).await {
        Ok(Some(_)) => PublisherView::Present,
        Ok(None) => PublisherView::Absent,
        Err(error) if error.kind == StoreErrorKind::NoSuchContainer => PublisherView::NoContainer,
        Err(error) => PublisherView::Unknown(error.to_string()),
    }
}
