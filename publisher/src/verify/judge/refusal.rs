//! What an answer other than 200 means.

use chancery_core::DocumentKind;
use chancery_core::lint::{Finding, Severity};
use chancery_core::quoted::{escaped, quoted};

use super::all;
use crate::verify::fetch::FetchedDocument;
use crate::verify::rule;

/// An error code in the XML of an object store, what it means to an anonymous reader, and what to do.
struct Code {
    code: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

/// S3 (API reference, "Error responses"), Azure Blob Storage ("Blob service error codes") and GCS ("XML API
/// status codes") write `<Error><Code>`.
const CODES: [Code; 10] = [
    Code {
        code: "AccessDenied",
        meaning: "anonymous reading is not allowed, or the object is not there and listing is not allowed",
        remedy: "S3: turn off BlockPublicPolicy of the bucket and of the account, and allow s3:GetObject to everybody by a bucket policy; GCS: grant allUsers roles/storage.objectViewer; then check that the object exists",
    },
    Code {
        code: "AllAccessDisabled",
        meaning: "the bucket is blocked altogether",
        remedy: "choose another bucket, or ask its provider",
    },
    Code {
        code: "NoSuchKey",
        meaning: "the bucket is readable and holds no such object",
        remedy: "publish it there with `chancery publish apply`, and compare the target's prefix with the path of the issuer URL",
    },
    Code {
        code: "NoSuchBucket",
        meaning: "there is no bucket of this name",
        remedy: "create the bucket, or correct the issuer URL",
    },
    Code {
        code: "PermanentRedirect",
        meaning: "the bucket is in another region than this endpoint",
        remedy: "name the regional endpoint in the issuer URL, such as https://BUCKET.s3.REGION.amazonaws.com",
    },
    Code {
        code: "PublicAccessNotPermitted",
        meaning: "the storage account forbids anonymous reading",
        remedy: "use the account's static website endpoint, or set allowBlobPublicAccess to true",
    },
    Code {
        code: "ResourceNotFound",
        meaning: "there is no such container or blob, or the container is private",
        remedy: "set the container's anonymous access level to Blob, and check that the blob exists",
    },
    Code {
        code: "BlobNotFound",
        meaning: "the container is readable and holds no such blob",
        remedy: "publish it there, and compare the target's prefix with the path of the issuer URL",
    },
    Code {
        code: "ContainerNotFound",
        meaning: "there is no container of this name",
        remedy: "create the container, or correct the issuer URL",
    },
    Code {
        code: "SlowDown",
        meaning: "the store throttles its readers",
        remedy: "put a cache in front of it",
    },
];

pub(super) fn judge(kind: DocumentKind, fetched: &FetchedDocument) -> Option<Finding> {
    match fetched.status {
        200 => None,
        // A 304 answers a condition that was never made.
        300..=303 | 305..=399 => Some(redirected(kind, fetched)),
        _ => Some(refused(kind, fetched)),
    }
}

fn redirected(kind: DocumentKind, fetched: &FetchedDocument) -> Finding {
    let known = store_code(&fetched.body).and_then(|code| known(&code));
    let place = fetched
        .headers
        .location
        .as_deref()
        .map_or_else(|| "nowhere".to_owned(), |place| quoted(place).to_string());
    Finding {
        rule: rule::REDIRECTED,
        severity: Severity::Error,
        breaks: all(),
        message: format!(
            "the {kind} at {} answered {} and sends the reader to {place}; expected 200. Redirects were not followed: jose and others for Node do not, and neither AWS, Azure nor Google promises to; Go's readers (kubernetes, vault, minio) would{}",
            escaped(&fetched.url),
            fetched.status,
            known.map(|code| format!(". {} means that {}", code.code, code.meaning)).unwrap_or_default(),
        ),
        remedy: known.map_or(
            "serve the document at that URL itself; if the redirect adds or removes a slash or `www.`, correct the issuer URL",
            |code| code.remedy,
        ).to_owned(),
    }
}

fn refused(kind: DocumentKind, fetched: &FetchedDocument) -> Finding {
    let (explanation, remedy) = explain(fetched);
    Finding {
        rule: rule::STATUS_NOT_200,
        severity: Severity::Error,
        breaks: all(),
        message: format!(
            "the {kind} at {} answered {}{explanation}; expected 200",
            escaped(&fetched.url),
            fetched.status
        ),
        remedy,
    }
}

/// What the body or the status says, and what to do.
fn explain(fetched: &FetchedDocument) -> (String, String) {
    if let Some(code) = store_code(&fetched.body) {
        return match known(&code) {
            Some(code) => (format!(" {}: {}", code.code, code.meaning), code.remedy.to_owned()),
            None => (
                format!(" {}", quoted(&code)),
                "look the code up in the documentation of the object store".to_owned(),
            ),
        };
    }
    let remedy = match fetched.status {
        401 | 403 if is_kubernetes_status(&fetched.body) => {
            return (
                ": a kube-apiserver that does not let anonymous readers in".to_owned(),
                "publish the documents elsewhere with `chancery issuer`, or bind the ClusterRole system:service-account-issuer-discovery to the group system:unauthenticated".to_owned(),
            );
        }
        401 | 403 | 407 => "let anonymous readers in; relying parties have no credentials",
        404 | 410 => "publish the document there, and compare its path with that of the issuer URL",
        405 => "let the server answer GET",
        421 => "let the server know the issuer's host name",
        429 => "do not throttle relying parties; put a cache in front",
        500.. => "look into the log of the server",
        _ => "serve the document with status 200",
    };
    (String::new(), remedy.to_owned())
}

fn known(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// The text of the first `<Code>` element, as object stores write it.
fn store_code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    Some(code.trim().to_owned())
}

/// Whether the body is a `Status` of the Kubernetes API.
fn is_kubernetes_status(body: &[u8]) -> bool {
    let unverified: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    unverified.is_some_and(|body| body.get("kind").and_then(serde_json::Value::as_str) == Some("Status"))
}
