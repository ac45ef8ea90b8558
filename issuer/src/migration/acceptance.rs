//! Which issuers one kube-apiserver signs for and accepts.
//!
//! It says itself which one it signs for: in its discovery document. Which others it accepts it shows nowhere. But it looks
//! at the issuer of a token before it looks at the signature (`pkg/serviceaccount/jwt.go`, `AuthenticateToken`): a token of
//! an issuer that is not its own it passes over, for another authenticator may know it; for one of its own, with a signature
//! that is none, a TokenReview has words of its own. So it is asked to review tokens that are forged, have long expired and
//! name a user who does not exist: nobody could use them, and no token is asked for.
//!
//! The words change from release to release, and another authenticator, a webhook for instance, may add some. So an answer is
//! compared with that for an issuer that nobody has. Two such must get the same one, and the issuer that it signs for
//! another one: otherwise nothing is known.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_cluster::access::explain;
use chancery_core::migration::{ApiServer, Intent};
use chancery_core::{KeyId, PublicKey};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::json;

use crate::source::kube_apiserver::Replica;

/// Where every kube-apiserver says which issuer it signs for.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer that nobody has (RFC 6761 section 6.4).
const NOBODY: &str = "https://nobody.chancery.invalid";
/// Another one.
const NOBODY_ELSE: &str = "https://nobody-else.chancery.invalid/a";

/// As long as a signature of RSA-2048, which most keys make. It verifies with none.
const NO_SIGNATURE: [u8; 256] = [1; 256];

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
}

/// Asks one replica.
///
/// # Errors
/// In words, when it does not answer or its answers tell nothing.
pub(super) async fn ask(replica: &Replica, intent: &Intent) -> Result<ApiServer, String> {
    let document = replica.document(DISCOVERY).await?;
    let Discovery { issuer } = serde_json::from_slice(&document)
        .map_err(|error| format!("GET {DISCOVERY} answered what names no issuer: {error}"))?;
    let keys = replica.keys().await?;
    let kid = keys.first().map(PublicKey::key_id).ok_or("it shows no key")?;
    let reviews = Reviews { api: Api::all(replica.client()), kid };
    let unclear = |what: &str| {
        Err(format!(
            "its TokenReviews do not tell which issuers it accepts, since {what}; does a webhook authenticate too? See the \
             --service-account-issuer flags of its manifest"
        ))
    };
    let stranger = reviews.answer(NOBODY).await?;
    if reviews.answer(NOBODY_ELSE).await? != stranger {
        return unclear("two issuers that nobody has get different answers");
    }
    if reviews.answer(&issuer).await? == stranger {
        return unclear("its own issuer gets the answer of a stranger");
    }
    Ok(ApiServer {
        accepts_from: reviews.answer(&intent.from).await? != stranger,
        accepts_to: reviews.answer(intent.to.as_str()).await? != stranger,
        keys: keys.iter().map(|key| key.key_id().clone()).collect(),
        signs_for: issuer,
    })
}

/// Has forged tokens reviewed.
struct Reviews<'a> {
    api: Api<TokenReview>,
    kid: &'a KeyId,
}

impl Reviews<'_> {
    /// What it says of a forged token of an issuer.
    async fn answer(&self, issuer: &str) -> Result<String, String> {
        let spec = TokenReviewSpec { token: Some(forged(issuer, self.kid)), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = self.api.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| explain(&error))?.status.unwrap_or_default();
        match status.authenticated {
            Some(true) => {
                Err("it accepts a token whose signature is none: what authenticates there trusts everybody"
                    .to_owned())
            }
            _ => Ok(status.error.unwrap_or_default()),
        }
    }
}

/// A token of an issuer, without a signature, that expired in 1970.
fn forged(issuer: &str, kid: &KeyId) -> String {
    let header = json!({ "alg": "RS256", "kid": kid, "typ": "JWT" }).to_string();
    let claims = json!({ "iss": issuer, "sub": "system:serviceaccount:chancery:nobody", "aud": [issuer], "iat": 0, "exp": 1 });
    [header.as_bytes(), claims.to_string().as_bytes(), &NO_SIGNATURE]
        .map(|part| URL_SAFE_NO_PAD.encode(part))
        .join(".")
}
