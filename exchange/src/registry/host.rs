//! Which registry a host is, by its labels, from the first to the last.

use std::str::FromStr;

use crate::error::ExchangeError;
use crate::provider::aws::Region;

/// The endings of Azure's registries, in its clouds.
const ACR: [&str; 4] = [".azurecr.io", ".azurecr.cn", ".azurecr.de", ".azurecr.us"];

/// The endings of ECR's hosts and the beginning before the region that each goes with.
const ECR: [(&str, &str); 10] = [
    (".amazonaws.com.cn", ".dkr.ecr."),
    (".amazonaws.com", ".dkr.ecr."),
    (".amazonaws.eu", ".dkr.ecr."),
    (".c2s.ic.gov", ".dkr.ecr."),
    (".sc2s.sgov.gov", ".dkr.ecr."),
    (".cloud.adc-e.uk", ".dkr.ecr."),
    (".csp.hci.ic.gov", ".dkr.ecr."),
    (".amazonaws.com", ".dkr.ecr-fips."),
    (".on.aws", ".dkr-ecr."),
    (".on.amazonwebservices.com.cn", ".dkr-ecr."),
];

/// The host of a registry of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryHost {
    host: String,
    kind: RegistryKind,
}

/// Whose registry it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryKind {
    /// Amazon ECR.
    Ecr {
        /// The account.
        account: String,
        /// The region.
        region: Region,
    },
    /// Amazon ECR Public, whose logins are made in us-east-1.
    EcrPublic,
    /// Azure Container Registry.
    Acr,
    /// Google's Artifact Registry, and Container Registry before it.
    Google,
    /// JFrog's, which takes a role of AWS. No host tells that it is one.
    JFrog {
        /// The region whose STS says who the role is.
        region: Region,
    },
}

impl RegistryHost {
    /// The host.
    pub fn as_str(&self) -> &str {
        &self.host
    }

    /// Whose registry it is.
    pub fn kind(&self) -> &RegistryKind {
        &self.kind
    }

    /// A registry of JFrog's that takes roles of AWS.
    ///
    /// # Errors
    /// When it is no host, or one of a cloud's own registry.
    pub fn of_jfrog(text: &str, region: Region) -> Result<Self, ExchangeError> {
        let host = bare(text);
        if !is_host(host) || !host.contains('.') || kind(host).is_some() {
            return Err(ExchangeError::configuration("registry-unknown")
                .came(&format!("{text:?} as the host of JFrog"))
                .expected("a host in lower case and without a port, as example.jfrog.io"));
        }
        Ok(Self { host: host.to_owned(), kind: RegistryKind::JFrog { region } })
    }

    /// The name of the provider that gives the credential for it.
    pub fn provider(&self) -> &'static str {
        match self.kind {
            RegistryKind::Ecr { .. } | RegistryKind::EcrPublic | RegistryKind::JFrog { .. } => "aws",
            RegistryKind::Acr => "azure",
            RegistryKind::Google => "gcp",
        }
    }
}

impl FromStr for RegistryHost {
    type Err = ExchangeError;

    /// Reads a host as docker gives it: alone, or as the URL `https://HOST`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = bare(text);
        let kind = if is_host(host) { kind(host) } else { None };
        match kind {
            Some(kind) => Ok(Self { host: host.to_owned(), kind }),
            None => Err(unknown(text)),
        }
    }
}

/// A host without what makes a URL of it.
fn bare(text: &str) -> &str {
    let host = text.strip_prefix("https://").unwrap_or(text);
    host.strip_suffix('/').unwrap_or(host)
}

fn is_host(host: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    host.len() <= 253 && host.bytes().all(legal) && host.split('.').all(is_label)
}

/// What is no registry that is known here.
pub(super) fn unknown(text: &str) -> ExchangeError {
    ExchangeError::configuration("registry-unknown")
        .came(&format!("{text:?} is on no registry that is known here"))
        .expected("a host of ECR, ECR Public, Azure Container Registry, Artifact Registry or gcr.io, in lower case and without a port")
        .remedy("for another registry use its own token endpoint (`--to token-exchange`) or the token itself (`--to direct`)")
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
}

fn kind(host: &str) -> Option<RegistryKind> {
    if matches!(host, "public.ecr.aws" | "ecr-public.aws.com") {
        return Some(RegistryKind::EcrPublic);
    }
    if let Some(ecr) = ECR.iter().find_map(|(ending, middle)| ecr(host.strip_suffix(ending)?, middle)) {
        return Some(ecr);
    }
    if ACR.iter().any(|ending| host.strip_suffix(ending).is_some_and(|name| !name.contains('.'))) {
        return Some(RegistryKind::Acr);
    }
    let regional = |ending: &str| host.strip_suffix(ending).is_some_and(|name| !name.contains('.'));
    let google = host == "gcr.io"
        || regional(".gcr.io")
        || regional("-docker.pkg.dev")
        || host == "docker.s3nsregistry.fr";
    google.then_some(RegistryKind::Google)
}

fn ecr(rest: &str, middle: &str) -> Option<RegistryKind> {
    let (account, region) = rest.split_once(middle)?;
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let region: Region = region.parse().ok()?;
    is_account.then(|| RegistryKind::Ecr { account: account.to_owned(), region })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> RegistryHost {
        text.parse().unwrap()
    }

    #[test]
    fn s0_07_hosts_of_registries_are_read_from_end_to_end() {
        for (text, region) in [
            ("123456789012.dkr.ecr.eu-central-1.amazonaws.com", "eu-central-1"),
            ("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com", "us-east-1"),
            ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ("123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
            ("123456789012.dkr-ecr.eu-west-1.on.aws", "eu-west-1"),
            ("123456789012.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
        ] {
            let RegistryKind::Ecr { account, region: found } = host(text).kind().clone() else {
                panic!("{text}")
            };
            assert_eq!((account.as_str(), found.as_str()), ("123456789012", region));
        }
        for (text, kind) in [
            ("public.ecr.aws", RegistryKind::EcrPublic),
            ("ecr-public.aws.com", RegistryKind::EcrPublic),
            ("myregistry.azurecr.io", RegistryKind::Acr),
            ("https://myregistry.azurecr.us/", RegistryKind::Acr),
            ("europe-west1-docker.pkg.dev", RegistryKind::Google),
            ("gcr.io", RegistryKind::Google),
            ("eu.gcr.io", RegistryKind::Google),
            ("docker.s3nsregistry.fr", RegistryKind::Google),
        ] {
            assert_eq!(host(text).kind(), &kind, "{text}");
        }
        for evil in [
            "123456789012.dkr.ecr.eu-central-1.amazonaws.com.evil.example",
            "123456789012.dkr.ecr.cn-north-1.amazonaws.comxcn",
            "12345678901.dkr.ecr.eu-central-1.amazonaws.com",
            "123456789012.dkr.ecr.evil.example.amazonaws.com",
            "x.123456789012.dkr.ecr.eu-central-1.amazonaws.com",
            "123456789012.DKR.ecr.eu-central-1.amazonaws.com",
            "123456789012.dkr.ecr.eu-central-1.amazonaws.com.",
            "123456789012.dkr.ecr.eu-central-1.amazonaws.com:443",
            "user@123456789012.dkr.ecr.eu-central-1.amazonaws.com",
            "azurecr.io",
            ".azurecr.io",
            "a.b.azurecr.io",
            "myregistry.azurecr.com",
            "-docker.pkg.dev",
            "a.b-docker.pkg.dev",
            ".gcr.io",
            "evilgcr.io",
            "a.docker.s3nsregistry.fr",
            "http://gcr.io",
            "docker.io",
            "localhost",
            "",
        ] {
            assert!(evil.parse::<RegistryHost>().is_err(), "{evil}");
        }
    }

    #[test]
    fn an_image_names_its_registry_or_none() {
        for (image, found) in [
            ("gcr.io/project/image:tag", Some("gcr.io")),
            ("myregistry.azurecr.io/a/b@sha256:00", Some("myregistry.azurecr.io")),
            ("gcr.io", None),
            ("library/alpine", None),
            ("localhost:5000/x", None),
        ] {
            assert_eq!(
                super::super::of_image(image).ok().map(|host| host.as_str().to_owned()).as_deref(),
                found
            );
        }
    }
}
