//! A certificate authority for servers on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The names that a server certificate is for unless others are asked for.
pub const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];

/// A CA whose key exists in memory alone. Its certificate is also a file, `ca.pem`.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    path: PathBuf,
}

/// The files of a server certificate.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// `tls.crt`, PEM.
    pub cert: PathBuf,
    /// `tls.key`, PEM (PKCS#8).
    pub key: PathBuf,
}

impl ServerCertificate {
    /// What shows it to the clients of a server.
    pub fn acceptor(&self) -> Result<TlsAcceptor> {
        let chain = CertificateDer::pem_file_iter(&self.cert)?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(&self.key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Authority {
    /// Makes a CA and writes `ca.pem` into `dir`.
    pub fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "chancery e2e authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let path = dir.join("ca.pem");
        fs::write(&path, &pem)?;
        Ok(Self { issuer: Issuer::new(params, key), pem, path })
    }

    /// The CA certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The file `ca.pem`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `tls.crt` and `tls.key` for `names` (host names or IP addresses) into `dir`. Called again, it replaces
    /// both by a certificate with a new key, as a renewal does.
    pub fn issue(&self, dir: &Path, names: &[&str]) -> Result<ServerCertificate> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "chancery e2e server");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let files = ServerCertificate { cert: dir.join("tls.crt"), key: dir.join("tls.key") };
        fs::write(&files.key, key.serialize_pem())?;
        fs::write(&files.cert, params.signed_by(&key, &self.issuer)?.pem())?;
        Ok(files)
    }
}
