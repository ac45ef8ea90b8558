//! The discovery document: the five fields that kube-apiserver serves, in its order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::json::to_go_bytes;
use crate::{Algorithm, IssuerUrl, Jwks};

/// An OpenID Connect discovery document (OpenID Connect Discovery 1.0 section 3) as kube-apiserver renders it.
///
/// `jwks_uri` is always derived from the issuer: kube-apiserver's own default names a private node address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    issuer: IssuerUrl,
    algorithms: BTreeSet<Algorithm>,
}

impl Discovery {
    /// The document of `issuer`, whose algorithms are those of the keys in `jwks`.
    pub fn new(issuer: IssuerUrl, jwks: &Jwks) -> Self {
        let mut algorithms = jwks.algorithms();
        if algorithms.is_empty() {
            // The member is REQUIRED, and RS256 must be in it (OpenID Connect Discovery 1.0 section 3).
            algorithms.insert(Algorithm::Rs256);
        }
        Self { issuer, algorithms }
    }

    /// The bytes to publish: compact JSON, no trailing newline.
    pub fn to_json(&self) -> Vec<u8> {
        to_go_bytes(&Wire {
            issuer: self.issuer.as_str(),
            jwks_uri: &self.issuer.jwks_uri(),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: self.algorithms.iter().map(|a| a.as_str()).collect(),
        })
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'a str; 1],
    subject_types_supported: [&'a str; 1],
    id_token_signing_alg_values_supported: Vec<&'a str>,
}

/// What a reader takes from a discovery document that anybody may have written. Further members are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ObservedDiscovery {
    /// The issuer the document claims, to be compared byte for byte.
    pub issuer: String,
    /// Where the document says the keys are.
    pub jwks_uri: String,
    /// The advertised signing algorithms; empty when the member is missing.
    #[serde(default)]
    pub id_token_signing_alg_values_supported: Vec<String>,
}

impl ObservedDiscovery {
    /// Reads a document.
    ///
    /// # Errors
    /// When it is not a JSON object with the strings `issuer` and `jwks_uri`.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
