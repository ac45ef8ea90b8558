//! The one way by which requests leave: every leg of every exchange has the same limits, proxy and certificates.

use std::fmt;

use chancery_wire::{CertificateTrust, ClientOptions, HttpClient, HttpRequest, HttpResponse, Proxies};

use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::limits;

/// What is the same for every request of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportOptions {
    /// The content of a PEM file of authorities to believe beside those of this machine.
    pub authorities: Option<Vec<u8>>,
    /// The way out, `http://` or `https://`; none but the environment's when missing.
    pub proxy: Option<String>,
}

impl TransportOptions {
    /// Adds what a credential may depend on to its key.
    pub fn describe(&self, key: &mut KeyBuilder) {
        let authorities = self.authorities.as_ref().map(|pem| String::from_utf8_lossy(pem));
        key.optional("authorities", authorities.as_deref()).optional("proxy", self.proxy.as_deref());
    }
}

/// Makes requests. Cheap to clone; one of them serves a whole process, whose connections it keeps.
#[derive(Clone)]
pub struct Transport {
    client: HttpClient,
    options: TransportOptions,
}

impl Transport {
    /// A transport. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// When certificates or the proxy cannot be used.
    pub fn new(options: TransportOptions) -> Result<Self, ExchangeError> {
        let mut client = ClientOptions::new(limits::REQUEST, limits::ANSWER);
        client.user_agent = concat!("chancery/", env!("CARGO_PKG_VERSION"));
        if let Some(pem) = &options.authorities {
            client.certificates = CertificateTrust::PlatformAnd(pem.clone());
        }
        client.proxies = match &options.proxy {
            Some(proxy) => Proxies::Named(proxy.clone()),
            None => Proxies::Environment,
        };
        let client = HttpClient::new(&client).map_err(|error| {
            ExchangeError::configuration("transport-unusable")
                .came(&error.to_string())
                .remedy("check the CA file and the proxy")
        })?;
        Ok(Self { client, options })
    }

    /// What is the same for every request.
    pub fn options(&self) -> &TransportOptions {
        &self.options
    }

    /// The answer to a request, of whatever status but a redirect: whoever was given a token does not pass it on.
    ///
    /// # Errors
    /// When no whole answer came, or one that points elsewhere.
    pub async fn send(&self, stage: Stage, request: HttpRequest) -> Result<HttpResponse, ExchangeError> {
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| ExchangeError::transport(stage, &error).target(&host))?;
        if answer.status.is_redirection() {
            return Err(ExchangeError::new(Class::Permanent, stage, "redirect-refused")
                .target(&host)
                .status(answer.status.as_u16())
                .came("the answer points to another place")
                .expected("an answer from the token endpoint itself")
                .remedy("name the final URL of the token endpoint"));
        }
        Ok(answer)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("options", &self.options).finish_non_exhaustive()
    }
}
