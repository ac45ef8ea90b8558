//! Names of the key algorithms and curves that we meet and refuse, so that a refusal speaks in words.

use pkcs8::ObjectIdentifier;

/// The name of an algorithm or a curve, or its dotted number when it is not known here.
pub(crate) fn of(oid: ObjectIdentifier) -> String {
    let text = oid.to_string();
    let known = NAMES.iter().find(|(number, _)| *number == text);
    known.map_or(text.clone(), |(_, name)| (*name).to_owned())
}

const NAMES: [(&str, &str); 15] = [
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.113549.1.3.1", "Diffie-Hellman"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.3.101.110", "X25519"),
    ("1.3.101.111", "X448"),
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
    ("1.2.156.10197.1.301", "SM2"),
    ("1.3.132.0.10", "secp256k1"),
    ("1.3.132.0.33", "P-224"),
    ("1.2.840.10045.3.1.1", "P-192"),
    ("1.3.36.3.3.2.8.1.1.7", "brainpoolP256r1"),
    ("2.16.840.1.101.3.4.3.17", "ML-DSA-44"),
    ("2.16.840.1.101.3.4.3.18", "ML-DSA-65"),
    ("2.16.840.1.101.3.4.3.19", "ML-DSA-87"),
];
