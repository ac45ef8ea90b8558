//! A chain told step by step, without exchanging anything: where the token comes from, what it says, what of that the
//! other side would refuse, what would be asked of whom, and the trust that would make it pass.

use std::fmt::Write as _;

use chancery_core::quoted::one_line;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::chain::Chain;
use crate::error::{ExchangeError, Sent};
use crate::preflight::{self, Difference};
use crate::provider::Provider;
use crate::token::{Claims, UnverifiedToken};

mod issuer;
mod trust;

/// How many characters of a claim are shown.
const EXCERPT: usize = 300;

/// Claims that say in which context a pipeline's token was made, and that a trust should name
/// (<https://docs.github.com/actions/reference/security/oidc>, <https://docs.gitlab.com/ci/secrets/id_token_authentication/>).
const CONTEXT: [&str; 10] = [
    "ref",
    "environment",
    "repository",
    "repository_id",
    "workflow_ref",
    "job_workflow_ref",
    "project_path",
    "ref_type",
    "ref_protected",
    "actor",
];

/// A chain in words.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Where the subject token comes from.
    pub source: String,
    /// What it says, if there is one.
    pub token: Option<Sent>,
    /// Where the workload runs, or in which context the pipeline does, as the token says it.
    pub context: Vec<Fact>,
    /// Why there is no token.
    pub no_token: Option<String>,
    /// What the other side would dislike.
    pub differences: Vec<Difference>,
    /// What would be asked of whom.
    pub requests: Vec<String>,
    /// The trust that makes it pass, where the provider has such a thing.
    pub trust: Option<Trust>,
    /// The issuer whose documents were read, if they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Whether the token would be sent, and taken as far as can be told.
    pub passes: bool,
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub value: String,
}

/// The configuration at the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// What it is, and where it goes.
    pub what: String,
    /// Its text.
    pub text: String,
}

/// Explains a chain by the token that its source gave, or failed to give.
pub fn explain(
    chain: &Chain,
    token: Result<&UnverifiedToken, &ExchangeError>,
    now: Timestamp,
) -> Explanation {
    let checked = token.ok().map(|token| preflight::check(token, &chain.expectation, now));
    Explanation {
        source: chain.source.origin(),
        token: token.ok().map(UnverifiedToken::sent),
        context: token.map(|token| context(token.claims())).unwrap_or_default(),
        no_token: token.err().map(ToString::to_string),
        passes: checked.as_ref().is_some_and(preflight::Preflight::is_passed),
        differences: checked.map(|checked| checked.differences).unwrap_or_default(),
        requests: requests(chain),
        issuer: None,
        trust: token.ok().and_then(|token| trust::of(&chain.provider, token.claims())),
    }
}

fn context(claims: &Claims) -> Vec<Fact> {
    let shown = |name: &str, value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Fact { name: name.to_owned(), value: one_line(&text, EXCERPT) }
    };
    let mut facts = Vec::new();
    if let Some(Value::Object(kubernetes)) = &claims.kubernetes {
        for (name, value) in kubernetes {
            let object = value.get("name").zip(value.get("uid"));
            facts.push(match object {
                Some((Value::String(it), Value::String(uid))) => {
                    Fact { name: name.clone(), value: one_line(&format!("{it} (uid {uid})"), EXCERPT) }
                }
                _ => shown(name, value),
            });
        }
    }
    let known = CONTEXT.iter().filter_map(|name| Some(shown(name, claims.others.get(*name)?)));
    facts.extend(known);
    facts
}

fn requests(chain: &Chain) -> Vec<String> {
    let mut requests = vec![match &chain.provider {
        Provider::Aws(aws) => {
            format!(
                "POST {} AssumeRoleWithWebIdentity {} as {}",
                aws.endpoint,
                aws.role.as_ref().map_or("", |role| role.as_str()),
                aws.session_name.as_str()
            )
        }
        Provider::Azure(azure) => format!(
            "POST {}{}/oauth2/v2.0/token client {} scope {}",
            azure.authority,
            azure.tenant,
            azure.client,
            azure.scopes.join(" ")
        ),
        Provider::Google(google) => {
            format!("POST {} audience {}", google.endpoint, google.provider.sts_audience())
        }
        Provider::TokenExchange(server) => format!("POST {} (RFC 8693)", server.endpoint),
        Provider::JwtBearer(server) => format!("POST {} (RFC 7523)", server.endpoint),
        Provider::Template(template) => format!("{} {} by a template", template.method, template.server),
        Provider::Direct(direct) => format!("nothing: {} takes the token itself", direct.audience),
    }];
    if let Provider::Google(google) = &chain.provider
        && let Some(impersonation) = &google.impersonation
    {
        requests.push(format!(
            "POST {} generateAccessToken {}",
            impersonation.endpoint,
            impersonation.email.as_str()
        ));
    }
    if let Some(registry) = &chain.registry {
        let host = registry.host().as_str();
        requests.push(match registry.endpoint() {
            Some(endpoint) => format!("POST {endpoint} for a login of {host}"),
            None => format!("nothing: {host} takes the access token as a password"),
        });
    }
    requests
}

impl Explanation {
    /// The same as text for a person.
    pub fn to_text(&self) -> String {
        let mut text = format!("1  subject token from {}\n", self.source);
        if let Some(error) = &self.no_token {
            _ = writeln!(text, "   none: {error}");
        }
        if let Some(token) = &self.token {
            _ = writeln!(text, "   {token}");
        }
        for Fact { name, value } in &self.context {
            _ = writeln!(text, "   {name}: {value}");
        }
        text.push_str("2  check before sending\n");
        let verdict = match (self.passes, &self.token) {
            (true, _) => "it may be sent",
            (false, Some(_)) if self.issuer.is_some() => "it would be refused",
            (false, Some(_)) => "it would be refused, and is not sent",
            (false, None) => "there is nothing to check",
        };
        _ = writeln!(text, "   {verdict}");
        for difference in &self.differences {
            let weight = if difference.refused { "refused" } else { "warning" };
            let Difference { claim, came, expected, hint, .. } = difference;
            _ = writeln!(text, "   {weight}: {claim} is {came}; expected {expected}; {hint}");
        }
        if let Some(issuer) = &self.issuer {
            _ = writeln!(text, "   the documents of {} were looked at", one_line(issuer, EXCERPT));
        }
        for (number, request) in (3..).zip(&self.requests) {
            _ = writeln!(text, "{number}  {request}");
        }
        if let Some(Trust { what, text: configuration }) = &self.trust {
            _ = writeln!(text, "\n{what}:\n{configuration}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
