//! The names of the rows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A kind of relying party: whoever verifies our tokens with the keys we publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum RelyingParty {
    /// Another kube-apiserver, by structured authentication (KEP-3331) or the `--oidc-*` flags.
    Kubernetes,
    /// AWS: an IAM OIDC provider and STS `AssumeRoleWithWebIdentity`.
    Aws,
    /// Azure: an Entra federated identity credential.
    Azure,
    /// Google Cloud: a workload identity pool provider.
    Gcp,
    /// HashiCorp Vault or OpenBao, JWT auth method.
    Vault,
    /// MinIO STS `AssumeRoleWithWebIdentity`.
    Minio,
    /// The common denominator: what every relying party we know takes, including those we have no profile of.
    Common,
    /// Python: PyJWT's `PyJWKClient`.
    Pyjwt,
    /// Python: Authlib's OpenID Connect client.
    Authlib,
    /// Python: cryptojwt's key bundles.
    Cryptojwt,
    /// JavaScript: `createRemoteJWKSet` of jose.
    Jose,
    /// JavaScript: openid-client.
    OpenidClient,
    /// JavaScript: jwks-rsa, usually beside jsonwebtoken.
    JwksRsa,
    /// JavaScript: get-jwks, as in fastify-jwt-jwks.
    GetJwks,
    /// JavaScript: aws-jwt-verify.
    AwsJwtVerify,
    /// JavaScript: express-oauth2-jwt-bearer.
    ExpressOauth2JwtBearer,
    /// Java: Nimbus JOSE + JWT, `JWKSourceBuilder` and the older `RemoteJWKSet`.
    Nimbus,
    /// Java: Spring Security's `fromIssuerLocation`.
    SpringSecurity,
    /// Java: jose4j's `HttpsJwks`.
    Jose4j,
    /// Java: java-jwt with jwks-rsa-java, both of Auth0.
    Auth0Java,
    /// Go: coreos/go-oidc, version 3.
    GoOidc,
    /// Go: hashicorp/cap.
    Cap,
    /// Go: lestrrat-go/jwx with its `jwk.Cache`.
    Jwx,
    /// Go: auth0/go-jwt-middleware.
    Auth0Go,
    /// Rust: jwt-authorizer.
    JwtAuthorizer,
    /// Rust: axum-jwks.
    AxumJwks,
    /// Rust: openidconnect.
    OpenidconnectRs,
    /// .NET: Microsoft.IdentityModel's configuration manager, behind ASP.NET's JWT bearer handler.
    Dotnet,
    /// Dex, token exchange with an OIDC connector.
    Dex,
    /// Zot, bearer tokens of an OIDC issuer.
    Zot,
    /// Envoy's `jwt_authn` filter.
    Envoy,
    /// Istio's `RequestAuthentication`.
    Istio,
}

impl RelyingParty {
    /// All rows of the table, in the order in which they are printed.
    pub const ALL: [Self; 32] = [
        Self::Kubernetes,
        Self::Aws,
        Self::Azure,
        Self::Gcp,
        Self::Vault,
        Self::Minio,
        Self::Common,
        Self::Pyjwt,
        Self::Authlib,
        Self::Cryptojwt,
        Self::Jose,
        Self::OpenidClient,
        Self::JwksRsa,
        Self::GetJwks,
        Self::AwsJwtVerify,
        Self::ExpressOauth2JwtBearer,
        Self::Nimbus,
        Self::SpringSecurity,
        Self::Jose4j,
        Self::Auth0Java,
        Self::GoOidc,
        Self::Cap,
        Self::Jwx,
        Self::Auth0Go,
        Self::JwtAuthorizer,
        Self::AxumJwks,
        Self::OpenidconnectRs,
        Self::Dotnet,
        Self::Dex,
        Self::Zot,
        Self::Envoy,
        Self::Istio,
    ];

    /// Who is asked when nobody is named: the platforms, and [`Self::Common`] for everybody else. A verifier that
    /// somebody wrote with a library of the table is asked by name.
    pub const USUAL: [Self; 7] =
        [Self::Kubernetes, Self::Aws, Self::Azure, Self::Gcp, Self::Vault, Self::Minio, Self::Common];

    /// The lower-case name, as it is given on the command line and in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::Vault => "vault",
            Self::Minio => "minio",
            Self::Common => "common",
            Self::Pyjwt => "pyjwt",
            Self::Authlib => "authlib",
            Self::Cryptojwt => "cryptojwt",
            Self::Jose => "jose",
            Self::OpenidClient => "openid-client",
            Self::JwksRsa => "jwks-rsa",
            Self::GetJwks => "get-jwks",
            Self::AwsJwtVerify => "aws-jwt-verify",
            Self::ExpressOauth2JwtBearer => "express-oauth2-jwt-bearer",
            Self::Nimbus => "nimbus",
            Self::SpringSecurity => "spring-security",
            Self::Jose4j => "jose4j",
            Self::Auth0Java => "auth0-java",
            Self::GoOidc => "go-oidc",
            Self::Cap => "cap",
            Self::Jwx => "jwx",
            Self::Auth0Go => "auth0-go",
            Self::JwtAuthorizer => "jwt-authorizer",
            Self::AxumJwks => "axum-jwks",
            Self::OpenidconnectRs => "openidconnect-rs",
            Self::Dotnet => "dotnet",
            Self::Dex => "dex",
            Self::Zot => "zot",
            Self::Envoy => "envoy",
            Self::Istio => "istio",
        }
    }
}

/// Names for a sentence: `aws, azure`, or `everybody` when no row of the table is missing.
pub fn list(parties: &[RelyingParty]) -> String {
    if RelyingParty::ALL.iter().all(|party| parties.contains(party)) {
        return "everybody".to_owned();
    }
    parties.iter().map(|party| party.as_str()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for RelyingParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RelyingParty {
    type Err = RelyingPartyError;

    /// Reads a name as [`RelyingParty::as_str`] writes it; `openbao` is another name of `vault`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|party| party.as_str() == text);
        known
            .or_else(|| (text == "openbao").then_some(Self::Vault))
            .ok_or_else(|| RelyingPartyError(text.to_owned()))
    }
}

impl TryFrom<String> for RelyingParty {
    type Error = RelyingPartyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RelyingParty> for &'static str {
    fn from(party: RelyingParty) -> Self {
        party.as_str()
    }
}

/// A name that is none of [`RelyingParty::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingPartyError(String);

impl fmt::Display for RelyingPartyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = RelyingParty::ALL.iter().map(|party| party.as_str()).collect();
        write!(
            f,
            "relying party {:?} is not known; expected one of {}, openbao (a name of vault); `common` stands for one \
             that is not listed",
            self.0,
            known.join(", ")
        )
    }
}

impl std::error::Error for RelyingPartyError {}
