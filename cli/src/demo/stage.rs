//! The scratch folder of the demo: a CA, a serving certificate, a folder of public keys, a target, a configuration.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use chancery_core::{DocumentKind, IssuerUrl, KeyId, PublicKey};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::output::say;

/// Everything on disk; removed when dropped.
pub struct Stage {
    folder: TempDir,
    /// The issuer URL, on a free loopback port.
    pub issuer: IssuerUrl,
    /// The CA that signed the serving certificate.
    pub ca_pem: String,
    /// The configuration of the service.
    pub config: PathBuf,
    /// The directory that is published to.
    pub target: PathBuf,
}

impl Stage {
    pub fn set() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("chancery-demo-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("keys"))?;
        fs::create_dir(path("www"))?;

        let ca_key = KeyPair::generate()?;
        let mut ca_params = CertificateParams::new(Vec::new())?;
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose issuer bears the same name as itself for self-signed.
        ca_params.distinguished_name = DistinguishedName::new();
        ca_params.distinguished_name.push(DnType::CommonName, "Chancery demo CA");
        let ca = ca_params.self_signed(&ca_key)?;
        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)?.signed_by(&key, &Issuer::new(ca_params, ca_key))?;
        fs::write(path("ca.pem"), ca.pem())?;
        fs::write(path("tls.crt"), certificate.pem())?;
        fs::write(path("tls.key"), key.serialize_pem())?;

        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let issuer: IssuerUrl = format!("https://localhost:{port}").parse()?;
        let config = path("chancery.yaml");
        // The demo looks from outside itself, step by step.
        fs::write(
            &config,
            format!(
                "issuers:\n  - url: {issuer}\n    sources:\n      - files: {{ paths: [keys] }}\n    \
                 targets:\n      - to: {{ directory: {{ path: www }} }}\n    verify: {{ enabled: false }}\n\
                 serve:\n  - listen: 127.0.0.1:{port}\n    tls: {{ certificate: tls.crt, privateKey: tls.key }}\n\
                 leaderElection: {{ enabled: false }}\n"
            ),
        )?;
        let target = path("www");
        Ok(Self { issuer, ca_pem: ca.pem(), config, target, folder })
    }

    /// Puts a public key where the service watches, whole at once.
    pub fn add_public_key(&self, name: &str, key: &PublicKey) -> anyhow::Result<()> {
        let temporary = self.folder.path().join("arriving");
        fs::write(&temporary, key.to_pem())?;
        fs::rename(temporary, self.folder.path().join("keys").join(format!("{name}.pub")))?;
        Ok(())
    }

    /// Whether the published JWKS holds a key.
    pub fn holds(&self, key_id: &KeyId) -> bool {
        let file = self.target.join(DocumentKind::Jwks.path());
        fs::read_to_string(file).is_ok_and(|jwks| jwks.contains(key_id.as_str()))
    }

    /// Tells how to look for oneself.
    pub fn invite(&self) -> anyhow::Result<()> {
        say(&format!(
            "\nThe issuer keeps running. Read it as a relying party would:\n\n    curl --cacert {} {}\n    {}\n\n\
             Ctrl-C ends it and removes {}.\n",
            self.folder.path().join("ca.pem").display(),
            self.issuer.discovery_url(),
            self.issuer.jwks_uri(),
            self.folder.path().display(),
        ))
    }
}
