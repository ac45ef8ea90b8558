//! Credentials as Google's tools take them: a file, or what the machine offers.
//!
//! A file is one of the kinds that `gcloud` writes (<https://docs.cloud.google.com/docs/authentication/application-default-credentials>):
//! the key of a service account, `external_account` (workload identity federation), `authorized_user` or
//! `impersonated_service_account`. Without one it is Application Default Credentials: `GOOGLE_APPLICATION_CREDENTIALS`,
//! then gcloud's own file, then the metadata server.

use std::fs;
use std::path::Path;

use chancery_wire::{Endpoint, EndpointRule, HostPattern};
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::credentials::service_account::AccessSpecifier;
use google_cloud_auth::credentials::{
    Builder as Default, Credentials, external_account, impersonated, service_account, user_account,
};
use serde_json::Value;

/// Where Google's token endpoints live.
const GOOGLE: &str = "googleapis.com";

/// Why no credentials are to be had. Holds no word of a file's content.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CredentialsUnusable(String);

/// Credentials for one scope, of `file` or of the machine. Nothing is asked of the network yet. The file is read once;
/// the token file that an `external_account` names is read for each exchange.
pub(crate) fn load(file: Option<&Path>, scope: &str) -> Result<Credentials, CredentialsUnusable> {
    match file {
        Some(path) => {
            of_file(path, scope).map_err(|reason| CredentialsUnusable(format!("{} {reason}", path.display())))
        }
        None => Default::default().with_scopes([scope]).build().map_err(|error| {
            CredentialsUnusable(format!("Application Default Credentials {}", words(&error)))
        }),
    }
}

fn of_file(path: &Path, scope: &str) -> Result<Credentials, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let json: Value = serde_json::from_str(&text).map_err(|_| "is not JSON".to_owned())?;
    let kind = json.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let built = match kind.as_str() {
        "service_account" => service_account::Builder::new(json)
            .with_access_specifier(AccessSpecifier::from_scopes([scope]))
            .build(),
        "external_account" => {
            check_hosts(&json)?;
            external_account::Builder::new(json).with_scopes([scope]).build()
        }
        "authorized_user" => user_account::Builder::new(json).with_scopes([scope]).build(),
        "impersonated_service_account" => impersonated::Builder::new(json).with_scopes([scope]).build(),
        _ => {
            return Err(format!(
                "has the type {kind:?}; expected service_account, external_account, authorized_user or impersonated_service_account"
            ));
        }
    };
    built.map_err(|error| words(&error))
}

/// The cluster's token goes to these addresses: none but Google's (or the file's own universe) may get it. A loopback
/// address is a stand-in on this machine.
fn check_hosts(json: &Value) -> Result<(), String> {
    let universe = json.get("universe_domain").and_then(Value::as_str).unwrap_or(GOOGLE);
    let below = HostPattern::below(universe)
        .map_err(|_| format!("has the universe {universe:?}, which is no domain"))?;
    let rule = EndpointRule::hosts([below]);
    for field in ["token_url", "service_account_impersonation_url"] {
        let Some(url) = json.get(field).and_then(Value::as_str) else { continue };
        Endpoint::parse(url, &rule).map_err(|error| {
            format!("has a {field} that {error}; the subject token goes to https:// and a host below {universe} alone")
        })?;
    }
    Ok(())
}

/// The SDK's words, where they cannot hold a value of the file.
fn words(error: &BuildError) -> String {
    if error.is_missing_field() || error.is_unknown_type() || error.is_not_supported() || error.is_loading() {
        format!("cannot be used: {error}")
    } else {
        "cannot be used: a field is missing or is of another kind than it should be".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

    fn external(token_url: &str) -> Value {
        json!({
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/c",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": token_url,
            "credential_source": { "file": "/var/run/secrets/token" },
        })
    }

    fn loaded(json: &Value) -> Result<Credentials, CredentialsUnusable> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials.json");
        fs::write(&path, json.to_string()).unwrap();
        load(Some(&path), SCOPE)
    }

    #[tokio::test]
    async fn a_subject_token_goes_to_google_alone() {
        for url in [
            "https://sts.googleapis.com/v1/token",
            "https://sts.europe-west1.rep.googleapis.com/v1/token",
            "http://127.0.0.1:8080/v1/token",
            "http://[::1]:8080/v1/token",
        ] {
            assert!(loaded(&external(url)).is_ok(), "{url}");
        }
        for url in [
            "http://sts.googleapis.com/v1/token",
            "https://sts.googleapis.com.example.com/v1/token",
            "https://evilgoogleapis.com/v1/token",
            "https://googleapis.com/v1/token",
            "https://sts.googleapis.com@example.com/v1/token",
            "https://127.0.0.1.example.com/v1/token",
        ] {
            let error = loaded(&external(url)).unwrap_err().to_string();
            assert!(error.contains("token_url") && error.contains("googleapis.com"), "{url}: {error}");
        }
        let mut sovereign = external("https://sts.s3nsapis.fr/v1/token");
        assert!(loaded(&sovereign).is_err());
        sovereign["universe_domain"] = json!("s3nsapis.fr");
        assert!(loaded(&sovereign).is_ok());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_told_without_its_content() {
        let secret = "-----BEGIN PRIVATE KEY-----hunter2";
        for (json, word) in [
            (json!({ "type": "service_account", "private_key": secret }), "field is missing"),
            (json!({ "type": "gcloud", "private_key": secret }), "service_account"),
            (json!({ "private_key": secret }), "expected service_account"),
        ] {
            let error = loaded(&json).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("credentials.json"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let missing = load(Some(Path::new("/no/such/file")), SCOPE).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file"), "{missing}");
    }
}
