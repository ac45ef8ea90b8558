//! The target as arguments name it.

use std::path::PathBuf;
use std::sync::Arc;

use chancery_publisher::target::{AzureBlobTarget, AzureCredential, DirectoryTarget, S3Target, TargetError};
use chancery_publisher::{DocumentStore, TargetConfig};

#[derive(clap::Args)]
pub struct TargetArgs {
    #[command(flatten)]
    place: Place,
    /// Region of the bucket [default: AWS_REGION or the profile's; us-east-1 with an endpoint]
    #[arg(long, value_name = "REGION", requires = "s3_bucket", conflicts_with_all = ["target_directory", "azure_container"])]
    s3_region: Option<String>,
    /// Another S3 server than Amazon's
    #[arg(long, value_name = "URL", requires = "s3_bucket", conflicts_with_all = ["target_directory", "azure_container"])]
    s3_endpoint: Option<String>,
    /// Where in the bucket the issuer lies, as a rule the path of the issuer URL
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "s3_bucket",
        conflicts_with_all = ["target_directory", "azure_container"],
        default_value = "",
        hide_default_value = true
    )]
    s3_prefix: String,
    /// Name the bucket in the path and not in the host name
    #[arg(long, requires = "s3_bucket", conflicts_with_all = ["target_directory", "azure_container"])]
    s3_path_style: bool,
    /// Storage account of the container, in the public cloud
    #[arg(
        long,
        value_name = "ACCOUNT",
        requires = "azure_container",
        conflicts_with_all = ["target_directory", "s3_bucket", "azure_endpoint"]
    )]
    azure_account: Option<String>,
    /// Blob endpoint of an account in another cloud, or of another server
    #[arg(
        long,
        value_name = "URL",
        requires = "azure_container",
        conflicts_with_all = ["target_directory", "s3_bucket"]
    )]
    azure_endpoint: Option<String>,
    /// Where in the container the issuer lies, as a rule the path of the issuer URL
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "azure_container",
        conflicts_with_all = ["target_directory", "s3_bucket"],
        default_value = "",
        hide_default_value = true
    )]
    azure_prefix: String,
    /// workloadIdentity, managedIdentity, clientSecret, cli or sas [default: what the environment is made for]
    #[arg(
        long,
        value_name = "WAY",
        requires = "azure_container",
        conflicts_with_all = ["target_directory", "s3_bucket"]
    )]
    azure_credential: Option<AzureCredential>,
    /// File with a shared access signature [default: AZURE_STORAGE_SAS_TOKEN]
    #[arg(
        long,
        value_name = "FILE",
        requires = "azure_container",
        conflicts_with_all = ["target_directory", "s3_bucket"]
    )]
    azure_sas_file: Option<PathBuf>,
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
    /// Publish into this container of Azure Blob Storage; $web is what a static website serves
    #[arg(long, value_name = "CONTAINER")]
    azure_container: Option<String>,
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
        let azure_blob = self.place.azure_container.as_ref().map(|container| AzureBlobTarget {
            account: self.azure_account.clone(),
            endpoint: self.azure_endpoint.clone(),
            prefix: self.azure_prefix.clone(),
            credential: self.azure_credential,
            sas_file: self.azure_sas_file.clone(),
            ..AzureBlobTarget::of_container(container)
        });
        TargetConfig { directory, s3, azure_blob, ..TargetConfig::default() }
    }
}
