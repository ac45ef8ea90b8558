//! The rows of libraries and proxies that verify tokens in other people's programs.
//!
//! Unless a row says otherwise it was measured in November 2026: the library read `chancery issuer` over TLS, at an issuer
//! at the root and below a path, with six kinds of keys; keys were added, withdrawn and shown before their
//! publication, and the service was stopped. Cooldowns and lifetimes are those that its documentation or source
//! names, where it names them, and otherwise the longest that was measured.

use std::time::Duration;

use super::Acceptance::{Accepts, Refuses};
use super::{
    AlgorithmRules, AlgorithmsFixed, CacheRules, FetchRules, IgnoredClaim, IssuerRules, KeyBudget, KeyRules,
    Lifetime, Profile, Reach, RelyingParty, UnknownKey, UnknownKid,
};
use crate::Algorithm;

pub(super) const fn row(party: RelyingParty) -> Option<&'static Profile> {
    Some(match party {
        RelyingParty::Pyjwt => &PYJWT,
        RelyingParty::Authlib => &AUTHLIB,
        RelyingParty::Cryptojwt => &CRYPTOJWT,
        RelyingParty::Jose => &JOSE,
        RelyingParty::OpenidClient => &OPENID_CLIENT,
        RelyingParty::JwksRsa => &JWKS_RSA,
        RelyingParty::GetJwks => &GET_JWKS,
        RelyingParty::AwsJwtVerify => &AWS_JWT_VERIFY,
        RelyingParty::ExpressOauth2JwtBearer => &EXPRESS,
        RelyingParty::Nimbus => &NIMBUS,
        RelyingParty::SpringSecurity => &SPRING_SECURITY,
        RelyingParty::Jose4j => &JOSE4J,
        RelyingParty::Auth0Java => &AUTH0_JAVA,
        RelyingParty::GoOidc => &GO_OIDC,
        RelyingParty::Cap => &CAP,
        RelyingParty::Jwx => &JWX,
        RelyingParty::Auth0Go => &AUTH0_GO,
        RelyingParty::JwtAuthorizer => &JWT_AUTHORIZER,
        RelyingParty::AxumJwks => &AXUM_JWKS,
        RelyingParty::OpenidconnectRs => &OPENIDCONNECT_RS,
        RelyingParty::Dotnet => &DOTNET,
        RelyingParty::Dex => &DEX,
        RelyingParty::Zot => &ZOT,
        RelyingParty::Envoy => &ENVOY,
        RelyingParty::Istio => &ISTIO,
        // The platforms have rows of their own.
        RelyingParty::Kubernetes
        | RelyingParty::Aws
        | RelyingParty::Azure
        | RelyingParty::Gcp
        | RelyingParty::Vault
        | RelyingParty::Minio
        | RelyingParty::Common => return None,
    })
}

const PROCESSES: &str = "every process that verifies with it";

/// What they have in common: the issuer is compared byte for byte, documents are read from wherever the program
/// runs, and six kinds of keys verified.
const fn library(party: RelyingParty, title: &'static str, cache: CacheRules) -> Profile {
    Profile {
        party,
        title,
        issuer: IssuerRules {
            port: Accepts,
            ip_host: Accepts,
            upper_case_host: Accepts,
            trailing_slash: Accepts,
            max_length: None,
        },
        algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Accepts },
        keys: KEYS,
        fetch: FetchRules { reach: Reach::Network, budget: None, demanded_members: &[] },
        cache,
        ignored_claims: &[],
    }
}

const KEYS: KeyRules = KeyRules {
    rsa_bits: 2048..=4096,
    budget: KeyBudget { rsa: None, ec: None, total: None, beyond: Accepts },
    key_types: &["RSA", "EC"],
    unknown_key: UnknownKey::Undocumented,
    fatal_algorithms: &[],
    only_members: None,
    refused_members: &[],
    checked_members: &[],
    without_kid: Refuses,
    repeated_kid: super::Acceptance::Doubtful,
    other_use: super::Acceptance::Doubtful,
    other_algorithm: super::Acceptance::Doubtful,
};

const fn at_most(seconds: u64) -> Lifetime {
    Lifetime::AtMost(Duration::from_secs(seconds))
}

/// Reads the keys again for an unknown kid, once in `cooldown` seconds at most, and has forgotten then what is gone.
const fn reads_again(cooldown: u64, lifetime: Lifetime) -> CacheRules {
    CacheRules {
        unknown_kid: UnknownKid::ReadsAgain { cooldown: Duration::from_secs(cooldown) },
        lifetime,
        unknown_kid_drops_withdrawn: true,
        algorithms_fixed: AlgorithmsFixed::No,
        restart: PROCESSES,
    }
}

/// The same, but an unknown kid makes it forget nothing.
const fn keeps_what_it_has(cooldown: u64, lifetime: Lifetime) -> CacheRules {
    CacheRules { unknown_kid_drops_withdrawn: false, ..reads_again(cooldown, lifetime) }
}

/// Refuses an unknown kid until its copy is renewed by age.
const fn renewed_by_age(lifetime: Lifetime) -> CacheRules {
    CacheRules { unknown_kid: UnknownKid::Refuses, ..keeps_what_it_has(0, lifetime) }
}

const fn fixed(cache: CacheRules, algorithms_fixed: AlgorithmsFixed) -> CacheRules {
    CacheRules { algorithms_fixed, ..cache }
}

/// PyJWT 2.15 `PyJWKClient` with its `lifespan`; with `cache_keys`, single keys were taken for 50 minutes and longer.
static PYJWT: Profile = library(RelyingParty::Pyjwt, "PyJWT", reads_again(30, at_most(300)));

/// Authlib 1.9: the algorithms are those that discovery named at the start.
static AUTHLIB: Profile = library(
    RelyingParty::Authlib,
    "Authlib",
    fixed(reads_again(0, Lifetime::Unlimited), AlgorithmsFixed::UntilRestart),
);

/// cryptojwt 1.11.
static CRYPTOJWT: Profile = library(RelyingParty::Cryptojwt, "cryptojwt", renewed_by_age(at_most(300)));

/// jose 6.2 `createRemoteJWKSet`: `cooldownDuration` and `cacheMaxAge`.
static JOSE: Profile = library(RelyingParty::Jose, "jose (npm)", reads_again(30, at_most(600)));

/// openid-client 6.8: the algorithm is part of the client's registration.
static OPENID_CLIENT: Profile = library(
    RelyingParty::OpenidClient,
    "openid-client",
    fixed(reads_again(60, at_most(300)), AlgorithmsFixed::UntilConfigured),
);

/// jwks-rsa 4.1 with its `rateLimit`; without it nothing holds back a read. `cacheMaxAge` is ten minutes.
static JWKS_RSA: Profile =
    library(RelyingParty::JwksRsa, "jsonwebtoken with jwks-rsa", keeps_what_it_has(60, at_most(600)));

/// get-jwks 11: each key by itself, as long as it is used.
static GET_JWKS: Profile =
    library(RelyingParty::GetJwks, "get-jwks", keeps_what_it_has(0, Lifetime::Unlimited));

/// aws-jwt-verify 5.2, given the JWKS URI.
static AWS_JWT_VERIFY: Profile =
    library(RelyingParty::AwsJwtVerify, "aws-jwt-verify", reads_again(10, Lifetime::Unlimited));

/// express-oauth2-jwt-bearer, on jose.
static EXPRESS: Profile =
    library(RelyingParty::ExpressOauth2JwtBearer, "express-oauth2-jwt-bearer", reads_again(30, at_most(600)));

/// Nimbus JOSE + JWT `JWKSourceBuilder` with its rate limit; `RemoteJWKSet` has none, and the same lifetime.
static NIMBUS: Profile = library(RelyingParty::Nimbus, "Nimbus JOSE + JWT", reads_again(30, at_most(300)));

/// Spring Security 6.5 `JwtDecoders.fromIssuerLocation`: the algorithms are those of the keys at the start.
static SPRING_SECURITY: Profile = library(
    RelyingParty::SpringSecurity,
    "Spring Security",
    fixed(reads_again(0, at_most(300)), AlgorithmsFixed::UntilRestart),
);

/// jose4j 0.9.6 `HttpsJwks`.
static JOSE4J: Profile = library(RelyingParty::Jose4j, "jose4j", reads_again(1, Lifetime::MaxAge));

/// java-jwt with jwks-rsa-java: a bucket of reads for each minute, and each key by itself as long as it is used.
static AUTH0_JAVA: Profile = library(
    RelyingParty::Auth0Java,
    "java-jwt with jwks-rsa-java",
    keeps_what_it_has(60, Lifetime::Unlimited),
);

/// go-oidc 3.21: `Provider.Verifier` takes the algorithms that discovery named when the provider was made.
static GO_OIDC: Profile = library(
    RelyingParty::GoOidc,
    "go-oidc",
    fixed(reads_again(0, Lifetime::Unlimited), AlgorithmsFixed::UntilRestart),
);

/// hashicorp/cap 0.15.
static CAP: Profile = library(RelyingParty::Cap, "hashicorp/cap", reads_again(0, Lifetime::Unlimited));

/// lestrrat jwx 3.3 `jwk.Cache`: its interval is fifteen minutes at least and follows a longer `max-age`.
static JWX: Profile = library(RelyingParty::Jwx, "lestrrat jwx", renewed_by_age(at_most(900)));

/// auth0/go-jwt-middleware with its caching provider of five minutes.
static AUTH0_GO: Profile =
    library(RelyingParty::Auth0Go, "go-jwt-middleware of Auth0", renewed_by_age(at_most(300)));

/// jwt-authorizer 0.15 on jsonwebtoken 9.3, which refuses the whole set for one ES512 key; `nbf` is not looked at.
static JWT_AUTHORIZER: Profile = Profile {
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Refuses },
    keys: KeyRules { fatal_algorithms: &[Algorithm::Es512], ..KEYS },
    ignored_claims: &[IgnoredClaim { name: "nbf", unless: None }],
    ..library(
        RelyingParty::JwtAuthorizer,
        "jwt-authorizer (Rust)",
        keeps_what_it_has(600, Lifetime::Unlimited),
    )
};

/// axum-jwks 0.12: the keys are read at the start, and one EC key makes it refuse all of them.
static AXUM_JWKS: Profile = Profile {
    algorithms: AlgorithmRules { rs256: Accepts, es256: Refuses, es384: Refuses, es512: Refuses },
    keys: KeyRules { fatal_algorithms: &[Algorithm::Es256, Algorithm::Es384, Algorithm::Es512], ..KEYS },
    ignored_claims: &[IgnoredClaim { name: "iss", unless: None }, IgnoredClaim { name: "nbf", unless: None }],
    ..library(RelyingParty::AxumJwks, "axum-jwks (Rust)", renewed_by_age(Lifetime::Unlimited))
};

/// openidconnect 4.1: its discovery demands a member that Kubernetes' has not; given the JWKS, it never reads again.
static OPENIDCONNECT_RS: Profile = Profile {
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Refuses },
    fetch: FetchRules { reach: Reach::Network, budget: None, demanded_members: &["authorization_endpoint"] },
    ignored_claims: &[IgnoredClaim { name: "nbf", unless: None }],
    ..library(RelyingParty::OpenidconnectRs, "openidconnect (Rust)", renewed_by_age(Lifetime::Unlimited))
};

/// Not measured. Microsoft.IdentityModel `ConfigurationManager`: reads by itself every twelve hours (older versions:
/// a day), and for an unknown key once in five minutes.
static DOTNET: Profile =
    library(RelyingParty::Dotnet, "Microsoft.IdentityModel (.NET)", reads_again(300, at_most(24 * 3600)));

/// Dex' token exchange, on go-oidc; it accepts any audience.
static DEX: Profile = Profile {
    ignored_claims: &[IgnoredClaim { name: "aud", unless: None }],
    ..library(
        RelyingParty::Dex,
        "Dex token exchange",
        CacheRules {
            restart: "Dex",
            ..fixed(reads_again(0, Lifetime::Unlimited), AlgorithmsFixed::UntilRestart)
        },
    )
};

/// Zot: keys were refused 40 s after they, or the issuer, were gone.
static ZOT: Profile =
    library(RelyingParty::Zot, "Zot", CacheRules { restart: "Zot", ..reads_again(0, at_most(60)) });

/// Not measured. Envoy `jwt_authn`: `cache_duration` is ten minutes unless configured; a read for an unknown key is a
/// later option (envoy#36458).
static ENVOY: Profile = library(
    RelyingParty::Envoy,
    "Envoy jwt_authn",
    CacheRules { restart: "Envoy", ..renewed_by_age(at_most(600)) },
);

/// Not measured. istiod reads the keys every `PILOT_JWT_PUB_KEY_REFRESH_INTERVAL`, twenty minutes unless configured, and
/// not sooner for an unknown key (istio#41588).
static ISTIO: Profile =
    library(RelyingParty::Istio, "Istio", CacheRules { restart: "istiod", ..renewed_by_age(at_most(1200)) });
