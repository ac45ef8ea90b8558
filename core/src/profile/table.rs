//! The rows. A limit that is written in no documentation and no source is not written here either.

use std::time::Duration;

use super::Acceptance::{Accepts, Doubtful, Refuses};
use super::{
    AlgorithmRules, AlgorithmsFixed, CacheRules, FetchRules, IgnoredClaim, IssuerRules, KeyBudget, KeyRules,
    Lifetime, Profile, Reach, RelyingParty, UnknownKey, UnknownKid, libraries,
};

/// What kube-apiserver publishes, and what Google documents as the only members of an uploaded set.
const PLAIN_MEMBERS: &[&str] = &["use", "kty", "kid", "alg", "n", "e", "crv", "x", "y"];

/// RFC 7518 section 3.3 demands 2048 bits; Go, and with it three of the rows, sets no upper limit.
const ANY_RSA: std::ops::RangeInclusive<usize> = 2048..=usize::MAX;

/// The sizes that every verifier is known to take.
const USUAL_RSA: std::ops::RangeInclusive<usize> = 2048..=4096;

const UNLIMITED: KeyBudget = KeyBudget { rsa: None, ec: None, total: None, beyond: Accepts };

/// The clouds say nothing of their caches.
const UNDOCUMENTED: CacheRules = CacheRules {
    unknown_kid: UnknownKid::Undocumented,
    lifetime: Lifetime::Undocumented,
    unknown_kid_drops_withdrawn: false,
    algorithms_fixed: AlgorithmsFixed::Undocumented,
    restart: "",
};

pub(super) const fn row(party: RelyingParty) -> &'static Profile {
    match party {
        RelyingParty::Kubernetes => &KUBERNETES,
        RelyingParty::Aws => &AWS,
        RelyingParty::Azure => &AZURE,
        RelyingParty::Gcp => &GCP,
        RelyingParty::Vault => &VAULT,
        RelyingParty::Minio => &MINIO,
        RelyingParty::Common => &COMMON,
        library => match libraries::row(library) {
            Some(row) => row,
            None => &COMMON,
        },
    }
}

/// kube-apiserver's `AuthenticationConfiguration` (apiserver `plugin/pkg/authenticator/token/oidc`): issuers are
/// compared byte for byte by go-oidc, a private CA can be given, the HTTP timeout is 30 s, RS, ES and PS of every
/// size are allowed (the old `--oidc-*` flags default to RS256 alone). go-jose fails the whole set on one key it
/// cannot parse (go-jose#276); go-oidc tries every key of a repeated kid, and looks at a key without kid only for
/// a token without one. It is go-oidc v2.5.0 (`jwks.go`): a key that is in the copy is taken for ever, and an unknown one
/// makes it read again only after the served `max-age` (kubernetes#139769).
static KUBERNETES: Profile = Profile {
    party: RelyingParty::Kubernetes,
    title: "Kubernetes structured authentication",
    issuer: IssuerRules {
        port: Accepts,
        ip_host: Accepts,
        upper_case_host: Accepts,
        trailing_slash: Accepts,
        max_length: None,
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Accepts },
    keys: KeyRules {
        rsa_bits: ANY_RSA,
        budget: UNLIMITED,
        key_types: &["RSA", "EC", "OKP", "oct"],
        unknown_key: UnknownKey::RejectsSet,
        fatal_algorithms: &[],
        only_members: None,
        refused_members: &[],
        checked_members: &["x5c", "x5t", "x5t#S256"],
        without_kid: Refuses,
        repeated_kid: Accepts,
        other_use: Accepts,
        other_algorithm: Accepts,
    },
    fetch: FetchRules { reach: Reach::Network, budget: Some(Duration::from_secs(30)), demanded_members: &[] },
    cache: CacheRules {
        unknown_kid: UnknownKid::ReadsAgainAfterMaxAge,
        lifetime: Lifetime::Unlimited,
        unknown_kid_drops_withdrawn: true,
        algorithms_fixed: AlgorithmsFixed::No,
        restart: "the kube-apiservers that trust the issuer",
    },
    ignored_claims: &[],
};

/// IAM `CreateOpenIDConnectProvider` ("should not contain a port number", no query, case-sensitive, 255 characters)
/// and the user guide's "Create an OIDC identity provider" (at least one key, at most 100 RSA and 100 EC keys,
/// RS and ES of every size, a public endpoint); re:Post on `InvalidIdentityToken` (about 5 s for both documents).
/// From published observations of STS (radkawar/stackd, 2026): `key_ops` and `use: enc` make it refuse a key, `x5c`
/// must agree with the numbers, the last key of a repeated kid wins, `alg` is not looked at.
static AWS: Profile = Profile {
    party: RelyingParty::Aws,
    title: "AWS IAM and STS",
    issuer: IssuerRules {
        port: Refuses,
        ip_host: Doubtful,
        upper_case_host: Doubtful,
        trailing_slash: Doubtful,
        max_length: Some(255),
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Accepts },
    keys: KeyRules {
        rsa_bits: USUAL_RSA,
        budget: KeyBudget { rsa: Some(100), ec: Some(100), total: None, beyond: Refuses },
        key_types: &["RSA", "EC"],
        unknown_key: UnknownKey::Undocumented,
        fatal_algorithms: &[],
        only_members: None,
        refused_members: &["key_ops"],
        checked_members: &["x5c"],
        without_kid: Refuses,
        repeated_kid: Refuses,
        other_use: Refuses,
        other_algorithm: Accepts,
    },
    fetch: FetchRules { reach: Reach::Internet, budget: Some(Duration::from_secs(5)), demanded_members: &[] },
    cache: UNDOCUMENTED,
    ignored_claims: &[],
};

/// Entra "Important considerations and restrictions for federated identity credentials" (RS256 supported, others
/// untested; issuer of at most 600 characters, exact match) and "AADSTS" reports on azure-workload-identity
/// (#1700: a slash more or less is no longer forgiven; #340, #616). The first 100 keys of a set are reported to be
/// kept. Nothing is written on further members of a JWK.
static AZURE: Profile = Profile {
    party: RelyingParty::Azure,
    title: "Azure Entra federated identity credentials",
    issuer: IssuerRules {
        port: Doubtful,
        ip_host: Doubtful,
        upper_case_host: Doubtful,
        trailing_slash: Doubtful,
        max_length: Some(600),
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Doubtful, es384: Doubtful, es512: Doubtful },
    keys: KeyRules {
        rsa_bits: USUAL_RSA,
        budget: KeyBudget { rsa: None, ec: None, total: Some(100), beyond: Refuses },
        key_types: &["RSA", "EC"],
        unknown_key: UnknownKey::Undocumented,
        fatal_algorithms: &[],
        only_members: None,
        refused_members: &[],
        checked_members: &["key_ops", "x5c", "x5t", "x5t#S256"],
        without_kid: Doubtful,
        repeated_kid: Doubtful,
        other_use: Doubtful,
        other_algorithm: Doubtful,
    },
    fetch: FetchRules { reach: Reach::Internet, budget: None, demanded_members: &[] },
    cache: UNDOCUMENTED,
    ignored_claims: &[],
};

/// IAM REST `WorkloadIdentityPoolProvider.oidc`: the issuer must equal `iss` and need not be reachable when
/// `jwksJson` is uploaded, which may hold RSA and EC keys with a fixed list of members. STS REST `token`: the token's
/// header must name its key, and its algorithm must be RS256 or ES256. talos#13210 shows an issuer refused for one
/// slash.
static GCP: Profile = Profile {
    party: RelyingParty::Gcp,
    title: "Google Cloud workload identity federation",
    issuer: IssuerRules {
        port: Doubtful,
        ip_host: Doubtful,
        upper_case_host: Doubtful,
        trailing_slash: Doubtful,
        max_length: None,
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Refuses, es512: Refuses },
    keys: KeyRules {
        rsa_bits: USUAL_RSA,
        budget: UNLIMITED,
        key_types: &["RSA", "EC"],
        unknown_key: UnknownKey::Undocumented,
        fatal_algorithms: &[],
        only_members: Some(PLAIN_MEMBERS),
        refused_members: &[],
        checked_members: &[],
        without_kid: Refuses,
        repeated_kid: Doubtful,
        other_use: Doubtful,
        other_algorithm: Doubtful,
    },
    fetch: FetchRules { reach: Reach::InternetOrUpload, budget: None, demanded_members: &[] },
    cache: UNDOCUMENTED,
    ignored_claims: &[],
};

/// vault-plugin-auth-jwt and OpenBao's `builtin/credential/jwt`, both on go-oidc and go-jose: the discovery
/// document's issuer must equal `oidc_discovery_url` byte for byte, a CA can be given, RS, ES and PS of every size
/// are taken unless `jwt_supported_algs` says otherwise. The keys are read again for every unknown kid and kept until
/// then (measured on Vault 1.21 and OpenBao).
static VAULT: Profile = Profile {
    party: RelyingParty::Vault,
    title: "Vault and OpenBao JWT auth",
    issuer: IssuerRules {
        port: Accepts,
        ip_host: Accepts,
        upper_case_host: Accepts,
        trailing_slash: Accepts,
        max_length: None,
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Accepts },
    keys: KeyRules {
        rsa_bits: ANY_RSA,
        budget: UNLIMITED,
        key_types: &["RSA", "EC", "OKP", "oct"],
        unknown_key: UnknownKey::RejectsSet,
        fatal_algorithms: &[],
        only_members: None,
        refused_members: &[],
        checked_members: &["x5c", "x5t", "x5t#S256"],
        without_kid: Refuses,
        repeated_kid: Accepts,
        other_use: Accepts,
        other_algorithm: Accepts,
    },
    fetch: FetchRules { reach: Reach::Network, budget: None, demanded_members: &[] },
    cache: CacheRules {
        unknown_kid: UnknownKid::ReadsAgain { cooldown: Duration::ZERO },
        lifetime: Lifetime::Unlimited,
        unknown_kid_drops_withdrawn: true,
        algorithms_fixed: AlgorithmsFixed::No,
        restart: "Vault or OpenBao, or write the JWT auth method's configuration again",
    },
    ignored_claims: &[IgnoredClaim { name: "iss", unless: Some("`bound_issuer` is set") }],
};

/// MinIO `internal/config/identity/openid`: RSA, EC and Ed25519 keys, kept in a map by kid; one JWK that cannot be
/// decoded ends the parsing of the set; RS and ES of every size; `iss` is not compared at all. Every token that fails
/// makes it read the keys again and add them to those it has (`jwt.go`, `Validate`), so that none is ever forgotten.
static MINIO: Profile = Profile {
    party: RelyingParty::Minio,
    title: "MinIO STS",
    issuer: IssuerRules {
        port: Accepts,
        ip_host: Accepts,
        upper_case_host: Accepts,
        trailing_slash: Accepts,
        max_length: None,
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Accepts, es384: Accepts, es512: Accepts },
    keys: KeyRules {
        rsa_bits: ANY_RSA,
        budget: UNLIMITED,
        key_types: &["RSA", "EC", "OKP"],
        unknown_key: UnknownKey::RejectsSet,
        fatal_algorithms: &[],
        only_members: None,
        refused_members: &[],
        checked_members: &[],
        without_kid: Refuses,
        repeated_kid: Refuses,
        other_use: Accepts,
        other_algorithm: Accepts,
    },
    fetch: FetchRules { reach: Reach::Network, budget: None, demanded_members: &[] },
    cache: CacheRules {
        unknown_kid: UnknownKid::ReadsAgain { cooldown: Duration::ZERO },
        lifetime: Lifetime::Unlimited,
        unknown_kid_drops_withdrawn: false,
        algorithms_fixed: AlgorithmsFixed::No,
        restart: "every MinIO server",
    },
    ignored_claims: &[IgnoredClaim { name: "iss", unless: None }],
};

/// The narrowest of all rows above and of the relying parties without one (OpenAI: a public host without port;
/// servers that refuse private addresses; verifiers that know RS256 alone). Ten keys and one second are not
/// anybody's limit but leave room below every limit known. Several libraries take the algorithms at their start.
static COMMON: Profile = Profile {
    party: RelyingParty::Common,
    title: "Common denominator",
    issuer: IssuerRules {
        port: Doubtful,
        ip_host: Doubtful,
        upper_case_host: Doubtful,
        trailing_slash: Doubtful,
        max_length: Some(255),
    },
    algorithms: AlgorithmRules { rs256: Accepts, es256: Doubtful, es384: Doubtful, es512: Doubtful },
    keys: KeyRules {
        rsa_bits: USUAL_RSA,
        budget: KeyBudget { rsa: None, ec: None, total: Some(10), beyond: Doubtful },
        key_types: &["RSA", "EC"],
        unknown_key: UnknownKey::Undocumented,
        fatal_algorithms: &[],
        only_members: Some(PLAIN_MEMBERS),
        refused_members: &[],
        checked_members: &[],
        without_kid: Doubtful,
        repeated_kid: Doubtful,
        other_use: Doubtful,
        other_algorithm: Doubtful,
    },
    fetch: FetchRules {
        reach: Reach::InternetOrUpload,
        budget: Some(Duration::from_secs(1)),
        demanded_members: &[],
    },
    cache: CacheRules { algorithms_fixed: AlgorithmsFixed::UntilRestart, ..UNDOCUMENTED },
    ignored_claims: &[],
};
