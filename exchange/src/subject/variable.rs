//! A token in a variable, as GitLab, CircleCI and Bitbucket give theirs. It was made once and cannot be renewed.

use async_trait::async_trait;

use super::{Environment, SubjectTokenSource, missing};
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::token::UnverifiedToken;

/// A token in a variable.
#[derive(Clone, Debug)]
pub struct TokenVariable {
    name: String,
    environment: Environment,
}

impl TokenVariable {
    /// A token in the variable `name`. Outside of a pipeline a variable is no place for one (W-01): it is seen by every
    /// debugger, and inherited by every child.
    ///
    /// # Errors
    /// When this is no pipeline, and the operator has not allowed it.
    pub fn new(name: &str, environment: Environment, allowed: bool) -> Result<Self, ExchangeError> {
        if !allowed && environment.text("CI").is_none() {
            return Err(ExchangeError::configuration("token-in-environment")
                .came(&format!("a token in the variable {name:?} outside of a pipeline"))
                .expected("a token in a file")
                .remedy("put it into a file, or allow it with --allow-env-token"));
        }
        Ok(Self { name: name.to_owned(), environment })
    }

    /// The variable of GitLab's token for an audience, by the convention of its `id_tokens`: `AUDIENCE_ID_TOKEN`.
    pub fn of_gitlab(audience: &str) -> String {
        let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("{}_ID_TOKEN", audience.chars().map(part).collect::<String>())
    }
}

#[async_trait]
impl SubjectTokenSource for TokenVariable {
    fn origin(&self) -> String {
        format!("the variable {}", self.name)
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn describe(&self, key: &mut KeyBuilder) {
        // Who it is for is not known before it is read; a process has one environment.
        key.text("source", "variable").text("variable", &self.name);
    }

    async fn token(&self, _audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let value = self.environment.secret(&self.name).ok_or_else(|| {
            missing("subject-token-variable")
                .came(&format!("the variable {:?} is not set", self.name))
                .expected("a token that the pipeline puts there")
                .remedy("in GitLab declare it below `id_tokens:` with its `aud`; elsewhere enable OIDC for the job")
        })?;
        UnverifiedToken::parse(value.expose()).map_err(|error| error.at(&self.origin()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    #[tokio::test]
    async fn w_01_variables_are_for_pipelines() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvbmUifQ.c2ln";
        let ci = Environment::given([("CI", "true"), ("STS_AMAZONAWS_COM_ID_TOKEN", token)]);
        let name = TokenVariable::of_gitlab("sts.amazonaws.com");
        let source = TokenVariable::new(&name, ci.clone(), false).unwrap();
        assert_eq!(source.token("x").await.unwrap().claims().sub.as_deref(), Some("one"));
        let missing = TokenVariable::new("OTHER", ci, false).unwrap().token("x").await.unwrap_err();
        assert_eq!((missing.class(), missing.code()), (Class::Source, "subject-token-variable"));
        let at_home = Environment::given([("TOKEN", token)]);
        assert!(TokenVariable::new("TOKEN", at_home.clone(), false).is_err());
        assert!(TokenVariable::new("TOKEN", at_home, true).is_ok());
    }
}
