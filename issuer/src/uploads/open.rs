//! From what configuration names to a sink.

use std::path::Path;
use std::sync::Arc;

use chancery_core::IssuerUrl;
use chancery_publisher::sink::config::{ConfigMapPlace, GcpProviderPlace, SinkConfigError};
use chancery_publisher::sink::http_put::HttpPutSink;
use chancery_publisher::sink::vault::VaultSink;
use chancery_publisher::sink::{JwksSink, SinkConfig, SinkPlace};

/// Opens a sink of `issuer`. Nothing is asked of it yet.
///
/// # Errors
/// When something that it names cannot be used.
pub(crate) async fn open_sink(
    config: &SinkConfig,
    issuer: &IssuerUrl,
    base: &Path,
) -> Result<Arc<dyn JwksSink>, OpenError> {
    Ok(match config.place()? {
        SinkPlace::Vault(vault) => Arc::new(VaultSink::open(vault, issuer)?),
        SinkPlace::GcpProvider(provider) => open_gcp_provider(provider)?,
        SinkPlace::HttpPut(http_put) => Arc::new(HttpPutSink::open(http_put, issuer)?),
        SinkPlace::ConfigMap(config_map) => open_config_map(config_map, issuer, base).await?,
    })
}

#[cfg(feature = "gcp")]
fn open_gcp_provider(place: &GcpProviderPlace) -> Result<Arc<dyn JwksSink>, OpenError> {
    Ok(Arc::new(chancery_publisher::sink::gcp::connect(place)?))
}

#[cfg(not(feature = "gcp"))]
fn open_gcp_provider(_: &GcpProviderPlace) -> Result<Arc<dyn JwksSink>, OpenError> {
    Err(SinkConfigError::NotBuilt { place: "gcpProvider", feature: "gcp" }.into())
}

#[cfg(feature = "kube")]
async fn open_config_map(
    place: &ConfigMapPlace,
    issuer: &IssuerUrl,
    base: &Path,
) -> Result<Arc<dyn JwksSink>, OpenError> {
    use chancery_cluster::access::ClusterChoice;
    use chancery_publisher::sink::config_map::ConfigMapSink;

    let (kubeconfig, context) = (place.kubeconfig.as_deref(), place.context.as_deref());
    let client = ClusterChoice { kubeconfig, context, base }.client().await?;
    Ok(Arc::new(ConfigMapSink::new(client, place, issuer)))
}

#[cfg(not(feature = "kube"))]
async fn open_config_map(
    _: &ConfigMapPlace,
    _: &IssuerUrl,
    _: &Path,
) -> Result<Arc<dyn JwksSink>, OpenError> {
    Err(SinkConfigError::NotBuilt { place: "configMap", feature: "kube" }.into())
}

/// Why a sink cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// A value or a file that cannot be used.
    #[error(transparent)]
    Config(#[from] SinkConfigError),
    /// The credentials of a provider cannot be used.
    #[cfg(feature = "gcp")]
    #[error(transparent)]
    Google(#[from] chancery_publisher::target::TargetError),
    /// The cluster of a ConfigMap cannot be reached.
    #[cfg(feature = "kube")]
    #[error("the sink's `configMap`: {0}")]
    Cluster(#[from] chancery_cluster::access::AccessError),
}
