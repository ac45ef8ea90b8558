//! How a client proves itself at a token endpoint (RFC 6749 section 2.3), if it does at all.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_wire::Secret;
use http::HeaderValue;
use url::form_urlencoded::byte_serialize;

use crate::error::ExchangeError;
use crate::key::KeyBuilder;

/// How a client proves itself. There is one way at a time: servers refuse two (RFC 6749 section 2.3).
#[derive(Clone, Debug, Default)]
pub enum ClientAuthentication {
    /// It does not.
    #[default]
    None,
    /// It names itself: `client_id` in the form.
    Named(String),
    /// HTTP Basic, both halves form-encoded first (RFC 6749 section 2.3.1), in standard base64 (RFC 7617).
    Basic(ClientSecret),
    /// `client_id` and `client_secret` in the form.
    Form(ClientSecret),
}

/// A client and its secret.
#[derive(Clone, Debug)]
pub struct ClientSecret {
    /// The client's id.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
}

impl ClientAuthentication {
    /// What it puts into the form.
    pub(super) fn fields(&self) -> Vec<(&str, &str)> {
        match self {
            Self::None | Self::Basic(_) => Vec::new(),
            Self::Named(id) => vec![("client_id", id)],
            Self::Form(client) => {
                vec![("client_id", &client.id), ("client_secret", client.secret.expose())]
            }
        }
    }

    /// What it puts into `Authorization`.
    ///
    /// # Errors
    /// Never in practice: base64 stands in every header.
    pub(super) fn header(&self) -> Result<Option<HeaderValue>, ExchangeError> {
        let Self::Basic(client) = self else { return Ok(None) };
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Secret::new(format!("{}:{}", encoded(&client.id), encoded(client.secret.expose())));
        let basic = Secret::new(STANDARD.encode(pair.expose()));
        basic
            .header_value("Basic ")
            .map(Some)
            .map_err(|error| ExchangeError::configuration("client-secret").came(&error.to_string()))
    }

    pub(super) fn describe(&self, key: &mut KeyBuilder) {
        match self {
            Self::None => key.text("client", "none"),
            Self::Named(id) => key.text("client", "named").text("client_id", id),
            Self::Basic(client) => key
                .text("client", "basic")
                .text("client_id", &client.id)
                .text("secret", client.secret.expose()),
            Self::Form(client) => key
                .text("client", "form")
                .text("client_id", &client.id)
                .text("secret", client.secret.expose()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_is_form_encoded_and_then_standard_base64() {
        let client = ClientSecret { id: "a b".to_owned(), secret: Secret::new("~?+>".to_owned()) };
        let header = ClientAuthentication::Basic(client).header().unwrap().unwrap();
        assert_eq!(header.as_bytes(), format!("Basic {}", STANDARD.encode("a+b:%7E%3F%2B%3E")).as_bytes());
        assert!(header.is_sensitive());
    }
}
