//! Certificates that the webhook makes itself: an authority of its own, and the serving certificates that it signs. Their
//! keys prove to kube-apiserver that we are the webhook, and sign no token.
//!
//! The form is RFC 5280's, encoded by `der`; what reads them is Go's `crypto/x509` in kube-apiserver.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::{SystemRandom, fill};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use chancery_cluster::listener::ServingPair;
use chancery_cluster::listener::certificate::validity;
use der::asn1::{BitString, Ia5String, ObjectIdentifier, OctetString};
use der::oid::AssociatedOid;
use der::pem::LineEnding;
use der::{DateTime, Decode as _, Encode, Sequence};
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate, Version};

/// How long an authority is valid.
pub const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long a serving certificate is valid.
pub const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How far the clocks of kube-apiservers may be behind ours.
pub const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// ecdsa-with-SHA256 (RFC 5758, section 3.2).
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
/// id-kp-serverAuth (RFC 5280, section 4.2.1.12).
const SERVER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// What is signed of a certificate (RFC 5280, section 4.1). `x509-cert` makes none without its builder, which would bring
/// a second family of signing crates.
#[derive(Sequence)]
struct Body {
    #[asn1(context_specific = "0", default = "Default::default")]
    version: Version,
    serial: SerialNumber,
    algorithm: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<Extensions>,
}

#[derive(Sequence)]
struct Signed {
    body: Body,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// A certificate could not be made or read. Neither happens with what we have made ourselves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthorityError(String);

fn failed(what: &'static str) -> impl Fn(der::Error) -> AuthorityError {
    move |error| AuthorityError(format!("{what}: {error}"))
}

fn refused<E>(_: E) -> AuthorityError {
    AuthorityError("the library of cryptography refuses a key; expected P-256 in PKCS#8".to_owned())
}

/// An authority with its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    key: EcdsaKeyPair,
    subject: Name,
    validity: (Timestamp, Timestamp),
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("until", &self.validity.1).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When the library of cryptography refuses.
    pub fn new(now: Timestamp) -> Result<Self, AuthorityError> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(refused)?;
        let serial = serial()?;
        // Each has a name of its own: where two stand side by side, nobody has to try both.
        let name: String = serial.iter().map(|byte| format!("{byte:02x}")).collect();
        let subject = name_of(&format!("chancery-webhook-{name}"))?;
        let extensions = vec![
            extension(&BasicConstraints { ca: true, path_len_constraint: Some(0) }, true)?,
            extension(&KeyUsage(KeyUsages::KeyCertSign.into()), true)?,
        ];
        let validity = (now - SKEW, now + AUTHORITY_LIFE);
        let body = body((&serial, &subject, &subject), validity, (public_key(&key)?, extensions))?;
        let certificate = sign(body, &key)?;
        Ok(Self { certificate, key, subject, validity })
    }

    /// A serving certificate for `hosts`, names and addresses, with a new key.
    ///
    /// # Errors
    /// When one of them is neither.
    pub fn issue(&self, hosts: &[String], now: Timestamp) -> Result<ServingPair, AuthorityError> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(refused)?;
        let names = hosts.iter().map(|host| general_name(host)).collect::<Result<_, _>>()?;
        let extensions = vec![
            extension(&SubjectAltName(names), false)?,
            extension(&KeyUsage(KeyUsages::DigitalSignature.into()), true)?,
            extension(&ExtendedKeyUsage(vec![SERVER]), false)?,
        ];
        let validity = (now - SKEW, (now + LEAF_LIFE).min(self.validity.1));
        let subject = name_of("chancery-webhook")?;
        let serial = serial()?;
        let names = (serial.as_slice(), &self.subject, &subject);
        let leaf = sign(body(names, validity, (public_key(&key)?, extensions))?, &self.key)?;
        let document = key.to_pkcs8v1().map_err(refused)?;
        let private_key = PrivatePkcs8KeyDer::from(document.as_ref().to_vec());
        let made = ServingPair::made(vec![leaf], private_key.into());
        made.map_err(|error| AuthorityError(error.to_string()))
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// From when until when it is valid.
    pub fn validity(&self) -> (Timestamp, Timestamp) {
        self.validity
    }
}

/// Certificates as a `caBundle` has them.
///
/// # Errors
/// None in practice.
pub fn bundle(authorities: &[Authority]) -> Result<String, AuthorityError> {
    authorities.iter().map(|authority| pem("CERTIFICATE", &authority.certificate)).collect()
}

/// Certificates and keys as the Secret has them, the oldest first.
///
/// # Errors
/// None in practice.
pub fn written(authorities: &[Authority]) -> Result<String, AuthorityError> {
    let both = |authority: &Authority| {
        let key = authority.key.to_pkcs8v1().map_err(refused)?;
        Ok(pem("CERTIFICATE", &authority.certificate)? + &pem("PRIVATE KEY", key.as_ref())?)
    };
    authorities.iter().map(both).collect()
}

/// What [`written`] has written.
///
/// # Errors
/// Says what of it is none of ours.
pub fn read(text: &[u8]) -> Result<Vec<Authority>, AuthorityError> {
    let bad = |error: rustls::pki_types::pem::Error| AuthorityError(format!("it is not whole PEM: {error}"));
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(bad)?;
    let keys: Vec<_> = PrivatePkcs8KeyDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(bad)?;
    if certificates.is_empty() || certificates.len() != keys.len() {
        let (certificates, keys) = (certificates.len(), keys.len());
        return Err(AuthorityError(format!(
            "it holds {certificates} certificates and {keys} private keys; expected as many of one as of the other"
        )));
    }
    let pairs = certificates.into_iter().zip(&keys);
    pairs.map(|(certificate, key)| authority(certificate, key.secret_pkcs8_der())).collect()
}

fn authority(certificate: CertificateDer<'static>, key: &[u8]) -> Result<Authority, AuthorityError> {
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key).map_err(refused)?;
    let validity = validity(&certificate).map_err(failed("its dates"))?;
    let parsed = Certificate::from_der(&certificate).map_err(failed("a certificate"))?;
    let body = parsed.tbs_certificate();
    if body.subject_public_key_info() != &public_key(&key)? {
        return Err(AuthorityError("a certificate is not that of the private key behind it".to_owned()));
    }
    Ok(Authority { subject: body.subject().clone(), certificate, key, validity })
}

fn pem(label: &str, der: &[u8]) -> Result<String, AuthorityError> {
    let encoded = der::pem::encode_string(label, LineEnding::LF, der);
    encoded.map_err(|error| AuthorityError(error.to_string()))
}

fn serial() -> Result<[u8; 16], AuthorityError> {
    let mut serial = [0; 16];
    fill(&mut serial).map_err(refused)?;
    // A positive number of always the same length.
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn name_of(common_name: &str) -> Result<Name, AuthorityError> {
    format!("CN={common_name}").parse().map_err(failed("a name"))
}

fn general_name(host: &str) -> Result<GeneralName, AuthorityError> {
    match host.parse() {
        Ok(IpAddr::V4(address)) => OctetString::new(address.octets()).map(GeneralName::IpAddress),
        Ok(IpAddr::V6(address)) => OctetString::new(address.octets()).map(GeneralName::IpAddress),
        Err(_) => Ia5String::new(host).map(GeneralName::DnsName),
    }
    .map_err(failed("a host"))
}

fn extension<E: Encode + AssociatedOid>(value: &E, critical: bool) -> Result<Extension, AuthorityError> {
    let encoded = value.to_der().and_then(OctetString::new).map_err(failed("an extension"))?;
    Ok(Extension { extn_id: E::OID, critical, extn_value: encoded })
}

fn public_key(key: &EcdsaKeyPair) -> Result<SubjectPublicKeyInfoOwned, AuthorityError> {
    let der: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(refused)?;
    SubjectPublicKeyInfoOwned::from_der(der.as_ref()).map_err(failed("a public key"))
}

fn body(
    (serial, issuer, subject): (&[u8], &Name, &Name),
    (from, until): (Timestamp, Timestamp),
    (key, extensions): (SubjectPublicKeyInfoOwned, Extensions),
) -> Result<Body, AuthorityError> {
    Ok(Body {
        version: Version::V3,
        serial: SerialNumber::new(serial).map_err(failed("a serial number"))?,
        algorithm: algorithm(),
        issuer: issuer.clone(),
        validity: Validity::new(time(from)?, time(until)?),
        subject: subject.clone(),
        key,
        extensions: Some(extensions),
    })
}

fn time(at: Timestamp) -> Result<Time, AuthorityError> {
    let seconds = Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
    DateTime::from_unix_duration(seconds).map(Time::from).map_err(failed("a date"))
}

fn algorithm() -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned { oid: ECDSA_SHA256, parameters: None }
}

fn sign(body: Body, key: &EcdsaKeyPair) -> Result<CertificateDer<'static>, AuthorityError> {
    let bytes = body.to_der().map_err(failed("a certificate"))?;
    let signature = key.sign(&SystemRandom::new(), &bytes).map_err(refused)?;
    let signature = BitString::from_bytes(signature.as_ref()).map_err(failed("a signature"))?;
    let signed =
        Signed { body, algorithm: algorithm(), signature }.to_der().map_err(failed("a certificate"))?;
    Ok(CertificateDer::from(signed))
}
