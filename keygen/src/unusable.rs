//! Why a PEM block gives no key, with the remedy.

use chancery_core::key::PublicKeyError;
use chancery_core::key_file::SkipReason;
use chancery_core::pem::Fault;

/// Why a block gives no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The armour or its base64 is broken.
    #[error(
        "not readable PEM: its base64 is broken, or its BEGIN or END line is missing or holds something else; copy the file again"
    )]
    Broken,
    /// A byte order mark before the block.
    #[error(
        "a byte order mark stands before it, so that kube-apiserver skips it without a word; remove the mark with `sed -i '1s/^\\xEF\\xBB\\xBF//' FILE`"
    )]
    ByteOrderMark,
    /// The body is not the structure that the label promises.
    #[error("not the structure that its label promises; the file is damaged, copy it again")]
    Garbled,
    /// `Proc-Type: 4,ENCRYPTED`, OpenSSL's old form.
    #[error(
        "encrypted in OpenSSL's legacy form (Proc-Type: 4,ENCRYPTED), which neither kube-apiserver nor chancery reads; decrypt it with `openssl pkey -in FILE -out NEW_FILE`, or re-seal it with `openssl pkcs8 -topk8 -v2 aes-256-cbc -in FILE -out NEW_FILE`"
    )]
    LegacyEncrypted,
    /// `ENCRYPTED PRIVATE KEY`, and no passphrase was given.
    #[error(
        "sealed with a passphrase (PKCS#8 ENCRYPTED PRIVATE KEY), which kube-apiserver cannot read; give --passphrase-file to open it"
    )]
    Sealed,
    /// The passphrase does not open it.
    #[error(
        "sealed, and the passphrase does not open it; give the passphrase file it was sealed with (or the block is damaged)"
    )]
    WrongPassphrase,
    /// Sealed with something other than PBES2 with AES.
    #[error(
        "sealed with a scheme that is not read here ({0}); expected PBES2 with scrypt or PBKDF2-HMAC-SHA2 and AES; re-seal it with `openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256 -in FILE -out NEW_FILE`"
    )]
    SealingScheme(String),
    /// Sealed at a cost that nobody needs.
    #[error(
        "sealed at a cost that is not paid here: {0}; if the file is yours, re-seal it with `openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256 -iter 600000 -in FILE -out NEW_FILE`"
    )]
    SealingCost(String),
    /// Neither RSA nor ECDSA.
    #[error(
        "{0} private key; kube-apiserver signs with RSA and with ECDSA on P-256, P-384 and P-521 alone; make one with `chancery keygen new`"
    )]
    Algorithm(String),
    /// A curve nobody signs ServiceAccount tokens with.
    #[error(
        "EC private key on {0}; kube-apiserver signs on P-256, P-384 and P-521 alone; make one with `chancery keygen new`"
    )]
    Curve(String),
    /// No curve, or one spelled out by its parameters.
    #[error(
        "EC private key whose curve is not given by name; re-encode it with `openssl ec -param_enc named_curve -in FILE -out NEW_FILE`"
    )]
    UnnamedCurve,
    /// An RSA modulus out of range; the bits.
    #[error(
        "RSA private key of {0} bits; expected 2048 to 8192, since relying parties refuse shorter ones; make one with `chancery keygen new`"
    )]
    RsaSize(usize),
    /// RSA with more than two primes.
    #[error(
        "RSA private key of more than two primes, which relying parties' tools cannot use; make one with `chancery keygen new`"
    )]
    MultiPrime,
    /// The numbers do not belong together.
    #[error(
        "the numbers of this private key do not belong together; the file is damaged or forged, copy it again"
    )]
    Inconsistent,
    /// An EC key whose public point is another key's.
    #[error(
        "EC private key with the public point of another key; kube-apiserver goes by the private number and ignores the point, other tools do not: rewrite it with `openssl pkey -in FILE -out NEW_FILE` after finding out who made it"
    )]
    WrongPoint,
    /// The public half is one that kube-apiserver does not publish.
    #[error("{0}")]
    Public(PublicKeyError),
    /// Something else that belongs to keys but is none.
    #[error("{0}")]
    Foreign(&'static str),
    /// A block that holds no private key and gives no public one either.
    #[error("{0}")]
    Skipped(SkipReason),
}

impl From<Fault> for Unusable {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::ByteOrderMark => Self::ByteOrderMark,
            Fault::Broken => Self::Broken,
        }
    }
}

impl Unusable {
    /// Whether the block can be ignored without losing a key.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Skipped(SkipReason::Parameters))
    }
}

/// Blocks known by their label alone, with what to do about them.
pub(crate) fn foreign(label: &str) -> Option<Unusable> {
    let advice = match label {
        "OPENSSH PRIVATE KEY" => {
            "OpenSSH private key, which kube-apiserver cannot read; convert a copy with `ssh-keygen -p -m PEM -f COPY`"
        }
        "DSA PRIVATE KEY" => "DSA private key; kube-apiserver signs with RSA and ECDSA alone",
        "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => {
            "certificate request, not a key; give the key or the certificate"
        }
        "X509 CRL" => "certificate revocation list, not a key; remove the block",
        "DH PARAMETERS" => "Diffie-Hellman parameters, not a key; remove the block",
        _ => return None,
    };
    Some(Unusable::Foreign(advice))
}
