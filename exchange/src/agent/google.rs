//! Google's metadata server (<https://docs.cloud.google.com/compute/docs/metadata/predefined-metadata-keys>).

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::Asked;
use super::query::{Query, is_one_word};
use super::reply::{self, Reply};
use crate::chain::Chain;
use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::provider::google::CLOUD_PLATFORM;
use crate::provider::{GoogleProvider, Provider};

/// What every path begins with.
const ROOT: &str = "/computeMetadata/v1";

/// The machine that clients believe they are on.
pub(super) struct Machine {
    email: Option<String>,
    project: Option<String>,
    project_number: String,
    universe: String,
    scopes: Vec<String>,
}

#[derive(Serialize)]
struct AccessToken<'a> {
    access_token: &'a str,
    expires_in: u64,
    token_type: &'a str,
}

impl Machine {
    pub(super) fn new(google: &GoogleProvider, scopes: &[String], project: Option<String>) -> Self {
        let email = google.impersonation.as_ref().map(|account| account.email.as_str().to_owned());
        let of_email = || {
            let domain = email.as_deref()?.split_once('@')?.1;
            domain.strip_suffix(".iam.gserviceaccount.com").map(str::to_owned)
        };
        let project = project.or_else(of_email);
        let number = google.provider.as_str().split('/').nth(1).unwrap_or_default().to_owned();
        let universe = google.endpoint.host().strip_prefix("sts.").unwrap_or("googleapis.com").to_owned();
        // What opens everything may be narrowed in any way.
        let is_open = scopes.iter().any(|scope| scope == CLOUD_PLATFORM);
        let scopes = if is_open { Vec::new() } else { scopes.to_vec() };
        Self { email, project, project_number: number, universe, scopes }
    }

    pub(super) fn asked(&self, chain: &Chain, path: &str, query: &Query) -> Asked {
        let known =
            |text: Option<&str>| Asked::Known(text.map_or_else(nothing, |text| Reply::text(200, text)));
        let Some(path) = path.strip_prefix(ROOT) else {
            return known(
                matches!(path, "/" | "/computeMetadata" | "/computeMetadata/")
                    .then_some("computeMetadata/\n"),
            );
        };
        match path.trim_end_matches('/') {
            "/project/project-id" => known(self.project.as_deref()),
            "/project/numeric-project-id" => known(Some(&self.project_number)),
            "/universe/universe-domain" => known(Some(&self.universe)),
            "/instance/service-accounts" => known(Some(&self.accounts())),
            path => match path.strip_prefix("/instance/service-accounts/") {
                Some(rest) => self.account(chain, rest, query),
                None => known(None),
            },
        }
    }

    /// What is asked of a service account, by its e-mail or as `default`.
    fn account(&self, chain: &Chain, path: &str, query: &Query) -> Asked {
        let (name, wish) = path.split_once('/').unwrap_or((path, ""));
        if name != "default" && self.email.as_deref() != Some(name) {
            return Asked::Known(nothing());
        }
        match (wish, &self.email) {
            ("token", _) => self.token(chain, query),
            ("identity", Some(_)) => identity(chain, query),
            ("identity", None) => Asked::Known(error(
                404,
                "no service account is impersonated, and without one there are no ID tokens; start the agent with --impersonate",
            )),
            ("email", Some(email)) => Asked::Known(Reply::text(200, email)),
            ("scopes", _) => Asked::Known(Reply::text(200, &format!("{}\n", self.granted().join("\n")))),
            ("", _) => Asked::Known(self.described(query)),
            _ => Asked::Known(nothing()),
        }
    }

    fn token(&self, chain: &Chain, query: &Query) -> Asked {
        let wanted: Vec<&str> = match query.get("scopes") {
            Some(scopes) => scopes.split(',').map(str::trim).collect(),
            None => self.granted(),
        };
        if !wanted.iter().all(|scope| is_one_word(scope)) {
            return Asked::Known(error(400, "scopes are URLs, separated by commas"));
        }
        if !self.scopes.is_empty() && !wanted.iter().all(|scope| self.granted().contains(scope)) {
            return Asked::Known(error(
                403,
                &format!("the agent gives tokens for {} alone", self.granted().join(", ")),
            ));
        }
        let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        let mut chain = chain.clone();
        chain.provider.ask_for(&wanted);
        Asked::Credential(Box::new(chain), write)
    }

    fn described(&self, query: &Query) -> Reply {
        if query.get("recursive").is_none_or(|recursive| !recursive.eq_ignore_ascii_case("true")) {
            return Reply::text(200, "aliases\nemail\nidentity\nscopes\ntoken\n");
        }
        let email = self.email.as_deref().unwrap_or("default");
        let account = json!({ "aliases": ["default"], "email": email, "scopes": self.granted() });
        Reply::json(200, &account).unwrap_or_else(|_| nothing())
    }

    fn accounts(&self) -> String {
        let email = self.email.as_deref().map(|email| format!("{email}/\n"));
        format!("default/\n{}", email.unwrap_or_default())
    }

    fn granted(&self) -> Vec<&str> {
        match self.scopes.as_slice() {
            [] => vec![CLOUD_PLATFORM],
            scopes => scopes.iter().map(String::as_str).collect(),
        }
    }
}

fn identity(chain: &Chain, query: &Query) -> Asked {
    let Some(audience) = query.get("audience").filter(|audience| is_one_word(audience)) else {
        return Asked::Known(error(400, "audience is missing; expected whom the ID token is for"));
    };
    let mut chain = chain.clone();
    if let Provider::Google(google) = &mut chain.provider
        && let Some(impersonation) = &mut google.impersonation
    {
        impersonation.id_token_for = Some(audience.to_owned());
    }
    Asked::Credential(Box::new(chain), write_identity)
}

fn write(credential: &Credential, _query: &Query, now: Timestamp) -> Result<Reply, ExchangeError> {
    let CredentialKind::Bearer(bearer) = &credential.kind else {
        return Err(reply::of_another_kind(credential));
    };
    let expires_in = credential.duration(now).as_secs();
    Reply::json(200, &AccessToken { access_token: bearer.token.expose(), expires_in, token_type: "Bearer" })
}

fn write_identity(credential: &Credential, _query: &Query, _now: Timestamp) -> Result<Reply, ExchangeError> {
    let CredentialKind::Bearer(bearer) = &credential.kind else {
        return Err(reply::of_another_kind(credential));
    };
    Ok(Reply::text(200, bearer.token.expose()))
}

pub(super) fn error(status: u16, words: &str) -> Reply {
    Reply::text(status, words)
}

fn nothing() -> Reply {
    error(404, "the agent knows nothing of this")
}
