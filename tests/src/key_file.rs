//! Signing keys as files, made without Chancery.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use pem::Pem;

use crate::scratch::Scratch;
use crate::token::TokenSigner;

/// An RSA key of 2048 bits in two files.
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
    /// A new key in `NAME.key` and `NAME.pub` in `dir`.
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

    /// The text of the public half.
    pub fn public_pem(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.public)?)
    }
}
