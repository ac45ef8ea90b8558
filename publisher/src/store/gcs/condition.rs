//! `If-None-Match` on a download.
//!
//! The SDK has neither a method for it nor headers of single requests. What it does add to each request are the headers
//! that the credentials give, asked for in the task that makes the request. So the condition travels with them. Were it
//! ever lost on the way, the whole object would come, and be compared: slower, and as right.

use google_cloud_auth::credentials::{CacheableResource, Credentials, CredentialsProvider};
use google_cloud_auth::errors::CredentialsError;
use http::header::IF_NONE_MATCH;
use http::{Extensions, HeaderMap, HeaderValue};

tokio::task_local! {
    static ETAG: Option<HeaderValue>;
}

/// Makes a request on the condition that the object has another ETag.
pub(super) async fn unless<T>(etag: Option<HeaderValue>, request: impl Future<Output = T>) -> T {
    ETAG.scope(etag, request).await
}

/// Credentials, and the condition of the request at hand.
#[derive(Debug)]
pub(super) struct Conditional(Credentials);

impl Conditional {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self(credentials)
    }
}

impl CredentialsProvider for Conditional {
    async fn headers(
        &self,
        extensions: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let mut headers = self.0.headers(extensions).await?;
        let etag = ETAG.try_with(Clone::clone).ok().flatten();
        if let (CacheableResource::New { data, .. }, Some(etag)) = (&mut headers, etag) {
            data.insert(IF_NONE_MATCH, etag);
        }
        Ok(headers)
    }

    async fn universe_domain(&self) -> Option<String> {
        self.0.universe_domain().await
    }
}
