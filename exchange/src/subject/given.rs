//! A token that somebody hands over with what they ask, as kubelet does to its plugins.

use async_trait::async_trait;

use super::SubjectTokenSource;
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::token::UnverifiedToken;

/// A token that was handed over. There is no other one to be had.
#[derive(Clone, Debug)]
pub struct GivenToken {
    /// The token.
    pub token: UnverifiedToken,
    /// Who handed it over, in words.
    pub origin: &'static str,
}

#[async_trait]
impl SubjectTokenSource for GivenToken {
    fn origin(&self) -> String {
        self.origin.to_owned()
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn describe(&self, key: &mut KeyBuilder) {
        let claims = self.token.claims();
        key.text("source", "given")
            .optional("iss", claims.iss.as_deref())
            .optional("sub", claims.sub.as_deref())
            .list("aud", &claims.aud.0)
            .optional("uid", claims.service_account().and_then(|account| account.uid));
    }

    async fn token(&self, _audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        Ok(self.token.clone())
    }
}
