//! The clouds' own SDKs for Rust in one program with us, each asking through its bridge.

use std::sync::{Arc, Mutex};

use azure_core::credentials::TokenCredential as _;
use azure_core::http::headers::{AUTHORIZATION, Headers};
use azure_core::http::policies::auth::BearerTokenAuthorizationPolicy;
use azure_core::http::{
    AsyncRawResponse, ClientOptions, Context, HttpClient, Method, Pipeline, Request, StatusCode, Transport,
};
use chancery_exchange::bridge::{AzureBridge, GoogleBridge};
use chancery_exchange::cache::{Cache, CacheOptions, Purge};
use google_cloud_auth::credentials::{CacheableResource, Credentials, EntityTag};
use google_cloud_storage::client::Storage;
use http::Extensions;

use crate::aws::runner;
use crate::fake::clouds::{aadsts, entra, google};
use crate::fake::{Fake, Reply};
use crate::{azure, google as gcp};

const VAULT: &str = "https://vault.azure.net/.default";
const ACCOUNT: &str = "app@p.iam.gserviceaccount.com";

fn cache() -> Cache {
    Cache::new(CacheOptions::default())
}

/// In place of the network behind Azure's SDK, which sends a token by https alone.
#[derive(Debug, Default)]
struct Recorded(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl HttpClient for Recorded {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let value = request.headers().get_str(&AUTHORIZATION).unwrap().to_owned();
        self.0.lock().unwrap().push(value);
        Ok(AsyncRawResponse::from_bytes(StatusCode::Ok, Headers::new(), ""))
    }
}

#[tokio::test]
async fn r0_19_a_client_of_azures_sdk_has_a_token_for_its_own_scopes() {
    let fake = Fake::start(entra).await;
    let cache = cache();
    let chain = Arc::new(azure::chain(&fake.url, azure::good()));
    let bridge = Arc::new(AzureBridge::new(chain, runner(), cache.clone()).unwrap());
    let recorded = Arc::new(Recorded::default());
    let options =
        ClientOptions { transport: Some(Transport::new(recorded.clone())), ..ClientOptions::default() };
    let policy = BearerTokenAuthorizationPolicy::new(bridge.clone(), [VAULT]);
    let pipeline = Pipeline::new(None, None, options, Vec::new(), vec![Arc::new(policy)], None);
    for _ in 0..2 {
        let mut request = Request::new("https://app.vault.azure.net/".parse().unwrap(), Method::Get);
        pipeline.send(&Context::new(), &mut request, None).await.unwrap();
    }
    assert_eq!(*recorded.0.lock().unwrap(), ["Bearer entra-token", "Bearer entra-token"]);
    let scope = |call: &crate::fake::Call| {
        url::form_urlencoded::parse(&call.body).find(|(name, _)| name == "scope").unwrap().1.into_owned()
    };
    let scopes = |fake: &Fake| fake.calls().iter().map(scope).collect::<Vec<_>>();
    assert_eq!(scopes(&fake), [VAULT], "one exchange, for what the client named");

    let management = "https://management.azure.com/.default";
    bridge.get_token(&[management], None).await.unwrap();
    bridge.get_token(&[VAULT], None).await.unwrap();
    assert_eq!(scopes(&fake), [VAULT, management], "each has its own");
    assert_eq!(cache.purge(&Purge::All), 2);
    let given = bridge.get_token(&[VAULT], None).await.unwrap();
    assert_eq!(scopes(&fake).len(), 3, "a purge counts at the next call");
    assert!(given.expires_on.unix_timestamp() > jiff::Timestamp::now().as_second() + 3000);

    cache.purge(&Purge::All);
    fake.script([aadsts(400, 700_016, "Application was not found")]);
    let error = bridge.get_token(&[VAULT], None).await.unwrap_err();
    assert!(matches!(error.kind(), azure_core::error::ErrorKind::Credential));
    assert!(error.to_string().contains("AADSTS700016"), "{error}");
    assert!(!format!("{bridge:?} {error:?}").contains("entra-token"));
    assert!(bridge.get_token(&[], None).await.is_err(), "for nothing there is no token");
}

/// Cloud Storage, as far as reading one object by a token goes.
fn storage(call: &crate::fake::Call) -> Reply {
    if call.headers.get("authorization").is_none_or(|value| value != "Bearer impersonated") {
        return Reply::new(401, "Anonymous caller does not have storage.objects.get access");
    }
    assert_eq!(call.path(), "/storage/v1/b/state/o/object");
    Reply::new(200, "what is stored").with("x-goog-generation", "1")
}

#[tokio::test]
async fn r0_19_a_client_of_googles_sdk_reads_an_object_with_the_tokens_of_a_chain() {
    let (fake, storage) = (Fake::start(google).await, Fake::start(storage).await);
    let cache = cache();
    let chain = Arc::new(gcp::chain(&fake.url, gcp::good(), Some(ACCOUNT)));
    let bridge = GoogleBridge::new(chain, runner(), cache.clone()).unwrap();
    let credentials = Credentials::from(bridge.clone());
    let client = Storage::builder().with_endpoint(storage.url.clone()).with_credentials(credentials.clone());
    let client = client.build().await.unwrap();
    for _ in 0..2 {
        let mut read = client.read_object("projects/_/buckets/state", "object").send().await.unwrap();
        assert_eq!(read.next().await.unwrap().unwrap(), "what is stored");
    }
    assert_eq!((fake.count(), storage.count()), (2, 2), "one exchange of two legs for both");

    let CacheableResource::New { entity_tag, data } = credentials.headers(Extensions::new()).await.unwrap()
    else {
        panic!()
    };
    assert!(data["authorization"].is_sensitive());
    let known = |tag: &EntityTag| {
        let mut extensions = Extensions::new();
        extensions.insert(tag.clone());
        extensions
    };
    let again = credentials.headers(known(&entity_tag)).await.unwrap();
    assert_eq!(again, CacheableResource::NotModified);
    cache.purge(&Purge::All);
    fake.script([Reply::new(500, ""), Reply::new(500, ""), Reply::new(500, ""), Reply::new(500, "")]);
    let error = credentials.headers(known(&entity_tag)).await.unwrap_err();
    assert!(error.is_transient(), "the SDK is told that it may ask again: {error}");
    assert!(!format!("{bridge:?} {error:?}").contains("impersonated"));
    assert_eq!(credentials.universe_domain().await, None);
}

#[tokio::test]
async fn r0_19_no_sdk_is_given_what_is_another_clouds() {
    let entra = Arc::new(azure::chain("http://127.0.0.1:9", azure::good()));
    let google = Arc::new(gcp::chain("http://127.0.0.1:9", gcp::good(), None));
    assert_eq!(AzureBridge::new(google, runner(), cache()).unwrap_err().code(), "bridge-cloud");
    assert_eq!(GoogleBridge::new(entra, runner(), cache()).unwrap_err().code(), "bridge-cloud");
}
