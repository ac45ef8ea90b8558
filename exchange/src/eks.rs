//! A token for the API server of an EKS cluster: a signed request to STS that the cluster makes in our place
//! (<https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster>).

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_wire::sigv4::{Presigning, SigningScope, presigned_url};
use chancery_wire::{HttpRequest, Secret};
use http::header::HeaderName;
use http::{HeaderValue, Method};
use jiff::Timestamp;

use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::provider::aws::Region;
use crate::provider::aws::partition::EndpointVariant;

/// What every token begins with.
const PREFIX: &str = "k8s-aws-v1.";
/// The header by which the request is for one cluster alone.
const CLUSTER: HeaderName = HeaderName::from_static("x-k8s-aws-id");
/// How long the URL says that it is good for; clusters take it for 15 minutes whatever it says.
const SIGNED_FOR: Duration = Duration::from_secs(60);
/// How long the token is handed out: a minute less than clusters take it.
const LIFETIME: Duration = Duration::from_secs(14 * 60);
/// The longest token that clusters read, in bytes.
const LONGEST: usize = 4096;

/// The token for a cluster, by its name, from the keys of a role. Nobody is asked.
///
/// # Errors
/// When the credential is no AWS keys, the name is none of EKS's, or the token would be longer than clusters read.
pub fn token(
    credential: &Credential,
    region: &Region,
    cluster: &str,
    now: Timestamp,
) -> Result<Credential, ExchangeError> {
    let CredentialKind::Aws(keys) = &credential.kind else {
        return Err(ExchangeError::configuration("output-unsuitable")
            .came(&format!("{} for a cluster of EKS", credential.kind_in_words()))
            .expected("--to aws, without a registry"));
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let name = HeaderValue::from_str(cluster).ok();
    let name = name.filter(|_| (1..=100).contains(&cluster.len()) && cluster.bytes().all(legal)).ok_or_else(
        || {
            ExchangeError::configuration("eks-cluster")
                .came(&format!("{cluster:?} as the name of a cluster"))
                .expected("letters, digits, `-` and `_`, 100 at most, and no ARN")
        },
    )?;
    let endpoint = region.sts(EndpointVariant::default())?;
    let url = format!("{}/?Action=GetCallerIdentity&Version=2011-06-15", endpoint.base());
    let target = endpoint.admit(&url).map_err(|error| ExchangeError::endpoint("the STS endpoint", &error))?;
    let request = HttpRequest::new(Method::GET, &target).header(CLUSTER, name);
    let scope = SigningScope { service: "sts", region: region.as_str() };
    let presigning = Presigning { time: SystemTime::from(now), lasts: SIGNED_FOR };
    let signed = presigned_url(&request, keys, scope, presigning)
        .map_err(|error| ExchangeError::configuration("eks-unsigned").came(&error.to_string()))?;
    let token = Secret::new([PREFIX, &URL_SAFE_NO_PAD.encode(signed.expose())].concat());
    if token.expose().len() > LONGEST {
        return Err(ExchangeError::configuration("eks-token-too-long")
            .came(&format!("a token of {} bytes", token.expose().len()))
            .expected(format!("{LONGEST} at most, or the cluster refuses it"))
            .remedy(
                "use a role with a shorter session token: a smaller session policy, or no session tags",
            ));
    }
    let ends = now.checked_add(LIFETIME).unwrap_or(now).min(credential.expires_at);
    Ok(Credential::bearer(token, now, Some(ends)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chancery_wire::sigv4::AwsKeys;
    use url::Url;

    use super::*;

    fn keys(session: &str) -> Credential {
        let secret = |text: &str| Secret::new(text.to_owned());
        let keys = AwsKeys {
            access_key_id: "ASIAEXAMPLE".to_owned(),
            secret_access_key: secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: Some(secret(session)),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        Credential::new(CredentialKind::Aws(keys), at(1_440_938_160), Some(at(1_440_941_760)))
    }

    #[test]
    fn f30_a_token_of_eks_is_a_signed_request_for_one_cluster() {
        let now = Timestamp::from_second(1_440_938_160).unwrap();
        let region: Region = "eu-central-1".parse().unwrap();
        let made = token(&keys("a+b/c=="), &region, "prod", now).unwrap();
        assert_eq!(made.lifetime(), LIFETIME);
        let CredentialKind::Bearer(bearer) = &made.kind else { panic!() };
        let encoded = bearer.token.expose().strip_prefix(PREFIX).unwrap();
        let url = Url::parse(&String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap()).unwrap();
        assert_eq!((url.host_str(), url.path()), (Some("sts.eu-central-1.amazonaws.com"), "/"));
        let query: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
        for (name, value) in [
            ("Action", "GetCallerIdentity"),
            ("Version", "2011-06-15"),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "ASIAEXAMPLE/20150830/eu-central-1/sts/aws4_request"),
            ("X-Amz-Date", "20150830T123600Z"),
            ("X-Amz-Expires", "60"),
            ("X-Amz-Security-Token", "a+b/c=="),
            ("X-Amz-SignedHeaders", "host;x-k8s-aws-id"),
        ] {
            assert_eq!(query[name], value, "{name}");
        }
        assert_eq!((query["X-Amz-Signature"].len(), query.len()), (64, 9));
        let other = token(&keys("a+b/c=="), &region, "other", now).unwrap();
        let CredentialKind::Bearer(other) = &other.kind else { panic!() };
        assert_ne!(other.token.expose(), bearer.token.expose(), "the cluster is signed");
    }

    #[test]
    fn f30_what_a_cluster_would_not_take_is_refused() {
        let now = Timestamp::from_second(1_440_938_160).unwrap();
        let region: Region = "eu-central-1".parse().unwrap();
        for name in ["", "a b", "arn:aws:eks:eu-central-1:1:cluster/prod", "a\nb", &"x".repeat(101)] {
            assert_eq!(token(&keys("s"), &region, name, now).unwrap_err().code(), "eks-cluster", "{name}");
        }
        let long = token(&keys(&"s".repeat(4000)), &region, "prod", now).unwrap_err();
        assert_eq!(long.code(), "eks-token-too-long");
        let bearer = Credential::bearer(Secret::new("t".to_owned()), now, None);
        assert_eq!(token(&bearer, &region, "prod", now).unwrap_err().code(), "output-unsuitable");
        let late = Timestamp::from_second(1_440_941_700).unwrap();
        assert_eq!(
            token(&keys("s"), &region, "prod", late).unwrap().lifetime().as_secs(),
            60,
            "no longer than the keys"
        );
    }
}
