//! Keys that openssl made are read, named and written as everybody else does.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use chancery_core::key::{Curve, KeyMaterial, PublicKeyError};
use chancery_core::{Algorithm, KeyId, PublicKey};
use fixture::{any_key, data, expected_key_id, key};
use proptest::prelude::*;

#[test]
fn names_keys_as_openssl_and_kubernetes_do() {
    for (name, description, algorithm) in [
        ("rsa-1024", "RSA-1024", Algorithm::Rs256),
        ("rsa-2048", "RSA-2048", Algorithm::Rs256),
        ("rsa-3072", "RSA-3072", Algorithm::Rs256),
        ("rsa-4096", "RSA-4096", Algorithm::Rs256),
        ("p256", "P-256", Algorithm::Es256),
        ("p384", "P-384", Algorithm::Es384),
        ("p521", "P-521", Algorithm::Es512),
    ] {
        let key = key(name);
        assert_eq!(*key.key_id(), expected_key_id(name), "{name}");
        assert_eq!((key.description().as_str(), key.algorithm()), (description, algorithm));
        assert_eq!(key.to_pem(), data(&format!("{name}.public.pem")), "{name}: openssl's own bytes");
    }
}

#[test]
fn keeps_the_zero_bytes_of_a_p521_coordinate() {
    let key = key("p521");
    let KeyMaterial::Ec { curve: Curve::P521, x, y } = key.material() else { panic!("not P-521") };
    assert_eq!((x.len(), y.len(), x[0], y[0]), (66, 66, 0, 0));
    assert_eq!(PublicKey::from_ec(Curve::P521, x, y).as_ref(), Ok(&key));
    let short = PublicKey::from_ec(Curve::P521, &x[1..], y);
    assert_eq!(short, Err(PublicKeyError::BadPoint("P-521")), "go-jose refuses a short coordinate");
}

#[test]
fn refuses_points_that_go_refuses() {
    let key = key("p256");
    let KeyMaterial::Ec { x, y, .. } = key.material() else { panic!("not EC") };
    let mut off = y.clone();
    off[31] ^= 1;
    let refused = Err(PublicKeyError::BadPoint("P-256"));
    assert_eq!(PublicKey::from_ec(Curve::P256, x, &off), refused, "off the curve");
    assert_eq!(PublicKey::from_ec(Curve::P256, &[0; 32], &[0; 32]), refused, "the origin");
    assert_eq!(PublicKey::from_ec(Curve::P256, x, &[]), refused, "half a point");
}

#[test]
fn refuses_rsa_numbers_that_go_refuses() {
    let modulus = [0xff; 128];
    let even: Vec<u8> = [&[0xff; 127][..], &[0xfe]].concat();
    for (name, modulus, exponent) in [
        ("1016 bits", &modulus[1..], &[1, 0, 1][..]),
        ("1023 bits", &[&[0x7f][..], &modulus[1..]].concat(), &[1, 0, 1]),
        ("an even modulus", &even, &[1, 0, 1]),
        ("no modulus", &[], &[1, 0, 1]),
        ("no exponent", &modulus, &[]),
        ("exponent 1", &modulus, &[1]),
        ("an even exponent", &modulus, &[1, 0, 0]),
        ("exponent 2^31+1", &modulus, &[0x80, 0, 0, 1]),
        ("an exponent of 9 bytes", &modulus, &[1, 0, 0, 0, 0, 0, 0, 0, 1]),
    ] {
        let refused = PublicKey::from_rsa(modulus, exponent);
        let is_refused = matches!(refused, Err(PublicKeyError::BadRsa | PublicKeyError::RsaTooShort(_)));
        assert!(is_refused, "{name}: {refused:?}");
    }
    assert!(PublicKey::from_rsa(&modulus, &[0x7f, 0xff, 0xff, 0xff]).is_ok(), "exponent 2^31-1");
}

#[test]
fn gives_one_id_to_one_key_however_its_numbers_are_padded() {
    let KeyMaterial::Rsa { modulus, exponent } = key("rsa-2048").material().clone() else {
        panic!("not RSA")
    };
    assert_eq!(exponent, [1, 0, 1]);
    let padded = PublicKey::from_rsa(&[&[0, 0], &modulus[..]].concat(), &[0, 1, 0, 1]);
    assert_eq!(padded.as_ref().map(PublicKey::key_id), Ok(&expected_key_id("rsa-2048")));
}

#[test]
fn says_why_a_key_info_is_of_no_use() {
    let rsa = key("rsa-2048").spki_der().to_vec();
    let trailing = [&rsa[..], &[0]].concat();
    // The algorithm's NULL (05 00) becomes an empty octet string (04 00).
    let mut not_null = rsa.clone();
    let null = rsa.windows(2).position(|pair| pair == [5, 0]).expect("a NULL");
    not_null[null] = 4;
    assert_eq!(PublicKey::from_spki_der(&trailing), Err(PublicKeyError::NotSpki));
    assert_eq!(PublicKey::from_spki_der(&rsa[..rsa.len() - 1]), Err(PublicKeyError::NotSpki));
    assert_eq!(PublicKey::from_spki_der(&not_null), Err(PublicKeyError::RsaParameters));
    assert_eq!(PublicKey::from_spki_der(&[]), Err(PublicKeyError::NotSpki));
}

#[test]
fn reads_key_ids_strictly() {
    let id = expected_key_id("rsa-2048");
    assert_eq!(id.as_str().parse(), Ok(id.clone()));
    let json = format!("\"{id}\"");
    assert_eq!(serde_json::to_string(&id).ok(), Some(json.clone()));
    assert_eq!(serde_json::from_str::<KeyId>(&json).ok(), Some(id.clone()));
    for text in ["", "abc", &format!("{id}="), &format!(" {id}"), &id.as_str()[1..], &"A".repeat(44)] {
        assert!(text.parse::<KeyId>().is_err(), "{text:?}");
    }
    // 43 characters carry 258 bits; with one of the two stray bits set it is no digest's encoding.
    assert!(format!("{}B", "A".repeat(42)).parse::<KeyId>().is_err());
}

proptest! {
    #[test]
    fn encoding_and_reading_a_key_changes_nothing(key in any_key()) {
        let read = PublicKey::from_spki_der(key.spki_der()).expect("our own encoding");
        prop_assert_eq!(read.material(), key.material());
        prop_assert_eq!(read.spki_der(), key.spki_der());
        prop_assert_eq!(read.key_id(), key.key_id());
        prop_assert_eq!(key.key_id().as_str().len(), 43);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PublicKey::from_spki_der(&bytes);
        let _ = PublicKey::from_rsa(&bytes, &bytes);
        let _ = PublicKey::from_ec(Curve::P256, &bytes, &bytes);
    }

    #[test]
    fn a_damaged_key_is_refused_or_is_a_consistent_other_one(position in 0usize..294, value: u8) {
        let mut der = key("rsa-2048").spki_der().to_vec();
        prop_assume!(der[position] != value);
        der[position] = value;
        if let Ok(other) = PublicKey::from_spki_der(&der) {
            prop_assert_ne!(other.key_id(), &expected_key_id("rsa-2048"));
            prop_assert_eq!(other.spki_der(), der, "whatever is accepted was canonical");
        }
    }
}
