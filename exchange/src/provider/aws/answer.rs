//! What STS answers, in XML.

use chancery_wire::sigv4::AwsKeys;
use chancery_wire::xml::Element;
use chancery_wire::{HttpResponse, Secret};
use jiff::Timestamp;

use crate::credential::{Credential, CredentialKind};
use crate::error::{Class, ExchangeError, Stage};
use crate::oauth::unreadable;

/// The keys in an answer.
///
/// # Errors
/// When it is a refusal, or not STS's.
pub fn read(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
    let document = std::str::from_utf8(&answer.body).ok().and_then(|text| Element::parse(text).ok());
    if !answer.status.is_success() {
        return Err(refused(answer, document.as_ref()));
    }
    let credentials = document.as_ref().and_then(|document| document.find("Credentials"));
    keys(credentials, now).ok_or_else(|| {
        unreadable(answer, Stage::Exchange)
            .came("an answer without whole credentials")
            .expected("AssumeRoleWithWebIdentityResponse with AccessKeyId, SecretAccessKey, SessionToken and Expiration")
    })
}

fn keys(credentials: Option<&Element>, now: Timestamp) -> Option<Credential> {
    let text = |name: &str| credentials?.text_of(name).filter(|text| !text.is_empty());
    let secret = |name: &str| text(name).map(|text| Secret::new(text.to_owned()));
    let keys = AwsKeys {
        access_key_id: text("AccessKeyId")?.to_owned(),
        secret_access_key: secret("SecretAccessKey")?,
        session_token: Some(secret("SessionToken")?),
    };
    let expiration: Timestamp = text("Expiration")?.parse().ok()?;
    Some(Credential::new(CredentialKind::Aws(keys), now, Some(expiration)))
}

fn refused(answer: &HttpResponse, document: Option<&Element>) -> ExchangeError {
    let text = |name: &str| document.and_then(|document| document.text_of(name)).unwrap_or_default();
    let (code, message) = (text("Code"), text("Message"));
    let meaning = sort(answer.status.as_u16(), code, message);
    let came = match (code, message) {
        ("", "") => "a refusal that is not STS's XML".to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let error = ExchangeError::new(meaning.class, Stage::Exchange, meaning.name)
        .status(answer.status.as_u16())
        .came(&came)
        .provider_code(Some(code))
        .correlation_id(
            Some(text("RequestId")).filter(|id| !id.is_empty()).or(answer.header("x-amzn-requestid")),
        )
        .retry_after(answer.retry_after())
        .remedy(meaning.remedy);
    if meaning.name == SETTLING { error.may_settle() } else { error }
}

/// What a code of AWS's means, where its message holds a text. The first that fits counts: `InvalidIdentityToken` has
/// causes that pass and causes that do not.
struct Meaning {
    code: &'static str,
    says: &'static str,
    class: Class,
    name: &'static str,
    remedy: &'static str,
}

/// The refusal that passes by itself after a change: IAM needs up to a minute.
const SETTLING: &str = "aws-access-denied";

const MEANINGS: [Meaning; 21] = [
    Meaning {
        code: "ExpiredTokenException",
        says: "",
        class: Class::Expired,
        name: "subject-token-expired",
        remedy: "have the source give a fresh token, and compare the clocks",
    },
    Meaning {
        code: "ExpiredToken",
        says: "",
        class: Class::Expired,
        name: "subject-token-expired",
        remedy: "have the source give a fresh token, and compare the clocks",
    },
    Meaning {
        code: "IDPCommunicationError",
        says: "",
        class: Class::Transient,
        name: "aws-issuer-unreachable",
        remedy: "AWS could not read the issuer's documents: check that they are public and answer within 5 s (`chancery verify`)",
    },
    Meaning {
        code: "InvalidIdentityToken",
        says: "retrieve verification key",
        class: Class::Transient,
        name: "aws-issuer-keys-unread",
        remedy: "AWS could not read the issuer's documents: check that they are public and answer within 5 s (`chancery verify`)",
    },
    Meaning {
        code: "InvalidIdentityToken",
        says: "openidconnect provider",
        class: Class::Permanent,
        name: "aws-no-oidc-provider",
        remedy: "register the issuer in the role's account, byte for byte as in `iss` (`chancery trust aws`)",
    },
    Meaning {
        code: "InvalidIdentityToken",
        says: "audience",
        class: Class::Permanent,
        name: "aws-audience",
        remedy: "ask the source for an audience that the account's OIDC provider lists as a client id, or add it there",
    },
    Meaning {
        code: "InvalidIdentityToken",
        says: "signature",
        class: Class::Permanent,
        name: "aws-signature",
        remedy: "AWS has no key that verifies the token: compare `kid` with the issuer's JWKS (`chancery verify`)",
    },
    Meaning {
        code: "InvalidIdentityToken",
        says: "",
        class: Class::Permanent,
        name: "aws-identity-token",
        remedy: "compare the token that was sent with the account's OIDC provider",
    },
    Meaning {
        code: "IDPRejectedClaim",
        says: "",
        class: Class::Permanent,
        name: "aws-claim-rejected",
        remedy: "compare the claims with the role's trust policy",
    },
    Meaning {
        code: "AccessDenied",
        says: "",
        class: Class::Permanent,
        name: "aws-access-denied",
        remedy: "have the role's trust policy allow this provider, `sub` and `aud`; after a change IAM needs up to a minute",
    },
    Meaning {
        code: "AccessDeniedException",
        says: "",
        class: Class::Permanent,
        name: "aws-access-denied",
        remedy: "have the role's trust policy allow this provider, `sub` and `aud`; after a change IAM needs up to a minute",
    },
    // MinIO has one code for every token that it refuses.
    Meaning {
        code: "InvalidParameterValue",
        says: "no public key found",
        class: Class::Permanent,
        name: "sts-key-unknown",
        remedy: "the issuer does not publish the key that signed the token: `chancery exchange explain --check-issuer` shows which it does",
    },
    Meaning {
        code: "InvalidParameterValue",
        says: "`azp`",
        class: Class::Permanent,
        name: "sts-audience",
        remedy: "ask for the audience that the server takes: MinIO names `azp` also where `aud` is not its client id",
    },
    Meaning {
        code: "MalformedPolicyDocument",
        says: "",
        class: Class::Permanent,
        name: "aws-policy-malformed",
        remedy: "correct the session policy",
    },
    Meaning {
        code: "PackedPolicyTooLarge",
        says: "",
        class: Class::Permanent,
        name: "aws-policy-too-large",
        remedy: "shorten session policies and tags",
    },
    Meaning {
        code: "ValidationError",
        says: "",
        class: Class::Permanent,
        name: "aws-validation",
        remedy: "correct the role, the session's name or its duration",
    },
    Meaning {
        code: "RegionDisabledException",
        says: "",
        class: Class::Permanent,
        name: "aws-region-disabled",
        remedy: "enable STS of this region for the account, or choose another region",
    },
    Meaning {
        code: "Throttling",
        says: "",
        class: Class::Throttled,
        name: "throttled",
        remedy: "ask less often, and keep what was given in a cache",
    },
    Meaning {
        code: "ThrottlingException",
        says: "",
        class: Class::Throttled,
        name: "throttled",
        remedy: "ask less often, and keep what was given in a cache",
    },
    Meaning {
        code: "RequestLimitExceeded",
        says: "",
        class: Class::Throttled,
        name: "throttled",
        remedy: "ask less often, and keep what was given in a cache",
    },
    Meaning {
        code: "ServiceUnavailable",
        says: "",
        class: Class::Transient,
        name: "server-failed",
        remedy: "try again a little later",
    },
];

/// What a refusal means.
fn sort(status: u16, code: &str, message: &str) -> Meaning {
    let message = message.to_ascii_lowercase();
    let fits = |meaning: &Meaning| meaning.code == code && message.contains(meaning.says);
    if let Some(meaning) = MEANINGS.into_iter().find(fits) {
        return meaning;
    }
    let (class, name, remedy) = match Class::of_status(status) {
        Class::Throttled => (Class::Throttled, "throttled", "ask less often"),
        Class::Permanent => {
            (Class::Permanent, "aws-refused", "check that the URL is that of an STS endpoint")
        }
        class => (class, "server-failed", "try again a little later"),
    };
    Meaning { code: "", says: "", class, name, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n02_one_code_of_aws_is_sorted_by_its_message() {
        for (status, code, message, class, name) in [
            (400, "ExpiredTokenException", "Token expired", Class::Expired, "subject-token-expired"),
            (400, "IDPCommunicationError", "", Class::Transient, "aws-issuer-unreachable"),
            (
                400,
                "InvalidIdentityToken",
                "Couldn't retrieve verification key from your identity provider,  please reference AssumeRoleWithWebIdentity documentation for requirements",
                Class::Transient,
                "aws-issuer-keys-unread",
            ),
            (
                400,
                "InvalidIdentityToken",
                "No OpenIDConnect provider found in your account for https://id.example",
                Class::Permanent,
                "aws-no-oidc-provider",
            ),
            (400, "InvalidIdentityToken", "Incorrect token audience", Class::Permanent, "aws-audience"),
            (
                403,
                "AccessDenied",
                "Not authorized to perform sts:AssumeRoleWithWebIdentity",
                Class::Permanent,
                "aws-access-denied",
            ),
            (
                400,
                "InvalidParameterValue",
                "No public key found for kid k",
                Class::Permanent,
                "sts-key-unknown",
            ),
            (400, "InvalidParameterValue", "Missing", Class::Permanent, "aws-refused"),
            (400, "Throttling", "Rate exceeded", Class::Throttled, "throttled"),
            (503, "", "", Class::Transient, "server-failed"),
            (502, "", "<html>", Class::Transient, "server-failed"),
            (404, "", "", Class::Permanent, "aws-refused"),
        ] {
            let meaning = sort(status, code, message);
            assert_eq!((meaning.class, meaning.name), (class, name), "{code}: {message}");
        }
    }
}
