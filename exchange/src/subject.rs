//! Where subject tokens come from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chancery_wire::{HttpResponse, Secret};

use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::token::UnverifiedToken;

pub mod aws;
pub mod ci;
pub mod file;
pub mod given;
pub mod metadata;
#[cfg(feature = "spiffe")]
pub mod spiffe;
pub mod variable;
pub mod workload;

pub use aws::AwsIdentity;
pub use file::TokenFile;
pub use given::GivenToken;
pub use metadata::{CloudMetadata, Machine};
#[cfg(feature = "spiffe-broker")]
pub use spiffe::{BrokerApi, BrokerIdentity};
#[cfg(feature = "spiffe")]
pub use spiffe::{SpiffeId, WorkloadApi};
pub use variable::TokenVariable;
pub use workload::ServiceAccountSource;

/// Whose a subject token is: what stays when the token changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenIdentity {
    /// `iss`.
    pub iss: String,
    /// `sub`.
    pub sub: String,
    /// `aud`.
    pub aud: Vec<String>,
}

impl TokenIdentity {
    fn of(token: &UnverifiedToken) -> Self {
        let claims = token.claims();
        Self {
            iss: claims.iss.clone().unwrap_or_default(),
            sub: claims.sub.clone().unwrap_or_default(),
            aud: claims.aud.0.clone(),
        }
    }
}

/// Gives subject tokens.
#[async_trait]
pub trait SubjectTokenSource: Send + Sync {
    /// Where its tokens come from, in words.
    fn origin(&self) -> String;

    /// Whether it can give another token than it gave last: one of a variable cannot.
    fn can_renew(&self) -> bool;

    /// Adds whose tokens it gives. The token itself is never part of a key.
    fn describe(&self, key: &mut KeyBuilder);

    /// A token for an audience, as fresh as it has one.
    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError>;

    /// Whose its tokens for an audience are. Where that takes no token, none is made.
    async fn identity(&self, audience: &str) -> Result<TokenIdentity, ExchangeError> {
        self.token(audience).await.map(|token| TokenIdentity::of(&token))
    }
}

/// The variables of a process, handed in so that tests need no process of their own.
#[derive(Clone)]
pub struct Environment(Lookup);

#[derive(Clone)]
enum Lookup {
    Process,
    Given(Arc<BTreeMap<String, Secret>>),
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        Self(Lookup::Process)
    }

    /// These variables and no other.
    pub fn given<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let secret = |(name, value): (&str, &str)| (name.to_owned(), Secret::new(value.to_owned()));
        Self(Lookup::Given(Arc::new(variables.into_iter().map(secret).collect())))
    }

    /// What a variable is set to, unless that is nothing.
    pub fn secret(&self, name: &str) -> Option<Secret> {
        let value = match &self.0 {
            Lookup::Process => std::env::var(name).ok().map(Secret::new),
            Lookup::Given(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The same, for what is no secret.
    pub fn text(&self, name: &str) -> Option<String> {
        self.secret(name).map(|value| value.expose().to_owned())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// A source without a token.
pub(crate) fn missing(code: &'static str) -> ExchangeError {
    ExchangeError::new(Class::Source, Stage::Source, code)
}

/// A source whose server gives no token. What asking again does not change is the source's to change.
fn refused(answer: &HttpResponse, code: &'static str) -> ExchangeError {
    let class = match Class::of_status(answer.status.as_u16()) {
        Class::Permanent => Class::Source,
        class => class,
    };
    let error = ExchangeError::new(class, Stage::Source, code);
    error.status(answer.status.as_u16()).retry_after(answer.retry_after())
}
