//! Why an anonymous reader cannot read from Azure Blob Storage.
//!
//! What it is told does not name the control by itself: a private container is answered as one that does not exist. So
//! the answer is held against what the publisher sees with its credentials and, where they reach so far, against the
//! settings of the account.

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;

mod probe;
mod settings;

pub use probe::{anonymous, held, probe};
pub use settings::{AccountSettings, account_settings};

/// What is known of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureBlobFacts {
    /// Where an anonymous reader looks for it.
    pub url: String,
    /// What it gets there.
    pub anonymous: Anonymous,
    /// What the publisher sees, if it was asked.
    pub held: Option<PublisherView>,
    /// The settings of the account, if they could be read.
    pub settings: Option<AccountSettings>,
}

/// What an anonymous reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// No answer, with the reason.
    Nothing(String),
    /// An answer.
    Answer {
        /// The status.
        status: u16,
        /// `x-ms-error-code`; empty where there is none.
        code: String,
        /// `Location`.
        location: Option<String>,
        /// Who stands in front, by the header that gives it away.
        front: Option<&'static str>,
    },
}

/// What the publisher sees with its credentials, from the same machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublisherView {
    /// The document is there.
    Present,
    /// It is not.
    Absent,
    /// The container is not.
    NoContainer,
    /// It was refused or got no answer, in these words.
    Unknown(String),
}

/// Names every control that stops an anonymous reader, the one that answers first; nothing where it can read.
///
/// Sources: <https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure>,
/// <https://learn.microsoft.com/azure/storage/common/storage-network-security>,
/// <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>.
pub fn explain(facts: &AzureBlobFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = answered(facts).into_iter().collect();
    let stopped = findings.iter().any(|finding| finding.severity == Severity::Error);
    if let Some(settings) = facts.settings.as_ref().filter(|_| stopped) {
        for finding in settings.stop(facts.is_website()) {
            if !findings.iter().any(|there| there.rule == finding.rule) {
                findings.push(finding);
            }
        }
    }
    findings.extend(in_front(facts));
    findings
}

impl AzureBlobFacts {
    /// Whether it is read through the static website, which has controls of its own.
    fn is_website(&self) -> bool {
        let host = self.url.split('/').nth(2).unwrap_or_default();
        host.split('.').any(|label| label == "web")
    }

    /// Whether this machine gets through to the account: then no network rule stops its anonymous readings either.
    fn gets_through(&self) -> bool {
        matches!(self.held, Some(PublisherView::Present | PublisherView::Absent | PublisherView::NoContainer))
    }
}

fn answered(facts: &AzureBlobFacts) -> Option<Finding> {
    let (status, code, location) = match &facts.anonymous {
        Anonymous::Nothing(reason) => {
            return Some(error(
                "azure-unreachable",
                format!("{} gives no answer: {reason}", facts.url),
                "see that the account exists, that its name resolves publicly and not to a private endpoint alone",
            ));
        }
        Anonymous::Answer { status, code, location, .. } => (*status, code.as_str(), location),
    };
    let said = format!("{} is answered with {status} {code}", facts.url);
    let finding = match (status, code) {
        (200..=299, _) => return None,
        (300..=399, _) => error(
            "azure-redirect",
            format!("{said}, to {}", location.as_deref().unwrap_or("nowhere")),
            "relying parties follow no redirect: serve the documents where the issuer URL says",
        ),
        (_, "PublicAccessNotPermitted") => account_forbids(&said),
        (_, "AccountRequiresHttps") => error(
            "azure-https-required",
            said,
            "give the issuer URL as https://, which every relying party wants",
        ),
        (_, "AccountIsDisabled") => error("azure-account-disabled", said, "have the account enabled"),
        (_, "WebContentNotFound") => website(facts, said),
        (_, "BlobNotFound") => missing(facts, said),
        (_, "ResourceNotFound" | "ContainerNotFound" | "NoAuthenticationInformation") => {
            container(facts, said)
        }
        (403, _) if facts.gets_through() => container(facts, said),
        (403, "AuthorizationFailure" | "IpAuthorizationFailure" | "") => network(&said),
        (404, _) => missing(facts, said),
        _ => error("azure-refused", said, "compare the issuer URL with the account's endpoints"),
    };
    Some(finding)
}

fn website(facts: &AzureBlobFacts, said: String) -> Finding {
    if facts.held == Some(PublisherView::Present) {
        return error(
            "azure-static-website-off",
            format!("{said}, although the blob is in the container"),
            "switch the static website on (az storage blob service-properties update --static-website), publish to the container $web, and see that the prefix is the issuer's path",
        );
    }
    missing(facts, said)
}

fn missing(facts: &AzureBlobFacts, said: String) -> Finding {
    if facts.held == Some(PublisherView::Present) {
        return error(
            "azure-wrong-place",
            format!("{said}, although the publisher sees it"),
            "make the target's container and prefix those of the issuer URL",
        );
    }
    error("azure-blob-missing", format!("{said}: there is no such blob"), "publish the documents there")
}

fn container(facts: &AzureBlobFacts, said: String) -> Finding {
    if facts.held == Some(PublisherView::NoContainer) {
        return error("azure-container-missing", format!("{said}: there is no such container"), "make it");
    }
    let sure = if facts.gets_through() { "" } else { ", or does not exist" };
    error(
        "azure-container-private",
        format!("{said}: the container lets nobody read without credentials{sure}"),
        "set its anonymous access level to Blob (az storage container set-permission --public-access blob), or publish to $web and switch the static website on",
    )
}

fn account_forbids(said: &str) -> Finding {
    error(
        "azure-account-forbids-anonymous",
        format!("{said}: the account's allowBlobPublicAccess is false, which overrides every container"),
        "publish to $web and switch the static website on, which this setting does not touch; or set allowBlobPublicAccess to true, unless a policy forbids it",
    )
}

fn network(said: &str) -> Finding {
    error(
        "azure-network-rules",
        format!("{said}: the account's network rules do not let everybody in"),
        "set publicNetworkAccess to Enabled and the default action of the network rules to Allow; relying parties come from anywhere",
    )
}

fn in_front(facts: &AzureBlobFacts) -> Option<Finding> {
    let Anonymous::Answer { front: Some(front), status, .. } = &facts.anonymous else { return None };
    let refused = *status >= 300;
    Some(Finding {
        rule: "azure-front",
        severity: if refused { Severity::Warning } else { Severity::Note },
        breaks: if refused { RelyingParty::ALL.to_vec() } else { Vec::new() },
        message: format!("{front} answers for {}", facts.url),
        remedy: "let it pass on the path and Cache-Control unchanged, keep nothing longer than that says, and follow no redirect to another host".to_owned(),
    })
}

fn error(rule: &'static str, message: String, remedy: &str) -> Finding {
    let breaks = RelyingParty::ALL.to_vec();
    Finding { rule, severity: Severity::Error, breaks, message, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests;
