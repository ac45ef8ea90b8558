//! The scratch folder of the demo: a CA, a serving certificate, a folder of public keys, a key ring, targets, and the
//! configuration of a service with two issuers: one of files, and one of the ring.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chancery_core::{DocumentKind, IssuerUrl, KeyId, PublicKey};
use chancery_keygen::KeySpec;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::output::say;

/// The name of the signer.
pub const SIGNER: &str = "demo";
/// How long a key is seen before it signs, in seconds.
pub const WAIT: u64 = 2;
/// How long tokens of the ring's keys live, in seconds.
pub const TOKEN_LIFETIME: u64 = 3;
/// How long relying parties may keep the rotating issuer's keys, in seconds.
const MAX_AGE: u64 = 1;

/// Everything on disk; removed when dropped.
pub struct Stage {
    folder: TempDir,
    /// The issuer URL, on a free loopback port.
    pub issuer: IssuerUrl,
    /// That of the issuer whose keys are rotated.
    pub rotating_issuer: IssuerUrl,
    /// The CA that signed the serving certificate.
    pub ca_pem: String,
    /// The configuration of the service.
    pub config: PathBuf,
    /// The directory that is published to.
    pub target: PathBuf,
    /// The rotation policy.
    pub policy: PathBuf,
}

impl Stage {
    /// `spec` is what the ring is to have for keys.
    pub fn set(spec: KeySpec) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("chancery-demo-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        for name in ["keys", "www", "rotating-www", "state", "ring", "private", "signer"] {
            fs::DirBuilder::new().mode(0o700).create(path(name))?;
        }

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
        let rotating_issuer: IssuerUrl = format!("{issuer}/rotating").parse()?;
        let (config, policy) = (path("chancery.yaml"), path("rotation.yaml"));
        fs::write(&config, configuration(&issuer, &rotating_issuer, port))?;
        fs::write(&policy, rotation_policy(&rotating_issuer, spec))?;
        let mut passphrase =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path("passphrase"))?;
        passphrase.write_all(b"of the demo\n")?;
        let target = path("www");
        Ok(Self { issuer, rotating_issuer, ca_pem: ca.pem(), config, target, policy, folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
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

/// Two issuers. At the first the demo looks from outside itself, step by step; the second one is looked at by the service,
/// which writes down since when it saw what.
fn configuration(issuer: &IssuerUrl, rotating: &IssuerUrl, port: u16) -> String {
    format!(
        "issuers:
  - url: {issuer}
    sources:
      - files: {{ paths: [keys] }}
    targets:
      - to: {{ directory: {{ path: www }} }}
    verify: {{ enabled: false }}
  - url: {rotating}
    maxAgeSeconds: {MAX_AGE}
    sources:
      - ring: {{ directory: ring }}
    targets:
      - to: {{ directory: {{ path: rotating-www }} }}
    verify: {{ every: 1s, ca: ca.pem, for: [kubernetes] }}
serve:
  - listen: 127.0.0.1:{port}
    tls: {{ certificate: tls.crt, privateKey: tls.key }}
state: {{ directory: state }}
leaderElection: {{ enabled: false }}
"
    )
}

/// Waits of seconds, which no workload could do with.
fn rotation_policy(rotating: &IssuerUrl, spec: KeySpec) -> String {
    format!(
        "issuer: {rotating}
ring: {{ directory: ring }}
keys: {{ directory: private, passphraseFile: passphrase }}
visibility: {{ directory: state }}
signers: [{{ name: {SIGNER}, acknowledgements: {{ directory: signer }} }}]
schedule: {{ byHand: true }}
key: {spec}
trial: true
wait: {WAIT}s
lifetimes: {{ external: {TOKEN_LIFETIME}s, apiServer: {TOKEN_LIFETIME}s }}
skew: 1s
overlap: {{ minimum: 0s, maximum: 600s }}
rollbackWindow: 0s
look: 200ms
"
    )
}
