//! A request that flags describe, or one of a server that is known.

use std::collections::BTreeMap;

use chancery_exchange::ExchangeError;
use chancery_exchange::provider::HttpTemplate;
use chancery_exchange::provider::template::body::Body;
use chancery_exchange::provider::template::preset::Preset;
use chancery_exchange::provider::template::text::{PathText, Values};
use chancery_exchange::provider::template::{AnswerFields, Authentication, Method, operator_server};
use clap::ValueEnum;

use super::{Way, needed};

/// A server that is known.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PresetChoice {
    /// A robot of Quay: --username ORGANISATION+ROBOT
    Quay,
    /// JFrog: --param provider=NAME
    Jfrog,
    /// octo-sts: --param scope=OWNER/REPOSITORY --param identity=NAME
    OctoSts,
    /// Vault and OpenBao: --param role=NAME, --param mount=PATH, --param namespace=PATH
    Vault,
}

/// Where the token stands in the head of a request.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AuthenticationChoice {
    /// Authorization: Bearer
    Bearer,
    /// Authorization: Basic, the token as the password of --username
    Basic,
    /// Nowhere: {token} is in the body
    None,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Templates (--to template)")]
pub(super) struct TemplateArgs {
    /// A server that is known; otherwise --path and the others describe the request
    #[arg(long, value_enum)]
    pub(super) preset: Option<PresetChoice>,
    /// The server, as a host or a URL without a path; otherwise that of --registry
    #[arg(long, value_name = "HOST")]
    pub(super) server: Option<String>,
    /// The user. For kubelet also that of a bearer token, where a registry takes one as a password
    #[arg(long, value_name = "NAME")]
    pub(super) username: Option<String>,
    /// A value for {params.NAME}. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) param: Vec<String>,
    /// The path and the query, as /token?scope={repository}; never the token
    #[arg(long, value_name = "TEXT")]
    pub(super) path: Option<String>,
    /// The body of a POST: JSON, or a form as jwt={token}&role={params.role}. Without one it is a GET
    #[arg(long, value_name = "TEXT")]
    pub(super) body: Option<String>,
    /// Where the token stands in the head
    #[arg(long, value_enum, default_value_t = AuthenticationChoice::Bearer)]
    pub(super) authentication: AuthenticationChoice,
    /// The field of the answer with the credential, as token or auth.client_token
    #[arg(long, value_name = "NAME", default_value = "token")]
    pub(super) token_field: String,
    /// The field with the seconds it lives
    #[arg(long, value_name = "NAME", default_value = "expires_in")]
    pub(super) lifetime_field: String,
}

impl TemplateArgs {
    /// Whether a host is that of the server.
    pub(super) fn is_for(&self, host: &str) -> bool {
        self.server.as_deref().is_some_and(|server| host_alone(server) == host_alone(host))
    }
}

impl Way {
    /// The user whose password a bearer token is.
    pub fn username(&self) -> Option<&str> {
        self.template.username.as_deref()
    }

    /// The template of the flags, for a login of `registry` where one is named.
    pub(super) fn template(&self, registry: Option<&str>) -> Result<HttpTemplate, ExchangeError> {
        let args = &self.template;
        let registry = registry.map(host_alone);
        let server = args.server.as_deref().or(registry).ok_or_else(|| needed("--server", "a host"))?;
        let server = operator_server(server)?;
        let values = Values {
            username: args.username.clone().unwrap_or_default(),
            registry: registry.unwrap_or_default().to_owned(),
            repository: String::new(),
            params: params(&args.param)?,
        };
        let mut template = match args.preset {
            Some(preset) => of(preset).template(server, values)?,
            None => {
                let path = args.path.as_deref().ok_or_else(|| needed("--path", "or --preset"))?;
                let body = Body::parse(args.body.as_deref().unwrap_or_default())?;
                let authentication = match args.authentication {
                    AuthenticationChoice::Bearer => Authentication::Bearer,
                    AuthenticationChoice::Basic => Authentication::Basic,
                    AuthenticationChoice::None => Authentication::None,
                };
                HttpTemplate {
                    audience: server.base().to_owned(),
                    server,
                    method: if body == Body::None { Method::GET } else { Method::POST },
                    path: PathText::parse(path)?,
                    body,
                    authentication,
                    values,
                    answer: AnswerFields {
                        token: args.token_field.clone(),
                        lifetime: args.lifetime_field.clone(),
                        username: None,
                    },
                    login_for: None,
                    preset: None,
                }
                .checked()?
            }
        };
        template.login_for = registry.map(str::to_owned);
        if let Some(audience) = &self.audience {
            template.audience.clone_from(audience);
        }
        Ok(template)
    }
}

/// A registry as docker names it, without what makes a URL of it.
fn host_alone(registry: &str) -> &str {
    registry.strip_prefix("https://").unwrap_or(registry).trim_end_matches('/')
}

fn of(preset: PresetChoice) -> Preset {
    match preset {
        PresetChoice::Quay => Preset::Quay,
        PresetChoice::Jfrog => Preset::JFrog,
        PresetChoice::OctoSts => Preset::OctoSts,
        PresetChoice::Vault => Preset::Vault,
    }
}

fn params(given: &[String]) -> Result<BTreeMap<String, String>, ExchangeError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ExchangeError::configuration("template-parameter")
            .came(&format!("{text:?} as a parameter"))
            .expected("NAME=VALUE")),
    };
    given.iter().map(pair).collect()
}
