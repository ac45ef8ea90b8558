//! PEM files are read as kube-apiserver's `--service-account-key-file` reads them, and what it would skip is named.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use chancery_core::PublicKey;
use chancery_core::key::PublicKeyError;
use chancery_core::key_file::{self, PublicKeys, SkipReason};
use chancery_core::pem::{self, Shape};
use fixture::{any_key, data, expected_key_id, key};
use proptest::prelude::*;

fn only_key(text: &str) -> PublicKey {
    let PublicKeys { keys, skipped } = key_file::read_public_keys(text);
    assert_eq!((keys.len(), skipped.len()), (1, 0), "{text}");
    keys.into_iter().next().expect("one key")
}

fn only_reason(text: &str) -> SkipReason {
    let PublicKeys { keys, mut skipped } = key_file::read_public_keys(text);
    assert_eq!((keys.len(), skipped.len()), (0, 1), "{text}");
    skipped.remove(0).reason
}

#[test]
fn reads_public_keys_and_certificates() {
    for (file, name) in [
        ("rsa-2048.public.pem", "rsa-2048"),
        ("rsa-2048.certificate.pem", "rsa-2048"),
        ("p256.public.pem", "p256"),
        ("p256.certificate.pem", "p256"),
        ("p384.public.pem", "p384"),
        ("p521.public.pem", "p521"),
    ] {
        assert_eq!(*only_key(&data(file)).key_id(), expected_key_id(name), "{file}");
    }
}

#[test]
fn names_what_it_passes_over() {
    use PublicKeyError::{
        BadPoint, NotSpki, RsaTooShort, UnnamedCurve, UnsupportedAlgorithm, UnsupportedCurve,
    };
    for (file, reason) in [
        ("rsa-2048.pkcs1.private.pem", SkipReason::PrivateKey),
        ("rsa-2048.pkcs8.private.pem", SkipReason::PrivateKey),
        ("p256.pkcs8.private.pem", SkipReason::PrivateKey),
        ("rsa-2048.encrypted.private.pem", SkipReason::Encrypted),
        ("rsa-2048.legacy-encrypted.private.pem", SkipReason::Encrypted),
        ("rsa-2048.pkcs1.public.pem", SkipReason::Pkcs1Public),
        ("rsa-768.public.pem", SkipReason::PublicKey(RsaTooShort(768))),
        ("p256.compressed.public.pem", SkipReason::PublicKey(BadPoint("P-256"))),
        ("p256.explicit.public.pem", SkipReason::PublicKey(UnnamedCurve)),
        ("secp256k1.public.pem", SkipReason::PublicKey(UnsupportedCurve("1.3.132.0.10".to_owned()))),
        ("ed25519.public.pem", SkipReason::PublicKey(UnsupportedAlgorithm("1.3.101.112".to_owned()))),
    ] {
        assert_eq!(only_reason(&data(file)), reason, "{file}");
    }
    let parameters = key_file::read_public_keys(&data("p256.sec1.private.pem"));
    let reasons: Vec<_> = parameters.skipped.into_iter().map(|skipped| skipped.reason).collect();
    assert_eq!(reasons, [SkipReason::Parameters, SkipReason::PrivateKey]);
    assert_eq!(only_reason(&pem::encode("PUBLIC KEY", b"nonsense")), SkipReason::PublicKey(NotSpki));
}

#[test]
fn goes_by_the_body_and_not_by_the_label() {
    let relabelled = |file: &str, label: &str| {
        let file = data(file);
        let blocks = pem::blocks(&file);
        let body = blocks.last().expect("a block").decode().expect("a body");
        pem::encode(label, &body)
    };
    // OpenShift writes a PKIX body under a PKCS#1 label.
    for label in ["RSA PUBLIC KEY", "CERTIFICATE", "PRIVATE KEY", "ANYTHING"] {
        let key = only_key(&relabelled("rsa-2048.public.pem", label));
        assert_eq!(*key.key_id(), expected_key_id("rsa-2048"), "{label}");
    }
    for (file, reason) in [
        ("rsa-2048.pkcs1.private.pem", SkipReason::PrivateKey),
        ("rsa-2048.pkcs8.private.pem", SkipReason::PrivateKey),
        ("p384.sec1.private.pem", SkipReason::PrivateKey),
        ("p256.pkcs8.private.pem", SkipReason::PrivateKey),
        ("rsa-2048.encrypted.private.pem", SkipReason::Encrypted),
        ("rsa-2048.pkcs1.public.pem", SkipReason::Pkcs1Public),
    ] {
        assert_eq!(only_reason(&relabelled(file, "PUBLIC KEY")), reason, "{file}");
    }
}

#[test]
fn reads_every_key_of_a_file_in_its_order_and_once() {
    let files = ["p256.public.pem", "rsa-2048.certificate.pem", "ed25519.public.pem", "p384.public.pem"];
    let text: String =
        files.map(|file| format!("# {file}\n{}\n", data(file))).concat() + &data("p256.public.pem");
    let read = key_file::read_public_keys(&text);
    assert_eq!(read.keys, [key("p256"), key("rsa-2048"), key("p384")]);
    let skipped: Vec<String> = read.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        skipped,
        [
            "block 3 (PUBLIC KEY): algorithm 1.3.101.112 is neither RSA nor ECDSA, which are all that kube-apiserver publishes"
        ]
    );
}

#[test]
fn takes_the_same_armour_as_go() {
    let text = data("p256.public.pem");
    for (name, variant) in [
        ("CRLF", text.replace('\n', "\r\n")),
        ("no newline at the end", text.trim_end().to_owned()),
        ("blanks after the dashes", text.replace("KEY-----\n", "KEY----- \t\n")),
        ("text around it", format!("made on Monday\n\n{text}end of file\n")),
        ("blank lines in the body", text.replace("KEY-----\n", "KEY-----\n\n")),
        ("a header", text.replacen("KEY-----\n", "KEY-----\nComment: mine\n\n", 1)),
        ("stray low bits", stray_bits(&text)),
        ("tabs and blanks in the body", text.replace("\n-----END", " \t\n-----END").replacen('M', " M\t", 1)),
        ("a lone carriage return in the body", text.replacen('M', "\rM", 1)),
        ("bytes that are no text around it", format!("# \u{fffd}\n{text}")),
        ("a BEGIN in the middle of a line", format!("what follows -----BEGIN X-----\n{text}")),
    ] {
        assert_eq!(only_key(&variant), key("p256"), "{name}");
    }
}

/// The text with the lowest of the four bits set that its last character carries beyond the last byte.
fn stray_bits(text: &str) -> String {
    let last = text[..text.find("==").expect("padding")].chars().next_back().expect("a character");
    let next = char::from(u8::try_from(last).expect("base64") + 1);
    text.replace(&format!("{last}=="), &format!("{next}=="))
}

#[test]
fn names_armour_that_go_passes_over() {
    let text = data("p256.public.pem");
    for (name, variant) in [
        ("no END", text.replace("-----END PUBLIC KEY-----", "")),
        ("another END", text.replace("END PUBLIC", "END PRIVATE")),
        ("text after END", text.replace("-----END PUBLIC KEY-----", "-----END PUBLIC KEY----- x")),
        ("dashes missing", text.replace("BEGIN PUBLIC KEY-----", "BEGIN PUBLIC KEY")),
        ("broken base64", text.replacen('M', "!", 1)),
        ("base64 cut off", text.replace("==\n", "\n")),
        ("an indented block", text.replace("-----BEGIN", "  -----BEGIN")),
        ("a no-break space behind BEGIN", text.replace("KEY-----\n", "KEY-----\u{a0}\n")),
        ("a vertical tab behind BEGIN", text.replacen("KEY-----\n", "KEY-----\u{b}\n", 1)),
        ("a form feed in the body", text.replacen('M', "\u{c}M", 1)),
        ("a form feed behind END", text.replace("END PUBLIC KEY-----", "END PUBLIC KEY-----\u{c}")),
        ("a carriage return at the very end", format!("{}\r", text.trim_end())),
        ("a BEGIN in a header", text.replacen("KEY-----\n", "KEY-----\nComment: -----BEGIN X\n\n", 1)),
    ] {
        assert_eq!(only_reason(&variant), SkipReason::Broken, "{name}");
    }
}

#[test]
fn names_a_byte_order_mark_that_hides_a_block_from_go() {
    let text = data("p256.public.pem");
    assert_eq!(only_reason(&format!("\u{feff}{text}")), SkipReason::ByteOrderMark);
    let read = key_file::read_public_keys(&format!("\u{feff}{text}{}", data("p384.public.pem")));
    assert_eq!(read.keys, [key("p384")]);
    assert_eq!(read.skipped.iter().map(|skipped| skipped.position).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_private_key_is_known_before_it_is_decoded() {
    for (file, expected) in [
        ("rsa-2048.pkcs1.private.pem", Shape::PrivateKey),
        ("rsa-2048.pkcs8.private.pem", Shape::PrivateKey),
        ("p256.pkcs8.private.pem", Shape::PrivateKey),
        ("p384.sec1.private.pem", Shape::PrivateKey),
        ("p521.sec1.private.pem", Shape::PrivateKey),
        ("rsa-2048.encrypted.private.pem", Shape::Nested),
        ("rsa-2048.public.pem", Shape::Nested),
        ("p256.certificate.pem", Shape::Nested),
        ("rsa-2048.pkcs1.public.pem", Shape::Other),
    ] {
        let text = data(file);
        assert_eq!(pem::blocks(&text).last().expect("a block").shape(), expected, "{file}");
    }
    let torn = data("rsa-2048.pkcs1.private.pem").replace("\n-----END", "!\n-----END");
    assert!(matches!(only_reason(&torn), SkipReason::PrivateKey));
}

#[test]
fn an_rsa_key_that_nobody_verifies_with_is_refused() {
    let modulus = |bits: usize| vec![0xff; bits / 8];
    assert!(PublicKey::from_rsa(&modulus(16_384), &[1, 0, 1]).is_ok());
    let refused = PublicKey::from_rsa(&modulus(16_392), &[1, 0, 1]);
    assert_eq!(refused, Err(PublicKeyError::RsaTooLong(16_392)));
}

#[test]
fn a_label_cannot_move_the_terminal() {
    let text = data("p256.public.pem").replace("PUBLIC", "\u{1b}[2J\u{202e}");
    let text = text.replacen("MFkw", "AAAA", 1);
    let shown = key_file::read_public_keys(&text).skipped[0].to_string();
    assert!(shown.starts_with(r"block 1 (\u{1b}[2J\u{202e} KEY): "), "{shown}");
}

#[test]
fn a_broken_block_does_not_hide_the_next() {
    let broken = data("rsa-2048.public.pem").replace("-----END PUBLIC KEY-----\n", "");
    let read = key_file::read_public_keys(&format!("{broken}{}", data("p256.public.pem")));
    assert_eq!(read.keys, [key("p256")]);
    assert_eq!(read.skipped.iter().map(|skipped| skipped.position).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_message_never_carries_key_material() {
    let private = data("p256.pkcs8.private.pem");
    let material: Vec<String> =
        private.lines().filter(|l| !l.starts_with('-')).map(|l| l[..40].to_owned()).collect();
    for variant in [
        private.clone(),
        private.replace("PRIVATE KEY-----\n", "PRIVATE KEY\n"),
        private.replace("PRIVATE KEY-----\n", "PRIVATE KEY----\n"),
        private.replace("-----END", "END"),
        private.replace('\n', " "),
        private.replace("KEY-----\n", "KEY ").replace('\n', " "),
        private.replace("KEY-----\n", "KEY "),
    ] {
        for skipped in key_file::read_public_keys(&variant).skipped {
            assert!(skipped.reason.is_private() || skipped.reason == SkipReason::Broken);
            let message = skipped.to_string();
            assert!(material.iter().all(|line| !message.contains(line)), "{message}");
        }
    }
}

#[test]
fn a_label_without_its_dashes_is_not_repeated() {
    let text = data("p256.public.pem").replace("BEGIN PUBLIC KEY-----\n", "BEGIN PUBLIC KEY ");
    let read = key_file::read_public_keys(&text);
    assert!(read.skipped[0].to_string().starts_with("block 1 (no label): not readable PEM"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(-----BEGIN |-----END |-----|PUBLIC KEY|[A-Za-z0-9+/=]{0,9}|\n|\r|:| |.){0,40}") {
        let blocks = pem::blocks(&text);
        prop_assert!(blocks.iter().zip(1..).all(|(block, position)| block.position == position));
        let read = key_file::read_public_keys(&text);
        prop_assert!(read.keys.len() + read.skipped.len() <= blocks.len());
    }

    #[test]
    fn any_body_survives_the_armour(label in "[A-Z][A-Z0-9 ]{0,20}[A-Z]", body in prop::collection::vec(any::<u8>(), 1..300)) {
        let text = pem::encode(&label, &body);
        let blocks = pem::blocks(&text);
        prop_assert_eq!(blocks.len(), 1);
        prop_assert_eq!(&blocks[0].label, &label);
        let decoded = blocks[0].decode().expect("a body");
        prop_assert_eq!(decoded.as_slice(), &body[..]);
    }

    #[test]
    fn a_file_of_any_keys_gives_those_keys(keys in prop::collection::vec(any_key(), 1..5)) {
        let read = key_file::read_public_keys(&keys.iter().map(PublicKey::to_pem).collect::<String>());
        prop_assert_eq!(&read.skipped, &[]);
        let mut expected: Vec<PublicKey> = Vec::new();
        for key in keys {
            if !expected.contains(&key) { expected.push(key); }
        }
        prop_assert_eq!(read.keys, expected);
    }
}
