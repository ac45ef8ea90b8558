//! What Entra refuses, by its numbers
//! (<https://learn.microsoft.com/entra/identity-platform/reference-error-codes>). They are meant for people and may
//! change: the status decides first, and an unknown number is a refusal.

use chancery_wire::HttpResponse;

use crate::error::{Class, ExchangeError, Stage};
use crate::oauth::{self, Refusal};

/// What a number of Entra's means.
struct Meaning {
    numbers: &'static [u64],
    class: Class,
    code: &'static str,
    remedy: &'static str,
    may_settle: bool,
}

const MEANINGS: [Meaning; 9] = [
    Meaning {
        numbers: &[70_021, 700_211, 700_212, 700_213, 7_002_138],
        class: Class::Permanent,
        code: "azure-no-matching-credential",
        remedy: "compare iss, sub and aud with the federated identity credential, byte for byte, in case and slashes (`chancery trust azure`); a new one needs up to a minute",
        may_settle: true,
    },
    Meaning {
        numbers: &[7_002_381],
        class: Class::Permanent,
        code: "azure-claim-policy",
        remedy: "the tenant's policy on enterprise claims refuses the token: ask its administrator",
        may_settle: false,
    },
    Meaning {
        numbers: &[700_024],
        class: Class::Expired,
        code: "subject-token-expired",
        remedy: "have the source give a fresh token, and compare the clocks",
        may_settle: false,
    },
    Meaning {
        numbers: &[700_016, 90_002, 900_023],
        class: Class::Permanent,
        code: "azure-unknown-client-or-tenant",
        remedy: "check the client id and the tenant, and that the one is in the other",
        may_settle: false,
    },
    Meaning {
        numbers: &[7_000_215, 7_000_222, 700_027],
        class: Class::Permanent,
        code: "azure-client-authentication",
        remedy: "Entra verified the assertion against something else than the federated issuer: check that the client has a federated identity credential for `iss`",
        may_settle: false,
    },
    Meaning {
        numbers: &[90_061, 50_166],
        class: Class::Transient,
        code: "azure-issuer-unreachable",
        remedy: "Entra could not read the issuer's documents: check that they are public (`chancery verify`)",
        may_settle: false,
    },
    Meaning {
        numbers: &[53_003],
        class: Class::Permanent,
        code: "azure-conditional-access",
        remedy: "a policy of conditional access refuses the workload: ask the tenant's administrator",
        may_settle: false,
    },
    Meaning {
        numbers: &[70_011, 500_011, 650_057],
        class: Class::Permanent,
        code: "azure-scope",
        remedy: "name the resource's `/.default` scope, and check that the resource is known in the tenant",
        may_settle: false,
    },
    Meaning {
        numbers: &[90_033, 90_006, 90_024, 50_196],
        class: Class::Transient,
        code: "server-failed",
        remedy: "try again a little later",
        may_settle: false,
    },
];

/// The refusal that an answer is.
pub(super) fn read(answer: &HttpResponse) -> ExchangeError {
    let general = oauth::refused(answer, Stage::Exchange);
    let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let number = refusal.error_codes.first().copied().or_else(|| number_in(&refusal.error_description));
    let id = refusal.correlation_id.as_deref().or(refusal.trace_id.as_deref());
    let named = match number {
        Some(number) => general.provider_code(Some(&format!("AADSTS{number}"))),
        None => general,
    };
    let named = named.correlation_id(id).came(first_sentence(&refusal));
    if Class::of_status(answer.status.as_u16()) != Class::Permanent {
        return named;
    }
    let meaning = number.and_then(|number| MEANINGS.iter().find(|it| it.numbers.contains(&number)));
    let Some(meaning) = meaning else { return named };
    let error = ExchangeError::new(meaning.class, Stage::Exchange, meaning.code)
        .status(answer.status.as_u16())
        .came(&named.failure().came)
        .provider_code(named.failure().provider_code.as_deref())
        .correlation_id(named.failure().correlation_id.as_deref())
        .retry_after(answer.retry_after())
        .remedy(meaning.remedy);
    if meaning.may_settle { error.may_settle() } else { error }
}

/// What Entra says without the ids and the time behind it, which are told elsewhere.
fn first_sentence(refusal: &Refusal) -> &str {
    let text = match refusal.error_description.as_str() {
        "" => refusal.error.as_str(),
        text => text,
    };
    let end = text.find(" Trace ID:").or_else(|| text.find("\r\n")).unwrap_or(text.len());
    match text.get(..end).unwrap_or(text) {
        "" => "an answer without an error of Entra's",
        text => text,
    }
}

fn number_in(description: &str) -> Option<u64> {
    let (_, rest) = description.split_once("AADSTS")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}
