//! Whose certificates are believed, and the TLS configuration that follows from it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier as PlatformVerifier;

use super::{ClientError, ClientOptions};

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateTrust {
    /// The roots of this machine, as a public relying party has its own.
    #[default]
    Platform,
    /// Those, and the certificates of a PEM file.
    PlatformAnd(Vec<u8>),
    /// Nothing but the certificates of a PEM file.
    Only(Vec<u8>),
}

/// The one crypto provider of the process.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));

/// The TLS configuration of a client: rustls, its aws-lc-rs provider, TLS 1.2 and 1.3.
pub(super) fn tls_config(options: &ClientOptions) -> Result<ClientConfig, ClientError> {
    let verifier = shared_verifier(&options.certificates)?;
    let builder = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::NoRoots(error.to_string()))?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    if options.fresh_connections {
        // A resumed session skips the certificate, which may have expired or changed since.
        config.resumption = Resumption::disabled();
    }
    let http1 = b"http/1.1".to_vec();
    config.alpn_protocols = if options.http1_only { vec![http1] } else { vec![b"h2".to_vec(), http1] };
    Ok(config)
}

/// Who checks certificates against these roots, which all clients of the process share: the roots of a machine are some
/// hundred certificates. They are read anew once no client uses them any longer.
fn shared_verifier(trust: &CertificateTrust) -> Result<Arc<dyn ServerCertVerifier>, ClientError> {
    static SHARED: Mutex<BTreeMap<CertificateTrust, Weak<dyn ServerCertVerifier>>> =
        Mutex::new(BTreeMap::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(verifier) = shared.get(trust).and_then(Weak::upgrade) {
        return Ok(verifier);
    }
    let verifier = verifier(trust)?;
    shared.retain(|_, verifier| verifier.strong_count() > 0);
    shared.insert(trust.clone(), Arc::downgrade(&verifier));
    Ok(verifier)
}

fn verifier(trust: &CertificateTrust) -> Result<Arc<dyn ServerCertVerifier>, ClientError> {
    let provider = PROVIDER.clone();
    match trust {
        CertificateTrust::Platform => {
            Ok(Arc::new(PlatformVerifier::new(provider).map_err(|error| no_roots(&error))?))
        }
        CertificateTrust::PlatformAnd(pem) => {
            let extra = certificates(pem)?;
            // Checked alone first, so that a bad extra root is not mistaken for a machine without roots.
            root_store(&extra)?;
            let verifier = PlatformVerifier::new_with_extra_roots(extra, provider);
            Ok(Arc::new(verifier.map_err(|error| no_roots(&error))?))
        }
        CertificateTrust::Only(pem) => {
            let roots = Arc::new(root_store(&certificates(pem)?)?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
            let verifier = builder.build().map_err(|error| ClientError::NoRoots(error.to_string()))?;
            Ok(verifier)
        }
    }
}

fn no_roots(error: &rustls::Error) -> ClientError {
    ClientError::NoRoots(error.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let refuse = |reason: String| ClientError::Certificates { reason };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| refuse(format!("is not PEM ({error})")))?;
    if certificates.is_empty() { Err(refuse("holds no certificate".to_owned())) } else { Ok(certificates) }
}

fn root_store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| ClientError::Certificates {
            reason: format!("holds a certificate that cannot be a root ({error})"),
        })?;
    }
    Ok(roots)
}
