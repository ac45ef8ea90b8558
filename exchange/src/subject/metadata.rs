//! The identity that a cloud gives its own machines, as the subject at another cloud: Azure's managed identities
//! (<https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token>) and Google's
//! service accounts (<https://docs.cloud.google.com/compute/docs/instances/verifying-instance-identity>).
//!
//! What is asked goes by plain HTTP to the link-local address alone, which no proxy is given. A token comes back, and
//! nothing secret goes there.

use async_trait::async_trait;
use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret};
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::{Environment, SubjectTokenSource, missing, refused};
use crate::error::{ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::token::UnverifiedToken;
use crate::transport::Transport;

/// Where the clouds' machines ask.
const ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(169, 254, 169, 254);

/// Whose machine it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Azure's; where a machine has several identities, the client id of one.
    Azure {
        /// The client id.
        client: Option<String>,
    },
    /// Google's.
    Google,
}

/// Tokens of the machine that this process runs on.
pub struct CloudMetadata {
    machine: Machine,
    server: Endpoint,
    transport: Transport,
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
}

impl CloudMetadata {
    /// The machine's own metadata server, or one that `AZURE_POD_IDENTITY_AUTHORITY_HOST` or `GCE_METADATA_HOST` names on
    /// this machine.
    ///
    /// # Errors
    /// When a variable names another place: whoever answers there is who this workload is.
    pub fn new(
        machine: Machine,
        environment: &Environment,
        transport: Transport,
    ) -> Result<Self, ExchangeError> {
        let variable = machine.variable();
        let named = environment.text(variable).unwrap_or_else(|| ADDRESS.to_string());
        let url = if named.contains("://") { named } else { format!("http://{named}") };
        let rule = EndpointRule::any_host().with_plain([ADDRESS.into()]);
        let refused = |error| ExchangeError::endpoint(variable, &error);
        let server = Endpoint::parse(&url, &rule).map_err(refused)?;
        if server.url().scheme() != "http" {
            return Err(ExchangeError::configuration("metadata-elsewhere")
                .came(&format!("{url:?} in {variable}"))
                .expected(format!("http://{ADDRESS}, or a port of this machine"))
                .remedy("leave the variable away where this is a machine of the cloud"));
        }
        Ok(Self { machine, server, transport })
    }

    /// The request for a token.
    ///
    /// # Errors
    /// When the audience cannot stand in a URL.
    pub fn request(&self, audience: &str) -> Result<HttpRequest, ExchangeError> {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let (path, (name, value)) = match &self.machine {
            Machine::Azure { client } => {
                let client = client.as_deref().map(|client| format!("&client_id={}", encoded(client)));
                let query = format!("api-version=2018-02-01&resource={}", encoded(audience));
                let path = format!("/metadata/identity/oauth2/token?{query}{}", client.unwrap_or_default());
                (path, ("metadata", "true"))
            }
            Machine::Google => {
                let query = format!("audience={}&format=full", encoded(audience));
                let path = format!("/computeMetadata/v1/instance/service-accounts/default/identity?{query}");
                (path, ("metadata-flavor", "Google"))
            }
        };
        let url = format!("{}{path}", self.server.base().trim_end_matches('/'));
        let endpoint = self.server.admit(&url);
        let endpoint = endpoint.map_err(|error| ExchangeError::endpoint(self.machine.variable(), &error))?;
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        Ok(HttpRequest::new(Method::GET, &endpoint).header(name, value))
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self, answer: &HttpResponse) -> Result<UnverifiedToken, ExchangeError> {
        if !answer.status.is_success() {
            return Err(refused(answer, "metadata-refused")
                .came("the metadata server refused a token")
                .remedy(self.machine.remedy()));
        }
        let unreadable =
            || missing("metadata-refused").status(answer.status.as_u16()).came("an answer without a token");
        let token = match &self.machine {
            Machine::Azure { .. } => {
                let given: Given = serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
                Secret::new(given.access_token)
            }
            Machine::Google => Secret::new(String::from_utf8_lossy(&answer.body).into_owned()),
        };
        UnverifiedToken::parse(token.expose()).map_err(|error| error.at(&self.origin()))
    }
}

impl Machine {
    fn variable(&self) -> &'static str {
        match self {
            Self::Azure { .. } => "AZURE_POD_IDENTITY_AUTHORITY_HOST",
            Self::Google => "GCE_METADATA_HOST",
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Azure { .. } => {
                "give the machine a managed identity, and Entra an application whose id URI is the audience"
            }
            Self::Google => "give the machine a service account",
        }
    }
}

#[async_trait]
impl SubjectTokenSource for CloudMetadata {
    fn origin(&self) -> String {
        match &self.machine {
            Machine::Azure { .. } => "Azure's instance metadata".to_owned(),
            Machine::Google => "Google's metadata server".to_owned(),
        }
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        let client = match &self.machine {
            Machine::Azure { client } => client.as_deref(),
            Machine::Google => None,
        };
        key.text("source", self.machine.variable())
            .text("metadata", self.server.url().as_str())
            .optional("metadata_client", client);
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        self.read(&self.transport.send(Stage::Source, self.request(audience)?).await?)
    }
}
