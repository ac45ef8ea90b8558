//! The messages of Kubernetes' external JWT signer (KEP-740), as they travel: the packages `v1` (Kubernetes 1.34 and later)
//! and `v1alpha1` (1.32, 1.33) have the same fields under the same numbers.
//!
//! ```text
//! service ExternalJWTSigner {
//!   rpc Sign(SignJWTRequest) returns (SignJWTResponse);
//!   rpc FetchKeys(FetchKeysRequest) returns (FetchKeysResponse);
//!   rpc Metadata(MetadataRequest) returns (MetadataResponse);
//! }
//! ```
//!
//! Nothing that is or was a part of a token shows in `Debug`.

use std::fmt;

/// What is to be signed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SignJwtRequest {
    /// The second segment of the token: claims as JSON in base64url without padding.
    #[prost(string, tag = "1")]
    pub claims: String,
}

/// The two other segments of the token.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SignJwtResponse {
    /// The JWS header in base64url without padding.
    #[prost(string, tag = "1")]
    pub header: String,
    /// The signature over `header.claims`, in base64url without padding.
    #[prost(string, tag = "2")]
    pub signature: String,
}

/// Asks for the keys.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FetchKeysRequest {}

/// Every key that tokens are verified with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FetchKeysResponse {
    /// The keys. kube-apiserver takes another order for a change.
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<Key>,
    /// When they were last known to be the right ones.
    #[prost(message, optional, tag = "2")]
    pub data_timestamp: Option<Timestamp>,
    /// After how many seconds to ask again; more than zero.
    #[prost(int64, tag = "3")]
    pub refresh_hint_seconds: i64,
}

/// One key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Key {
    /// 1 to 1024 characters.
    #[prost(string, tag = "1")]
    pub key_id: String,
    /// DER `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    /// kube-apiserver verifies with it, and does not show it in its JWKS.
    #[prost(bool, tag = "3")]
    pub exclude_from_oidc_discovery: bool,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Timestamp {
    /// Since 1970 UTC.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Of the second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Asks once, when kube-apiserver starts.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MetadataRequest {}

/// What kube-apiserver must know of a signer.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MetadataResponse {
    /// The longest lifetime that is signed; 600 at least.
    #[prost(int64, tag = "1")]
    pub max_token_expiration_seconds: i64,
}

impl fmt::Debug for SignJwtRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignJwtRequest").finish_non_exhaustive()
    }
}

impl fmt::Debug for SignJwtResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignJwtResponse").finish_non_exhaustive()
    }
}
