//! The client's parts that come from one target.

use std::sync::Arc;
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use azure_core::http::{ClientOptions, Url};
use chancery_wire::{Endpoint, EndpointRule};

use crate::azure::credential::{self, NoCredential};
use crate::azure::sas::{self, Sas};
use crate::azure::{transport, words};
use crate::target::{AzureBlobTarget, AzureCredential, TargetError};

/// How long one operation may take with all its attempts.
pub(super) fn operation_limit(target: &AzureBlobTarget) -> Duration {
    attempt(target) * transport::ATTEMPTS + transport::PAUSE
}

fn attempt(target: &AzureBlobTarget) -> Duration {
    Duration::from_secs(target.timeout_seconds.into())
}

/// Who gives tokens, unless each request is signed by itself, and how requests are sent.
pub(super) fn credentials(
    target: &AzureBlobTarget,
) -> Result<(Option<Arc<dyn TokenCredential>>, ClientOptions), TargetError> {
    let configured = target.credential.or(target.sas_file.as_ref().map(|_| AzureCredential::Sas));
    let chosen = credential::choose(configured, &credential::environment).map_err(illegal)?;
    if chosen == AzureCredential::Sas {
        return Ok((None, options(target, Some(sas(target)?))?));
    }
    let options = options(target, None)?;
    let identity = target.identity();
    let credential = credential::open(chosen, &identity, &credential::environment, options.clone());
    Ok((Some(credential.map_err(illegal)?), options))
}

fn options(target: &AzureBlobTarget, sas: Option<Sas>) -> Result<ClientOptions, TargetError> {
    transport::options(attempt(target), sas).map_err(|error| TargetError::IllegalValue {
        field: "azureBlob",
        came: format!("not to be reached from this machine: {}", words(&error)),
        remedy: "install a bundle of certificate authorities, or name one in SSL_CERT_FILE".to_owned(),
    })
}

fn sas(target: &AzureBlobTarget) -> Result<Sas, TargetError> {
    let illegal = |field, came: String| TargetError::IllegalValue {
        field,
        came,
        remedy: "give the query of a signed URL, `sv=…&sig=…`, with the rights r, c and w".to_owned(),
    };
    match (&target.sas_file, credential::environment(sas::VARIABLE)) {
        (Some(file), _) => {
            Sas::of_file(file).map_err(|problem| illegal("azureBlob.sasFile", format!("unusable: {problem}")))
        }
        (None, Some(text)) => Sas::of_text(&text).map_err(|problem| {
            illegal("azureBlob.credential", format!("unusable: {} {problem}", sas::VARIABLE))
        }),
        (None, None) => {
            let came = format!("sas, but neither `sasFile` nor {} is set", sas::VARIABLE);
            Err(illegal("azureBlob.credential", came))
        }
    }
}

fn illegal(missing: NoCredential) -> TargetError {
    TargetError::IllegalValue {
        field: "azureBlob.credential",
        came: missing.came,
        remedy: missing.remedy.to_owned(),
    }
}

/// The URL below which the paths lie. Whoever brings a token needs TLS; a shared access signature goes without it to an
/// emulator on this machine alone.
pub(super) fn base(target: &AzureBlobTarget, with_token: bool) -> Result<Url, TargetError> {
    let endpoint = target.base();
    if with_token && !endpoint.starts_with("https://") {
        let remedy = "expected https://, since an Entra token is sent there; over http only a shared access signature is";
        return Err(TargetError::illegal("azureBlob.endpoint", endpoint, remedy));
    }
    let mut url = Endpoint::parse(&endpoint, &EndpointRule::any_host())
        .map_err(|error| TargetError::illegal("azureBlob.endpoint", &endpoint, error))?
        .url()
        .clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(&target.container);
        segments.extend(target.trimmed_prefix().split('/').filter(|part| !part.is_empty()));
    }
    Ok(url)
}
