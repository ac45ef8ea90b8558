//! Who answers at the other end of a connection, by its X.509-SVID
//! (<https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>, section 5): an id in place of a host's name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

/// The one SPIFFE id that may answer, by these authorities alone.
#[derive(Debug)]
pub(super) struct Peer {
    roots: RootCertStore,
    id: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Peer {
    pub(super) fn new(
        bundle: Vec<CertificateDer<'static>>,
        id: &str,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in bundle {
            roots.add(certificate)?;
        }
        if roots.is_empty() {
            return Err(Error::General("the bundle holds no certificate".to_owned()));
        }
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { roots, id: id.to_owned(), algorithms })
    }
}

impl ServerCertVerifier for Peer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let certificate = EndEntityCert::try_from(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        // An X.509-SVID has one URI and no more; with two, each side could mean another.
        let mut ids = certificate.valid_uri_names();
        match (ids.next(), ids.next()) {
            (Some(id), None) if id == self.id => Ok(ServerCertVerified::assertion()),
            (Some(id), None) => Err(Error::General(format!("{id} answers, and not {}", self.id))),
            _ => Err(Error::General("a certificate that is no X.509-SVID".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
