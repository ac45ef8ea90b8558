//! A subject token held against what the other side expects, before it is sent.
//!
//! Token endpoints say `invalid_grant` where they mean that an issuer has a slash too many. What can be compared here is
//! compared here, and each difference is told in words: what came, what was expected, and in what they differ.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::{Class, ExchangeError, Stage};
use crate::limits;
use crate::token::UnverifiedToken;

pub(crate) mod wording;

/// Audiences by which an API server knows the tokens that open it. Such a token goes nowhere else
/// (draft-ietf-wimse-workload-identity-practices section 5.7).
const API_SERVER: [&str; 5] = [
    "https://kubernetes.default.svc.cluster.local",
    "https://kubernetes.default.svc",
    "https://kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes",
];

/// The audience of EKS Pod Identity's tokens (<https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html>).
const POD_IDENTITY: &str = "pods.eks.amazonaws.com";

/// `typ` of tokens that are for something else than a grant or an assertion of a platform.
const FOR_SOMETHING_ELSE: [&str; 7] = [
    "at+jwt",
    "client-authentication+jwt",
    "dpop+jwt",
    "logout+jwt",
    "secevent+jwt",
    "wit+jwt",
    "wimse-id+jwt",
];

/// Longer than this, in seconds, a token was not made for one exchange: the default token of a pod lives a year.
const LONG_LIFE: i64 = 24 * 60 * 60;

/// How strictly `typ` and the number of audiences are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strictness {
    /// `typ` is `authorization-grant+jwt`, `JWT` or `JOSE`; there is one audience.
    Strict,
    /// `typ` may be missing, as Kubernetes' is; several audiences are a warning.
    #[default]
    Compatible,
}

/// What the other side expects of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// One of these must be in `aud`; empty where nothing is known.
    pub audiences: Vec<String>,
    /// `iss`, byte for byte.
    pub issuer: Option<String>,
    /// `sub`, byte for byte.
    pub subject: Option<String>,
    /// The key ids that the other side can know; empty where nothing is known.
    pub key_ids: Vec<String>,
    /// The algorithms that it takes; empty where nothing is known.
    pub algorithms: Vec<&'static str>,
    /// The longest token that it takes, in bytes.
    pub longest: Option<usize>,
    /// How strictly the rest is taken.
    pub strictness: Strictness,
    /// Whether the other side knows a workload by its SPIFFE id and verifies it by its trust domain's keys: a JWT-SVID needs
    /// no `iss` for that (JWT-SVID section 3).
    pub by_trust_domain: bool,
    /// Whether the other side is an API server, so that a token for one is what it wants.
    pub is_api_server: bool,
}

/// A difference between a token and an expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which claim or header.
    pub claim: &'static str,
    /// What came.
    pub came: String,
    /// What was expected.
    pub expected: String,
    /// In what they differ, or why it matters.
    pub hint: String,
    /// Whether the token is refused for it.
    pub refused: bool,
    /// Whether a fresh token could mend it.
    #[serde(skip)]
    pub is_of_time: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// Every difference, refusals first.
    pub differences: Vec<Difference>,
    /// How long to wait until the token is valid: a clock that is a little ahead of ours made it.
    #[serde(skip)]
    pub wait: Option<std::time::Duration>,
}

impl Preflight {
    /// Whether the token may be sent.
    pub fn is_passed(&self) -> bool {
        self.differences.iter().all(|difference| !difference.refused)
    }

    /// The token, if it may be sent.
    ///
    /// # Errors
    /// The first difference for which it is refused.
    pub fn verdict(&self, token: &UnverifiedToken) -> Result<(), ExchangeError> {
        let Some(first) = self.differences.iter().find(|difference| difference.refused) else {
            return Ok(());
        };
        let class = if first.is_of_time { Class::Expired } else { Class::Permanent };
        let code =
            if first.is_of_time { "subject-token-outside-its-time" } else { "subject-token-unsuitable" };
        Err(ExchangeError::new(class, Stage::Preflight, code)
            .came(&format!("`{}` is {}", first.claim, first.came))
            .expected(&first.expected)
            .sent(token.sent())
            .remedy(&first.hint))
    }
}

/// Holds a token against an expectation at a time.
pub fn check(token: &UnverifiedToken, expected: &Expectation, now: Timestamp) -> Preflight {
    let mut found = Found::default();
    found.issuer_and_subject(token, expected);
    found.audiences(token, expected);
    found.header(token, expected);
    found.times(token, now);
    found.size(token, expected);
    found.preflight.differences.sort_by_key(|difference| !difference.refused);
    found.preflight
}

#[derive(Default)]
struct Found {
    preflight: Preflight,
}

impl Found {
    fn refuse(&mut self, claim: &'static str, came: String, wish: Wish) {
        self.add(claim, came, Difference { refused: true, ..of(wish) });
    }

    fn warn(&mut self, claim: &'static str, came: String, wish: Wish) {
        self.add(claim, came, of(wish));
    }

    fn untimely(&mut self, claim: &'static str, came: String, wish: Wish) {
        self.add(claim, came, Difference { refused: true, is_of_time: true, ..of(wish) });
    }

    fn add(&mut self, claim: &'static str, came: String, difference: Difference) {
        self.preflight.differences.push(Difference { claim, came, ..difference });
    }

    fn issuer_and_subject(&mut self, token: &UnverifiedToken, expected: &Expectation) {
        let claims = token.claims();
        for (claim, came, wanted) in
            [("iss", &claims.iss, &expected.issuer), ("sub", &claims.sub, &expected.subject)]
        {
            let Some(came) = came.as_deref().filter(|came| !came.is_empty()) else {
                let is_svid = claims.sub.as_deref().is_some_and(|sub| sub.starts_with("spiffe://"));
                if claim == "iss" && is_svid && expected.by_trust_domain && wanted.is_none() {
                    continue;
                }
                let hint = match claim {
                    "iss" if is_svid => "it is a JWT-SVID, and whoever verifies it by OIDC finds the keys by its `iss`: set `jwt_issuer` in SPIRE's server".to_owned(),
                    _ => format!("whoever takes the token identifies the workload by its `{claim}`"),
                };
                self.refuse(claim, "missing".to_owned(), wish(format!("a token with `{claim}`"), hint));
                continue;
            };
            if let Some(wanted) = wanted
                && wanted != came
            {
                let hint = wording::difference(came, wanted);
                self.refuse(claim, format!("{came:?}"), wish(format!("{wanted:?}"), hint));
            }
        }
    }

    fn audiences(&mut self, token: &UnverifiedToken, expected: &Expectation) {
        let (claims, audiences) = (token.claims(), &token.claims().aud.0);
        let came = format!("{audiences:?}");
        if audiences.is_empty() {
            let hint = "a token without an audience is good for everybody; ask the platform for one audience";
            return self.refuse("aud", "missing".to_owned(), wish("one audience", hint));
        }
        let opens_api_server = |audience: &&String| {
            API_SERVER.contains(&audience.as_str()) || claims.iss.as_ref() == Some(*audience)
        };
        if let Some(audience) = audiences.iter().find(opens_api_server)
            && !expected.is_api_server
        {
            let hint = format!(
                "{audience:?} opens the API server: such a token is never sent elsewhere; use a projected token or TokenRequest with an audience of its own"
            );
            return self.refuse("aud", came, wish("an audience of the other side alone", hint));
        }
        let wanted = &expected.audiences;
        if let Some(nearest) = wanted.first()
            && !audiences.iter().any(|audience| wanted.contains(audience))
        {
            let hint = match audiences.iter().any(|audience| audience == POD_IDENTITY) {
                true => "it is EKS Pod Identity's, which the agent of the node alone takes, for this pod and for nobody else; project a token with the audience that is expected".to_owned(),
                false => wording::difference(audiences.first().map_or("", String::as_str), nearest),
            };
            let wanted = wanted.iter().map(|wanted| format!("{wanted:?}")).collect::<Vec<_>>().join(" or ");
            self.refuse("aud", came, wish(wanted, hint));
        } else if audiences.len() > 1 {
            let hint = "a token for several audiences can be used by each of them at the others; ask for one";
            let wish = wish("one audience", hint);
            match expected.strictness {
                Strictness::Strict => self.refuse("aud", came, wish),
                Strictness::Compatible => self.warn("aud", came, wish),
            }
        }
    }

    fn header(&mut self, token: &UnverifiedToken, expected: &Expectation) {
        let header = token.header();
        let typ = header.typ.as_deref().map(str::to_ascii_lowercase);
        let typ = typ.as_deref().map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
        let came = format!("{:?}", header.typ.as_deref().unwrap_or("missing"));
        let of_type = |hint: &str| wish("`JWT`, or `authorization-grant+jwt` (RFC 7519 section 5.1)", hint);
        match (typ, expected.strictness) {
            (Some("jwt" | "jose" | "authorization-grant+jwt" | "oauth-id-jag+jwt"), _)
            | (None, Strictness::Compatible) => {}
            (Some(typ), _) if FOR_SOMETHING_ELSE.contains(&typ) => {
                self.refuse("typ", came, of_type("the token was made for something else than this"));
            }
            (_, Strictness::Strict) => {
                self.refuse("typ", came, of_type("strict checking asks for a known type"));
            }
            (Some(_), Strictness::Compatible) => self.warn("typ", came, of_type("an unknown type of token")),
        }
        if token.claims().cnf.is_some() {
            let hint = "the token is bound to a key (RFC 7800), whose possession nobody here can prove";
            self.refuse("cnf", "present".to_owned(), wish("a token without it", hint));
        }
        let listed = |kids: &[String]| kids.join(", ");
        match &header.kid {
            Some(kid) if !expected.key_ids.is_empty() && !expected.key_ids.contains(kid) => {
                let hint =
                    "the other side does not know the key yet, or no longer: compare the issuer's JWKS";
                self.refuse("kid", format!("{kid:?}"), wish(listed(&expected.key_ids), hint));
            }
            Some(_) => {}
            None => {
                let wish = wish("the id of the signing key", "some relying parties ask for it");
                self.warn("kid", "missing".to_owned(), wish);
            }
        }
        let alg = header.alg.as_deref().unwrap_or("missing");
        let unknown = !expected.algorithms.is_empty() && !expected.algorithms.contains(&alg);
        if unknown || alg.eq_ignore_ascii_case("none") {
            let hint = "sign with RS256, which every relying party takes".to_owned();
            self.refuse("alg", format!("{alg:?}"), wish(expected.algorithms.join(", "), hint));
        }
    }

    fn times(&mut self, token: &UnverifiedToken, now: Timestamp) {
        let (claims, now_seconds) = (token.claims(), now.as_second());
        match claims.exp.map(|exp| exp.0) {
            None => {
                let hint = "no relying party takes a token without an end";
                self.refuse("exp", "missing".to_owned(), wish("a time to come", hint));
            }
            Some(exp) if exp <= now_seconds => {
                let ago = wording::seconds(now_seconds - exp);
                let hint = format!(
                    "it ended {ago} ago: read the token anew; if the platform still gives this one, its token file is stale or the clock of this machine is ahead"
                );
                self.untimely("exp", exp.to_string(), wish(format!("after {now_seconds}"), hint));
            }
            Some(exp) if exp - now_seconds > LONG_LIFE => {
                let hint = format!("it lives {} more; ask for minutes", wording::seconds(exp - now_seconds));
                self.warn("exp", exp.to_string(), wish("at most a day ahead", hint));
            }
            Some(_) => {}
        }
        let begins = claims.nbf.into_iter().chain(claims.iat).map(|begin| begin.0).max();
        let ahead = begins.map_or(0, |begins| begins - now_seconds);
        if ahead <= 0 {
            return;
        }
        let wait = SignedDuration::from_secs(ahead).unsigned_abs();
        if wait <= limits::CLOCK_WAIT {
            self.preflight.wait = Some(wait);
        } else {
            let hint = format!(
                "it begins in {}: the clock of this machine is behind, or that of the issuer ahead",
                wording::seconds(ahead)
            );
            let claim = if claims.nbf.map(|nbf| nbf.0) == begins { "nbf" } else { "iat" };
            let came = begins.unwrap_or_default().to_string();
            self.untimely(claim, came, wish(format!("at most {now_seconds}"), hint));
        }
    }

    fn size(&mut self, token: &UnverifiedToken, expected: &Expectation) {
        let length = token.secret().expose().len();
        if let Some(longest) = expected.longest.filter(|longest| length > *longest) {
            let hint = "the other side refuses longer ones; ask the issuer for fewer claims".to_owned();
            self.refuse(
                "the token",
                format!("{length} bytes long"),
                wish(format!("at most {longest} bytes"), hint),
            );
        }
    }
}

/// What was expected instead, and why it matters.
struct Wish {
    expected: String,
    hint: String,
}

fn wish(expected: impl Into<String>, hint: impl Into<String>) -> Wish {
    Wish { expected: expected.into(), hint: hint.into() }
}

/// A warning.
fn of(Wish { expected, hint }: Wish) -> Difference {
    Difference { claim: "", came: String::new(), expected, hint, refused: false, is_of_time: false }
}

#[cfg(test)]
mod tests;
