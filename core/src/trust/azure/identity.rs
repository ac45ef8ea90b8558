//! Whose credentials a ServiceAccount gets.

use std::fmt;

/// The version of the API that every cloud has
/// (<https://learn.microsoft.com/rest/api/managedidentity/federated-identity-credentials>).
const API_VERSION: &str = "2023-01-31";

/// An identity that can have federated identity credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A user-assigned managed identity, by its resource id.
    Managed(String),
    /// An application, by its client id.
    Application(String),
}

/// A text that names no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{came:?} names no identity; expected {expected}")]
pub struct IdentityError {
    came: String,
    expected: &'static str,
}

impl Identity {
    /// Reads the resource id of a user-assigned managed identity.
    ///
    /// # Errors
    /// When it is something else.
    pub fn managed(resource_id: &str) -> Result<Self, IdentityError> {
        const SHAPE: [Option<&str>; 9] = [
            Some(""),
            Some("subscriptions"),
            None,
            Some("resourceGroups"),
            None,
            Some("providers"),
            Some("Microsoft.ManagedIdentity"),
            Some("userAssignedIdentities"),
            None,
        ];
        let parts: Vec<&str> = resource_id.split('/').collect();
        // Resource ids are compared without regard to case.
        let fits = |(part, shape): (&&str, &Option<&str>)| match shape {
            Some(word) => part.eq_ignore_ascii_case(word),
            None => !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "-_.()".contains(c)),
        };
        if parts.len() == SHAPE.len() && parts.iter().zip(&SHAPE).all(fits) {
            return Ok(Self::Managed(resource_id.to_owned()));
        }
        let expected = "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.ManagedIdentity/userAssignedIdentities/NAME";
        Err(IdentityError { came: resource_id.to_owned(), expected })
    }

    /// Reads the client id of an application.
    ///
    /// # Errors
    /// When it is something else.
    pub fn application(client_id: &str) -> Result<Self, IdentityError> {
        let hyphens = [8, 13, 18, 23];
        let legal = |(index, c): (usize, char)| match hyphens.contains(&index) {
            true => c == '-',
            false => c.is_ascii_hexdigit(),
        };
        if client_id.len() == 36 && client_id.chars().enumerate().all(legal) {
            return Ok(Self::Application(client_id.to_owned()));
        }
        let expected = "an application's client id: 32 hexadecimal digits with four hyphens";
        Err(IdentityError { came: client_id.to_owned(), expected })
    }

    /// Where its credentials are listed, or what lies `below` that.
    pub fn url(&self, endpoint: &str, below: &str) -> String {
        let endpoint = endpoint.trim_end_matches('/');
        match self {
            Self::Managed(id) => {
                format!("{endpoint}{id}/federatedIdentityCredentials{below}?api-version={API_VERSION}")
            }
            Self::Application(id) => {
                format!("{endpoint}/v1.0/applications(appId='{id}')/federatedIdentityCredentials{below}")
            }
        }
    }

    /// What is checked when they are read.
    pub const fn read_permission(&self) -> &'static str {
        match self {
            Self::Managed(_) => {
                "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/read"
            }
            Self::Application(_) => "Application.ReadWrite.OwnedBy",
        }
    }

    /// What is checked when one is written.
    pub const fn write_permission(&self) -> &'static str {
        match self {
            Self::Managed(_) => {
                "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write"
            }
            Self::Application(_) => "Application.ReadWrite.OwnedBy",
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed(id) => write!(f, "managed identity {id}"),
            Self::Application(id) => write!(f, "application {id}"),
        }
    }
}
