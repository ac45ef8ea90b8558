//! The target as arguments name it.

use std::path::PathBuf;
use std::sync::Arc;

use chancery_publisher::target::{DirectoryTarget, GcsTarget, S3Target, TargetError};
use chancery_publisher::{DocumentStore, TargetConfig};

#[derive(clap::Args)]
pub struct TargetArgs {
    #[command(flatten)]
    place: Place,
    /// Region of the bucket [default: AWS_REGION or the profile's; us-east-1 with an endpoint]
    #[arg(long, value_name = "REGION", requires = "s3_bucket", conflicts_with_all = ["target_directory", "gcs_bucket"])]
    s3_region: Option<String>,
    /// Another S3 server than Amazon's
    #[arg(long, value_name = "URL", requires = "s3_bucket", conflicts_with_all = ["target_directory", "gcs_bucket"])]
    s3_endpoint: Option<String>,
    /// Where in the bucket the issuer lies, as a rule the path of the issuer URL
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "s3_bucket",
        conflicts_with_all = ["target_directory", "gcs_bucket"],
        default_value = "",
        hide_default_value = true
    )]
    s3_prefix: String,
    /// Name the bucket in the path and not in the host name
    #[arg(long, requires = "s3_bucket", conflicts_with_all = ["target_directory", "gcs_bucket"])]
    s3_path_style: bool,
    /// Another address than Google's
    #[arg(long, value_name = "URL", requires = "gcs_bucket", conflicts_with_all = ["target_directory", "s3_bucket"])]
    gcs_endpoint: Option<String>,
    /// Where in the bucket the issuer lies, as a rule the path of the issuer URL
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "gcs_bucket", conflicts_with_all = ["target_directory", "s3_bucket"],
        default_value = "",
        hide_default_value = true
    )]
    gcs_prefix: String,
    /// Send no credentials, as emulators want it
    #[arg(long, requires = "gcs_bucket", conflicts_with_all = ["target_directory", "s3_bucket"])]
    gcs_anonymous: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// Publish into this directory, which corresponds to the issuer URL
    #[arg(long, value_name = "DIR")]
    target_directory: Option<PathBuf>,
    /// Publish into this bucket, with the credentials of the AWS environment
    #[arg(long, value_name = "BUCKET")]
    s3_bucket: Option<String>,
    /// Publish into this bucket of Google Cloud Storage, with Application Default Credentials
    #[arg(long, value_name = "BUCKET")]
    gcs_bucket: Option<String>,
}

impl TargetArgs {
    /// The store. Nothing is asked of it yet.
    pub async fn open(&self) -> Result<Arc<dyn DocumentStore>, TargetError> {
        self.config().open().await
    }

    fn config(&self) -> TargetConfig {
        let directory = self.place.target_directory.clone().map(|path| DirectoryTarget { path });
        let s3 = self.place.s3_bucket.as_ref().map(|bucket| S3Target {
            region: self.s3_region.clone(),
            endpoint: self.s3_endpoint.clone(),
            prefix: self.s3_prefix.clone(),
            path_style: self.s3_path_style,
            ..S3Target::of_bucket(bucket)
        });
        let gcs = self.place.gcs_bucket.as_ref().map(|bucket| GcsTarget {
            endpoint: self.gcs_endpoint.clone(),
            prefix: self.gcs_prefix.clone(),
            anonymous: self.gcs_anonymous,
            ..GcsTarget::of_bucket(bucket)
        });
        TargetConfig { directory, s3, gcs, ..TargetConfig::default() }
    }
}
