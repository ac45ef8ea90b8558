//! The SDK's client for one target.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
#[expect(
    deprecated,
    reason = "these are the public names; what they name now is an internal crate of the SDK"
)]
use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Builder, Region, RequestChecksumCalculation, ResponseChecksumValidation};

use crate::target::{S3Target, TargetError};

/// One retry of the SDK's; the executor above tries again with a fresh reading.
const ATTEMPTS: u32 = 2;
/// A conditional write that is retried sees its own first attempt as a conflict, which reading again clears up.
const PAUSE: Duration = Duration::from_secs(2);
/// What servers other than Amazon's are called when nobody says otherwise.
const USUAL_REGION: &str = "us-east-1";

pub(super) async fn load(target: &S3Target) -> Result<SdkConfig, TargetError> {
    let attempt = Duration::from_secs(target.timeout_seconds.into());
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(attempt)
        .operation_attempt_timeout(attempt)
        .operation_timeout(operation_limit(target));
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts.build());
    let shared = with_credentials(with_region(loader, target), target)?.load().await;
    if shared.region().is_none() {
        return Err(TargetError::IllegalValue {
            field: "s3.region",
            came: "not set".to_owned(),
            remedy: "name the bucket's region there, in AWS_REGION or in the profile".to_owned(),
        });
    }
    Ok(shared)
}

pub(super) async fn connect(target: &S3Target) -> Result<Client, TargetError> {
    let mut config = Builder::from(&load(target).await?)
        .force_path_style(target.path_style)
        // The SDK's default checksums are refused by some servers that are not Amazon's.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &target.endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(config.build()))
}

/// How long one operation may take with all its attempts.
pub(super) fn operation_limit(target: &S3Target) -> Duration {
    Duration::from_secs(target.timeout_seconds.into()) * ATTEMPTS + PAUSE
}

fn with_region(loader: ConfigLoader, target: &S3Target) -> ConfigLoader {
    let usual = target.endpoint.as_ref().map(|_| USUAL_REGION.to_owned());
    match target.region.clone().or(usual) {
        Some(region) => loader.region(Region::new(region)),
        None => loader,
    }
}

fn with_credentials(loader: ConfigLoader, target: &S3Target) -> Result<ConfigLoader, TargetError> {
    let profile = target.profile.as_deref();
    match (&target.credentials_file, profile) {
        (Some(path), _) => {
            // The chain would only say that it found nothing, and at the first write.
            std::fs::metadata(path)
                .map_err(|error| TargetError::illegal("s3.credentialsFile", path, error))?;
            Ok(loader.credentials_provider(CredentialsFile::new(path, profile)))
        }
        (None, Some(profile)) => Ok(loader.profile_name(profile)),
        (None, None) => Ok(loader),
    }
}

/// Credentials from one file. The SDK's own provider reads its file once in the life of the process; renewed
/// credentials in a mounted secret must be seen, so each loading is done by a fresh one. The SDK keeps what it gets
/// for 15 minutes.
#[derive(Debug)]
struct CredentialsFile {
    path: PathBuf,
    profile: String,
}

impl CredentialsFile {
    fn new(path: &Path, profile: Option<&str>) -> Self {
        Self { path: path.to_owned(), profile: profile.unwrap_or("default").to_owned() }
    }
}

impl ProvideCredentials for CredentialsFile {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        #[expect(deprecated, reason = "as above")]
        let files = ProfileFiles::builder().with_file(ProfileFileKind::Credentials, &self.path).build();
        let provider = ProfileFileCredentialsProvider::builder()
            .profile_files(files)
            .profile_name(&self.profile)
            .build();
        future::ProvideCredentials::new(async move { provider.provide_credentials().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn renewed_credentials_are_read_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let write = |id: &str| {
            let text = format!(
                "[default]\naws_access_key_id=no\naws_secret_access_key=no\n[ours]\naws_access_key_id={id}\naws_secret_access_key=s\n"
            );
            std::fs::write(&path, text).unwrap();
        };
        let file = CredentialsFile::new(&path, Some("ours"));
        for id in ["first", "second"] {
            write(id);
            assert_eq!(file.provide_credentials().await.unwrap().access_key_id(), id);
        }
    }

    #[tokio::test]
    async fn a_missing_credentials_file_is_named_at_once() {
        let target =
            S3Target { credentials_file: Some("/no/such/file".into()), ..S3Target::of_bucket("bucket") };
        let error = connect(&target).await.unwrap_err().to_string();
        assert!(error.contains("s3.credentialsFile") && error.contains("/no/such/file"), "{error}");
    }
}
