//! A token that the cluster mints now: with which key it signs, and as which issuer. The token itself is dropped here.

use std::fmt;

use serde::Deserialize;

/// A workload in whose name a token is minted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Workload {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// The ServiceAccount's name.
    pub service_account: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service_account)
    }
}

/// What of a token can be shown.
#[cfg(feature = "kube")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintedToken {
    /// Its `iss`.
    pub issuer: String,
    /// The id of the key that signed it.
    pub kid: String,
    /// With which algorithm.
    pub algorithm: String,
}

#[cfg(feature = "kube")]
mod mint {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use chancery_cluster::access::explain;
    use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
    use k8s_openapi::api::core::v1::ServiceAccount;
    use kube::api::PostParams;
    use kube::{Api, Client};
    use serde::Deserialize;

    use super::{MintedToken, Workload};

    /// The audience of a token that is dropped: nobody takes it.
    const AUDIENCE: &str = "chancery-canary";
    /// The shortest life that kube-apiserver gives a token, in seconds.
    const LIFETIME: i64 = 600;

    #[derive(Deserialize)]
    struct Header {
        #[serde(default)]
        kid: String,
        alg: String,
    }

    #[derive(Deserialize)]
    struct Claims {
        iss: String,
    }

    impl MintedToken {
        /// Has a token minted by the API server that `client` speaks to. Needs `create` on `serviceaccounts/token`.
        ///
        /// # Errors
        /// What the API server said.
        pub async fn mint(client: Client, workload: &Workload) -> Result<Self, String> {
            let api: Api<ServiceAccount> = Api::namespaced(client, &workload.namespace);
            let spec = TokenRequestSpec {
                audiences: vec![AUDIENCE.to_owned()],
                expiration_seconds: Some(LIFETIME),
                ..TokenRequestSpec::default()
            };
            let request = TokenRequest { spec, ..TokenRequest::default() };
            let parameters = PostParams::default();
            let answer = api.create_token_request(&workload.service_account, &parameters, &request).await;
            let status = answer.map_err(|error| format!("no token was minted: {}", explain(&error)))?.status;
            Self::read(&status.map(|status| status.token).unwrap_or_default())
        }

        /// Reads what can be shown of a token, which itself must never be.
        pub(super) fn read(token: &str) -> Result<Self, String> {
            let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap_or_default());
            let mut next = || parts.next().unwrap_or_default();
            let (header, claims) =
                (serde_json::from_slice::<Header>(&next()), serde_json::from_slice::<Claims>(&next()));
            let (Ok(Header { kid, alg: algorithm }), Ok(Claims { iss: issuer })) = (header, claims) else {
                return Err("the cluster answered with something that is no JWT".to_owned());
            };
            Ok(Self { issuer, kid, algorithm })
        }
    }
}

#[cfg(all(test, feature = "kube"))]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        [header, claims, "signature"].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    #[test]
    fn key_and_issuer_are_read() {
        let read =
            MintedToken::read(&token(r#"{"alg":"RS256","kid":"k"}"#, r#"{"iss":"https://a","sub":"x"}"#));
        let expected = MintedToken {
            issuer: "https://a".to_owned(),
            kid: "k".to_owned(),
            algorithm: "RS256".to_owned(),
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_is_no_token_is_not_repeated() {
        for bad in ["", "secret", "c2VjcmV0.c2VjcmV0.x", &token("{}", "{}")] {
            let error = MintedToken::read(bad).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
