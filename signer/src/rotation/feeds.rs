//! What a policy has looked at beside the ring: kube-apiservers and nodes, and copies of tokens.

use chancery_core::KeyRing;
use chancery_core::rotation::Observations;

#[cfg(feature = "kube")]
use super::api_servers::{self, ApiServersSeen};
#[cfg(feature = "kube")]
use super::census::{self, CensusSeen};
use super::config::RotationConfig;
#[cfg(feature = "kube")]
use super::feed::Feed;
use super::feed::FeedError;

/// The tasks that look.
#[derive(Debug)]
pub(super) struct Feeds {
    #[cfg(feature = "kube")]
    api_servers: Option<Feed<ApiServersSeen>>,
    #[cfg(feature = "kube")]
    census: Option<Feed<CensusSeen>>,
}

#[cfg(feature = "kube")]
impl Feeds {
    /// Begins to look at what a policy names.
    pub async fn begin(config: &RotationConfig) -> Result<Self, FeedError> {
        let api_servers = match &config.api_servers {
            Some(api_servers) => Some(api_servers::begin(api_servers, &config.base).await?),
            None => None,
        };
        let census = match &config.census {
            Some(census) => Some(census::begin(census, &config.base).await?),
            None => None,
        };
        Ok(Self { api_servers, census })
    }

    /// Adds what was found last.
    pub async fn add_to(&mut self, observed: &mut Observations, ring: &KeyRing, troubles: &mut Vec<String>) {
        if let Some(feed) = &mut self.api_servers {
            let seen = feed.last(ring).await.unwrap_or_else(ApiServersSeen::nothing_yet);
            troubles.extend(seen.troubles());
            (observed.api_servers, observed.unknown_nodes) = (seen.servers, seen.unknown_nodes);
        }
        if let Some(feed) = &mut self.census {
            match feed.last(ring).await {
                Some(Ok(census)) => {
                    observed.legacy_tokens = Ok(census.alive(observed.now));
                    observed.last_use = census.last_use(observed.now);
                }
                Some(Err(why)) => {
                    troubles.push(format!("copies of tokens cannot be counted: {why}"));
                    observed.legacy_tokens = Err(why);
                }
                None => observed.legacy_tokens = Err("the census is not over yet".to_owned()),
            }
        }
    }
}

#[cfg(not(feature = "kube"))]
impl Feeds {
    /// Refuses a policy that names a cluster.
    pub async fn begin(config: &RotationConfig) -> Result<Self, FeedError> {
        if config.api_servers.is_some() {
            return Err(FeedError::NotBuilt("apiServers"));
        }
        match config.census {
            Some(_) => Err(FeedError::NotBuilt("census")),
            None => Ok(Self {}),
        }
    }

    /// Nothing was found.
    pub async fn add_to(&mut self, _: &mut Observations, _: &KeyRing, _: &mut Vec<String>) {}
}
