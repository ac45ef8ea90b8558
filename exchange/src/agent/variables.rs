//! The variables by which the clouds' SDKs find an agent.

use std::net::SocketAddr;

use super::{Shape, aws, azure};

/// A variable of whoever is to ask the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its name.
    pub name: &'static str,
    /// What it is set to.
    pub value: Value,
}

/// What a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// This text.
    Text(String),
    /// The path of the file with the secret.
    SecretsPath,
    /// What that file holds.
    Secret,
}

/// What SDKs are told of a shape that is answered at an address.
pub(super) fn of(shape: &Shape, address: SocketAddr) -> Vec<Announced> {
    let announced = |name, value| Announced { name, value };
    let text = |name, text: String| announced(name, Value::Text(text));
    match shape {
        Shape::Aws => vec![
            text("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{address}{}", aws::PATH)),
            announced("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", Value::SecretsPath),
        ],
        Shape::Azure(identity) if identity.has_secret() => vec![
            text("IDENTITY_ENDPOINT", format!("http://{address}{}", azure::APP_SERVICE)),
            announced("IDENTITY_HEADER", Value::Secret),
        ],
        Shape::Azure(_) => vec![text("AZURE_POD_IDENTITY_AUTHORITY_HOST", format!("http://{address}"))],
        // Some libraries look for the one to find out whether there is a server at all, and then ask the other.
        Shape::Google(_) => {
            vec![text("GCE_METADATA_HOST", address.to_string()), text("GCE_METADATA_IP", address.to_string())]
        }
    }
}
