//! The TLS configuration of a reader that must notice a bad certificate every time.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier as PlatformVerifier;

use super::{Trust, VerifierError};

/// A configuration that believes as `trust` says and resumes no session.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, VerifierError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier(trust, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| VerifierError::NoRoots(error.to_string()))?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    // A resumed session skips the certificate, which may have expired or changed since.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierError> {
    let no_roots = |error: rustls::Error| VerifierError::NoRoots(error.to_string());
    match trust {
        Trust::Platform => Ok(Arc::new(PlatformVerifier::new(Arc::clone(provider)).map_err(no_roots)?)),
        Trust::PlatformAnd(pem) => {
            let extra = certificates(pem)?;
            // Checked alone first, so that a bad extra root is not mistaken for a machine without roots.
            root_store(&extra)?;
            let verifier = PlatformVerifier::new_with_extra_roots(extra, Arc::clone(provider));
            Ok(Arc::new(verifier.map_err(no_roots)?))
        }
        Trust::Only(pem) => {
            let roots = Arc::new(root_store(&certificates(pem)?)?);
            let builder =
                rustls::client::WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
            let verifier = builder.build().map_err(|error| VerifierError::NoRoots(error.to_string()))?;
            Ok(verifier)
        }
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, VerifierError> {
    let refuse = |reason: String| VerifierError::Certificates { reason };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| refuse(format!("is not PEM ({error})")))?;
    if certificates.is_empty() { Err(refuse("holds no certificate".to_owned())) } else { Ok(certificates) }
}

fn root_store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, VerifierError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| VerifierError::Certificates {
            reason: format!("holds a certificate that cannot be a root ({error})"),
        })?;
    }
    Ok(roots)
}
