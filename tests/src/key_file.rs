//! Signing keys as files, made without Chancery.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::PublicKey;
use chancery_core::key_file::read_public_keys;
use pem::Pem;

use crate::scratch::Scratch;
use crate::token::TokenSigner;

/// A key in two files.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// The private half, PKCS#8 PEM, which kube-apiserver signs with.
    pub private: PathBuf,
    /// The public half, SubjectPublicKeyInfo PEM.
    pub public: PathBuf,
    /// The id that kube-apiserver gives it.
    pub kid: String,
}

impl KeyFile {
    /// A new RSA key of 2048 bits in `NAME.key` and `NAME.pub` in `dir`.
    pub fn new(dir: &Scratch, name: &str) -> Result<Self> {
        let key = KeyPair::generate(KeySize::Rsa2048)?;
        let private: Pkcs8V1Der<'_> = key.as_der()?;
        let public: PublicKeyX509Der<'_> = key.public_key().as_der()?;
        let pem = |tag: &str, der: &[u8]| pem::encode(&Pem::new(tag, der));
        let private = dir.write(&format!("{name}.key"), pem("PRIVATE KEY", private.as_ref()))?;
        let public = dir.write(&format!("{name}.pub"), pem("PUBLIC KEY", public.as_ref()))?;
        let kid = TokenSigner::read(&private)?.kid().to_owned();
        Ok(Self { private, public, kid })
    }

    /// The same on the curve P-256, which is made a hundred times faster.
    pub fn p256(dir: &Scratch, name: &str) -> Result<Self> {
        Self::ecdsa(dir, name, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// The same on the curve of an algorithm.
    pub fn ecdsa(dir: &Scratch, name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> Result<Self> {
        let key = rcgen::KeyPair::generate_for(algorithm)?;
        let public_pem = key.public_key_pem();
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, pem::parse(&public_pem)?.contents()));
        let private = dir.write(&format!("{name}.key"), key.serialize_pem())?;
        let public = dir.write(&format!("{name}.pub"), public_pem)?;
        Ok(Self { private, public, kid })
    }

    /// The public half as text.
    pub fn public_pem(&self) -> Result<String> {
        fs::read_to_string(&self.public).context("read a public key")
    }

    /// The public half.
    pub fn public_key(&self) -> Result<PublicKey> {
        let read = read_public_keys(&self.public_pem()?);
        ensure!(read.skipped.is_empty(), "{:?}", read.skipped);
        read.keys.into_iter().next().context("a file without a public key")
    }

    /// Puts a copy of the public half into the folder `dir`, whole at once, as someone does who adds a key to a
    /// folder that is watched.
    pub fn put_public_half_into(&self, dir: &Path) -> Result<()> {
        let name = self.public.file_name().context("a key file without a name")?;
        let hidden = dir.join(format!(".{}", name.display()));
        fs::copy(&self.public, &hidden)?;
        fs::rename(hidden, dir.join(name))?;
        Ok(())
    }
}
