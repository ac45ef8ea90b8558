//! The readings of one document, without credentials and with the publisher's, and the account's settings.

use std::time::Duration;

use chancery_core::DocumentKind;
use chancery_core::trust::azure::Cloud;
use reqwest::header::{HeaderMap, LOCATION};

use super::{Anonymous, Facts, Held, account_settings};
use crate::azure::words;
use crate::store::azure_blob::AzureBlobStore;
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

/// The longest time for one anonymous read.
const LIMIT: Duration = Duration::from_secs(10);

/// Looks at a target: as everybody at `base`, the issuer URL as a rule; as its publisher; and at the account's settings
/// where the target names its resource id and its credentials may read them.
pub async fn probe(target: &AzureBlobTarget, base: &str) -> Facts {
    let path = DocumentKind::Jwks.path();
    let url = format!("{}/{path}", base.trim_end_matches('/'));
    let (anonymous, held) = tokio::join!(anonymous(&url, LIMIT), async {
        let store = AzureBlobStore::connect(target).ok()?;
        Some(held(&store, path).await)
    });
    let settings = match &target.resource_id {
        Some(id) => account_settings(id, &target.container, Cloud::Public, &target.identity()).await.ok(),
        None => None,
    };
    Facts { url, anonymous, held, settings }
}

/// Reads `url` as anybody would: no credentials, no proxy, no redirect.
pub async fn anonymous(url: &str, timeout: Duration) -> Anonymous {
    match answer(url, timeout).await {
        Ok(answer) => answer,
        Err(error) => Anonymous::Nothing(words(&error)),
    }
}

async fn answer(url: &str, timeout: Duration) -> Result<Anonymous, reqwest::Error> {
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let answer = builder.timeout(timeout).build()?.get(url).send().await?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Anonymous::Answer {
        status: answer.status().as_u16(),
        code: header("x-ms-error-code").unwrap_or_default(),
        location: header(LOCATION.as_str()),
        front: front(answer.headers()),
    })
}

fn front(headers: &HeaderMap) -> Option<&'static str> {
    FRONTS.into_iter().find(|(header, _)| headers.contains_key(*header)).map(|(_, name)| name)
}

/// Reads the document at `path` of a target, with the publisher's credentials.
pub async fn held(store: &dyn DocumentStore, path: &str) -> Held {
    match store.read(path).await {
        Ok(Some(_)) => Held::Present,
        Ok(None) => Held::Absent,
        Err(error) if error.kind == StoreErrorKind::NoSuchContainer => Held::NoContainer,
        Err(error) => Held::Unknown(error.to_string()),
    }
}
