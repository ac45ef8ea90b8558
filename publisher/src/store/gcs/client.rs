//! The SDK's client for one target.

use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_storage::client::Storage;
use google_cloud_storage::read_resume_policy::NeverResume;

use super::condition::Conditional;
use crate::google;
use crate::target::{GcsTarget, TargetError};

/// Objects, and neither buckets nor policies.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

pub(super) async fn connect(target: &GcsTarget) -> Result<Storage, TargetError> {
    let mut builder = Storage::builder()
        .with_credentials(Conditional::new(credentials(target)?))
        // An operation is one request: what failed is read again from its beginning, and no upload is resumed.
        .with_retry_policy(NeverRetry)
        .with_read_resume_policy(NeverResume)
        .with_resumable_upload_threshold(usize::MAX)
        .with_grpc_subchannel_count(1);
    if let Some(endpoint) = &target.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    builder.build().await.map_err(|error| TargetError::IllegalValue {
        field: "gcs",
        came: format!("refused by the client: {error}"),
        remedy: "correct `endpoint` and the credentials".to_owned(),
    })
}

fn credentials(target: &GcsTarget) -> Result<Credentials, TargetError> {
    if target.anonymous {
        return Ok(anonymous::Builder::new().build());
    }
    let file = target.credentials_file.as_deref();
    google::load(file, SCOPE).map_err(|error| TargetError::IllegalValue {
        field: "gcs.credentialsFile",
        came: error.to_string(),
        remedy: "give a file that gcloud has made, or set GOOGLE_APPLICATION_CREDENTIALS".to_owned(),
    })
}
