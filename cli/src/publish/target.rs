//! The target as arguments name it.

use std::path::PathBuf;
use std::sync::Arc;

use chancery_publisher::target::{
    AzureBlobTarget, AzureCredential, DirectoryTarget, GcsTarget, S3Target, TargetError,
};
use chancery_publisher::{DocumentStore, TargetConfig, open_target};

#[derive(clap::Args)]
pub struct TargetArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    s3: S3Args,
    #[command(flatten)]
    azure: AzureArgs,
    #[command(flatten)]
    gcs: GcsArgs,
}

#[derive(clap::Args)]
#[group(id = "place", required = true, multiple = false)]
struct PlaceArgs {
    /// Publish into this directory, which corresponds to the issuer URL
    #[arg(long, value_name = "DIR")]
    target_directory: Option<PathBuf>,
    /// Publish into this bucket, with the credentials of the AWS environment
    #[arg(long, value_name = "BUCKET")]
    s3_bucket: Option<String>,
    /// Publish into this container of Azure Blob Storage; $web is what a static website serves
    #[arg(long, value_name = "CONTAINER")]
    azure_container: Option<String>,
    /// Publish into this bucket of Google Cloud Storage, with Application Default Credentials
    #[arg(long, value_name = "BUCKET")]
    gcs_bucket: Option<String>,
}

#[derive(clap::Args)]
#[group(id = "s3", multiple = true, requires = "s3_bucket", conflicts_with_all = ["target_directory", "azure_container", "gcs_bucket"])]
struct S3Args {
    /// Region of the bucket [default: AWS_REGION or the profile's; us-east-1 with an endpoint]
    #[arg(long, value_name = "REGION")]
    s3_region: Option<String>,
    /// Another S3 server than Amazon's
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Where in the bucket the issuer lies, as a rule the path of the issuer URL
    #[arg(long, value_name = "PREFIX")]
    s3_prefix: Option<String>,
    /// Name the bucket in the path and not in the host name
    #[arg(long)]
    s3_path_style: bool,
}

#[derive(clap::Args)]
#[group(id = "azure", multiple = true, requires = "azure_container", conflicts_with_all = ["target_directory", "s3_bucket", "gcs_bucket"])]
struct AzureArgs {
    /// Storage account of the container, in the public cloud
    #[arg(long, value_name = "ACCOUNT", conflicts_with = "azure_endpoint")]
    azure_account: Option<String>,
    /// Blob endpoint of an account in another cloud, or of another server
    #[arg(long, value_name = "URL")]
    azure_endpoint: Option<String>,
    /// Where in the container the issuer lies, as a rule the path of the issuer URL
    #[arg(long, value_name = "PREFIX")]
    azure_prefix: Option<String>,
    /// workloadIdentity, managedIdentity, clientSecret, cli or sas [default: what the environment is made for]
    #[arg(long, value_name = "WAY")]
    azure_credential: Option<AzureCredential>,
    /// File with a shared access signature [default: AZURE_STORAGE_SAS_TOKEN]
    #[arg(long, value_name = "FILE")]
    azure_sas_file: Option<PathBuf>,
}

#[derive(clap::Args)]
#[group(id = "gcs", multiple = true, requires = "gcs_bucket", conflicts_with_all = ["target_directory", "s3_bucket", "azure_container"])]
struct GcsArgs {
    /// Another address than Google's
    #[arg(long, value_name = "URL")]
    gcs_endpoint: Option<String>,
    /// Where in the bucket the issuer lies, as a rule the path of the issuer URL
    #[arg(long, value_name = "PREFIX")]
    gcs_prefix: Option<String>,
    /// Send no credentials, as emulators want it
    #[arg(long)]
    gcs_anonymous: bool,
}

impl TargetArgs {
    /// The store. Nothing is asked of it yet.
    pub async fn open(&self) -> Result<Arc<dyn DocumentStore>, TargetError> {
        open_target(&self.config()).await
    }

    fn config(&self) -> TargetConfig {
        let Self { place, s3, azure, gcs } = self;
        TargetConfig {
            directory: place.target_directory.clone().map(|path| DirectoryTarget { path }),
            s3: place.s3_bucket.as_ref().map(|bucket| S3Target {
                region: s3.s3_region.clone(),
                endpoint: s3.s3_endpoint.clone(),
                prefix: s3.s3_prefix.clone().unwrap_or_default(),
                path_style: s3.s3_path_style,
                ..S3Target::of_bucket(bucket)
            }),
            azure_blob: place.azure_container.as_ref().map(|container| AzureBlobTarget {
                account: azure.azure_account.clone(),
                endpoint: azure.azure_endpoint.clone(),
                prefix: azure.azure_prefix.clone().unwrap_or_default(),
                credential: azure.azure_credential,
                sas_file: azure.azure_sas_file.clone(),
                ..AzureBlobTarget::of_container(container)
            }),
            gcs: place.gcs_bucket.as_ref().map(|bucket| GcsTarget {
                endpoint: gcs.gcs_endpoint.clone(),
                prefix: gcs.gcs_prefix.clone().unwrap_or_default(),
                anonymous: gcs.gcs_anonymous,
                ..GcsTarget::of_bucket(bucket)
            }),
            ..TargetConfig::default()
        }
    }
}
