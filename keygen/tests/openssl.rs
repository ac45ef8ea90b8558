//! Files that openssl makes are read, and files that we make are read by openssl.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod openssl_tool;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_files::{Existing, FileError};
use chancery_keygen::key_pair::{self, KeyPairError, KeyPairPaths};
use chancery_keygen::kube_apiserver::Verdict;
use chancery_keygen::pem_file::{Container, Content, Encoding};
use chancery_keygen::{KeySpec, Passphrase, PemFile, PrivateKey, Unusable};
use openssl_tool::Openssl;

/// One row of the matrix: the file, the openssl command lines that make it, its label and encoding, and whether
/// kube-apiserver reads it as signing file and as key file.
type Row = (&'static str, &'static [&'static str], &'static str, Encoding, bool, bool);

const RSA: &str = "genrsa -traditional -out rsa.key 2048";
const EC: &str = "ecparam -name prime256v1 -genkey -noout -out ec.key";

const PRIVATE_ROWS: [Row; 9] = [
    ("rsa.key", &[RSA], "RSA PRIVATE KEY", Encoding::Pkcs1, true, true),
    ("rsa8.key", &["genrsa -out rsa8.key 2048"], "PRIVATE KEY", Encoding::Pkcs8, true, true),
    ("rsa3.key", &["genrsa -traditional -out rsa3.key 3072"], "RSA PRIVATE KEY", Encoding::Pkcs1, true, true),
    ("ec.key", &[EC], "EC PRIVATE KEY", Encoding::Sec1, true, true),
    (
        "ec384.key",
        &["ecparam -name secp384r1 -genkey -noout -out ec384.key"],
        "EC PRIVATE KEY",
        Encoding::Sec1,
        true,
        true,
    ),
    (
        "ec521.key",
        &["ecparam -name secp521r1 -genkey -noout -out ec521.key"],
        "EC PRIVATE KEY",
        Encoding::Sec1,
        true,
        true,
    ),
    (
        "nopublic.key",
        &[EC, "ec -in ec.key -no_public -out nopublic.key"],
        "EC PRIVATE KEY",
        Encoding::Sec1,
        true,
        true,
    ),
    (
        "ec8.key",
        &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec8.key"],
        "PRIVATE KEY",
        Encoding::Pkcs8,
        true,
        false,
    ),
    (
        "sealed.key",
        &[RSA, "pkcs8 -topk8 -in rsa.key -passout pass:secret -out sealed.key"],
        "ENCRYPTED PRIVATE KEY",
        Encoding::Sealed,
        false,
        false,
    ),
];

fn secret() -> Passphrase {
    Passphrase::from_file_bytes(b"secret\n").unwrap()
}

/// The key id by other means: `base64url(sha256(SubjectPublicKeyInfo))` of openssl's own encoding.
fn openssl_key_id(openssl: &Openssl, file: &str, options: &str) -> String {
    openssl.run(&format!("pkey -in {file} {options} -pubout -outform DER -out spki.der"));
    URL_SAFE_NO_PAD.encode(openssl.run("dgst -sha256 -binary spki.der"))
}

#[test]
fn private_keys_of_every_form_are_read_with_the_key_id_of_openssl() {
    let openssl = Openssl::new();
    for (name, made_by, label, expected_encoding, signing_file, key_file) in PRIVATE_ROWS {
        made_by.iter().for_each(|command| drop(openssl.run(command)));
        let file = PemFile::read(&openssl.text(name), Some(&secret()));
        let [block] = file.blocks.as_slice() else { panic!("{name}: {file:?}") };
        let Content::Private(key, encoding) = &block.content else { panic!("{name}: {block:?}") };
        assert_eq!((block.label.as_str(), *encoding), (label, expected_encoding), "{name}");
        let expected = openssl_key_id(&openssl, name, "-passin pass:secret");
        assert_eq!(key.public_key().key_id().as_str(), expected, "{name}");
        assert_eq!(block.as_signing_file().is_read(), signing_file, "{name}");
        assert_eq!(block.as_key_file().is_read(), key_file, "{name}");
    }
}

#[test]
fn public_keys_and_certificates_are_read_whatever_their_label() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    openssl.run(EC);
    openssl.run("rsa -in rsa.key -pubout -out rsa.pub");
    openssl.run("ec -in ec.key -pubout -out ec.pub");
    openssl.run("req -x509 -key rsa.key -subj /CN=sa -days 1 -out rsa.crt");
    openssl.run("req -x509 -key ec.key -subj /CN=sa -days 1 -out ec.crt");
    // The operators of OpenShift write a PKIX body under this label.
    openssl.write("openshift.pub", openssl.text("rsa.pub").replace(" PUBLIC", " RSA PUBLIC"));
    for (file, private, container) in [
        ("rsa.pub", "rsa.key", Container::Pkix),
        ("ec.pub", "ec.key", Container::Pkix),
        ("openshift.pub", "rsa.key", Container::Pkix),
        ("rsa.crt", "rsa.key", Container::Certificate),
        ("ec.crt", "ec.key", Container::Certificate),
    ] {
        let read = PemFile::read(&openssl.text(file), None);
        let [block] = read.blocks.as_slice() else { panic!("{file}: {read:?}") };
        let Content::Public(key, found) = &block.content else { panic!("{file}: {block:?}") };
        assert_eq!(*found, container, "{file}");
        assert_eq!(key.key_id().as_str(), openssl_key_id(&openssl, private, ""), "{file}");
        assert!(block.as_key_file().is_read() && !block.as_signing_file().is_read(), "{file}");
    }
}

#[test]
fn several_blocks_and_curve_parameters_are_read_in_order() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    openssl.run("rsa -in rsa.key -pubout -out rsa.pub");
    openssl.run("ecparam -name prime256v1 -genkey -out ec.key");
    let text = format!("# keys\n{}\nold:\n{}", openssl.text("ec.key"), openssl.text("rsa.pub"));
    let file = PemFile::read(&text, None);
    let labels: Vec<&str> = file.blocks.iter().map(|block| block.label.as_str()).collect();
    assert_eq!(labels, ["EC PARAMETERS", "EC PRIVATE KEY", "PUBLIC KEY"]);
    let [parameters, private, public] = file.blocks.as_slice() else { panic!("{file:?}") };
    assert!(matches!(&parameters.content, Content::Unusable(reason) if reason.is_harmless()));
    assert!(matches!(private.content, Content::Private(..)));
    assert!(matches!(public.content, Content::Public(..)));
    assert_eq!((parameters.position, public.position), (1, 3));
}

#[test]
fn what_cannot_be_read_is_named_with_a_remedy() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    openssl.run(EC);
    openssl.run("rsa -in rsa.key -RSAPublicKey_out -out pkcs1.pub");
    openssl.run("rsa -in rsa.key -aes128 -traditional -passout pass:secret -out legacy.key");
    openssl.run("pkcs8 -topk8 -in rsa.key -passout pass:other -out other.key");
    openssl.run("pkcs8 -topk8 -in rsa.key -v2 des3 -passout pass:secret -out des3.key");
    openssl.run("pkcs8 -topk8 -in rsa.key -v2prf hmacWithSHA1 -passout pass:secret -out sha1.key");
    openssl.run("pkcs8 -topk8 -in rsa.key -v1 PBE-SHA1-3DES -passout pass:secret -out pbes1.key");
    openssl.run("genpkey -algorithm ED25519 -out ed25519.key");
    openssl.run("pkey -in ed25519.key -pubout -out ed25519.pub");
    openssl.run("genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out pss.key");
    openssl.run("genrsa -traditional -out short.key 1024");
    openssl.run("genrsa -traditional -primes 3 -out multi.key 2048");
    openssl.run("ecparam -name secp256k1 -genkey -noout -out k1.key");
    openssl.run("ecparam -name secp224r1 -genkey -noout -out p224.key");
    openssl.run("ecparam -name prime256v1 -genkey -noout -param_enc explicit -out explicit.key");
    openssl.run("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit -out explicit8.key");
    openssl.run("req -new -key rsa.key -subj /CN=sa -out sa.csr");
    let rsa = openssl.text("rsa.key");
    openssl.write("cut.key", &rsa[..rsa.len() / 2]);
    openssl.write("garbled.key", rsa.replacen("MII", "MIJ", 1));
    openssl.write("garbled-ec.key", openssl.text("ec.key").replacen("MHc", "MHd", 1));

    for (file, words) in [
        ("pkcs1.pub", &["PKCS#1 public key", "-RSAPublicKey_in"][..]),
        ("legacy.key", &["legacy form", "openssl pkey"]),
        ("other.key", &["passphrase does not open it"]),
        ("des3.key", &["scheme that is not read", "aes-256-cbc"]),
        ("sha1.key", &["scheme that is not read", "hmacWithSHA256"]),
        ("pbes1.key", &["PBES1", "aes-256-cbc"]),
        ("ed25519.key", &["Ed25519 private key", "chancery keygen new"]),
        ("ed25519.pub", &["1.3.101.112", "neither RSA nor ECDSA"]),
        ("pss.key", &["RSASSA-PSS private key"]),
        ("short.key", &["1024 bits", "2048"]),
        ("multi.key", &["more than two primes"]),
        ("k1.key", &["secp256k1"]),
        ("p224.key", &["P-224"]),
        ("explicit.key", &["not given by name", "named_curve"]),
        ("explicit8.key", &["not given by name", "named_curve"]),
        ("sa.csr", &["certificate request"]),
        ("cut.key", &["END line"]),
        ("garbled.key", &["damaged"]),
        ("garbled-ec.key", &["damaged"]),
    ] {
        let read = PemFile::read(&openssl.text(file), Some(&secret()));
        let [block] = read.blocks.as_slice() else { panic!("{file}: {read:?}") };
        let Content::Unusable(reason) = &block.content else { panic!("{file}: {block:?}") };
        for word in words {
            assert!(reason.to_string().contains(word), "{file}: {reason}");
        }
        let reads = matches!(file, "short.key" | "multi.key");
        assert_eq!(
            (block.as_signing_file().is_read(), block.as_key_file().is_read()),
            (reads, reads),
            "{file}"
        );
    }
}

#[test]
fn keys_that_break_kube_apiserver_are_told_from_those_it_skips() {
    let openssl = Openssl::new();
    openssl.run("genpkey -algorithm ED25519 -out ed25519.key");
    openssl.run("ecparam -name secp224r1 -genkey -noout -out p224.key");
    openssl.run("ec -in p224.key -pubout -out p224.pub");
    openssl.run("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-224 -out p2248.key");
    for (file, as_signing_file, as_key_file) in [
        ("ed25519.key", true, false),
        ("p224.key", true, true),
        ("p2248.key", true, false),
        ("p224.pub", false, true),
    ] {
        let read = PemFile::read(&openssl.text(file), None);
        let fatal = |verdict| matches!(verdict, Verdict::Fatal(_));
        let block = &read.blocks[0];
        assert_eq!(fatal(block.as_signing_file()), as_signing_file, "{file}");
        assert_eq!(fatal(block.as_key_file()), as_key_file, "{file}");
    }
}

#[test]
fn a_sealed_file_without_passphrase_says_which_flag_opens_it() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    openssl.run("pkcs8 -topk8 -in rsa.key -passout pass:secret -out sealed.key");
    let read = PemFile::read(&openssl.text("sealed.key"), None);
    let Content::Unusable(reason) = &read.blocks[0].content else { panic!("{read:?}") };
    assert_eq!(*reason, Unusable::Sealed);
    assert!(reason.to_string().contains("--passphrase-file"));
}

#[test]
fn every_aes_seal_of_openssl_is_opened() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    let expected = openssl_key_id(&openssl, "rsa.key", "");
    for options in [
        "-v2 aes-128-cbc",
        "-v2 aes-192-cbc",
        "-v2 aes-256-cbc -v2prf hmacWithSHA256",
        "-v2 aes-256-cbc -v2prf hmacWithSHA512 -iter 5000",
        "-scrypt -scrypt_N 16384",
    ] {
        openssl.run(&format!("pkcs8 -topk8 -in rsa.key {options} -passout pass:secret -out sealed.key"));
        let read = PemFile::read(&openssl.text("sealed.key"), Some(&secret()));
        let key = read.blocks[0].public_key().unwrap_or_else(|| panic!("{options}: {read:?}"));
        assert_eq!(key.key_id().as_str(), expected, "{options}");
    }
}

#[test]
fn a_seal_that_costs_too_much_is_named_before_it_is_paid() {
    let openssl = Openssl::new();
    openssl.run(RSA);
    for (options, words) in [
        ("-v2 aes-256-cbc -v2prf hmacWithSHA256 -iter 10000001", ["10000001 rounds of PBKDF2", "re-seal"]),
        ("-scrypt -scrypt_N 16384 -scrypt_r 8 -scrypt_p 65", ["p=65", "re-seal"]),
    ] {
        openssl.run(&format!("pkcs8 -topk8 -in rsa.key {options} -passout pass:secret -out sealed.key"));
        let read = PemFile::read(&openssl.text("sealed.key"), Some(&secret()));
        let Content::Unusable(reason) = &read.blocks[0].content else { panic!("{options}: {read:?}") };
        assert!(matches!(reason, Unusable::SealingCost(_)), "{reason}");
        assert!(words.iter().all(|word| reason.to_string().contains(word)), "{reason}");
    }
}

#[test]
fn openssl_reads_the_pairs_we_write_and_agrees_on_the_key_id() {
    let openssl = Openssl::new();
    let paths = KeyPairPaths::in_directory(openssl.directory());
    for (spec, tool) in
        [(KeySpec::Rsa2048, "rsa"), (KeySpec::P256, "ec"), (KeySpec::P384, "ec"), (KeySpec::P521, "ec")]
    {
        let key = PrivateKey::generate(spec).unwrap();
        key_pair::write(&key, &paths, None, Existing::Replace).unwrap();
        openssl.run("pkey -check -noout -in sa.key");
        openssl.run(&format!("{tool} -pubin -noout -in sa.pub"));
        let label = if tool == "rsa" { "RSA PRIVATE KEY" } else { "EC PRIVATE KEY" };
        assert!(openssl.text("sa.key").starts_with(&format!("-----BEGIN {label}-----\n")), "{spec}");
        assert!(openssl.text("sa.pub").starts_with("-----BEGIN PUBLIC KEY-----\n"), "{spec}");
        let kid = key.public_key().key_id().as_str();
        assert_eq!(openssl_key_id(&openssl, "sa.key", ""), kid, "{spec}");
        assert_eq!(openssl_key_id(&openssl, "sa.pub", "-pubin"), kid, "{spec}");
        // The bytes are openssl's own traditional form, character for character.
        let rewritten = openssl.run("pkey -traditional -in sa.key");
        assert_eq!(String::from_utf8(rewritten).unwrap(), openssl.text("sa.key"), "{spec}");
    }
}

#[test]
fn openssl_opens_what_we_seal_and_refuses_another_passphrase() {
    let openssl = Openssl::new();
    openssl.write("passphrase", "correct horse\n");
    openssl.write("wrong", "battery\n");
    let passphrase = Passphrase::from_file_bytes(b"correct horse\n").unwrap();
    let paths = KeyPairPaths::in_directory(openssl.directory());
    for spec in [KeySpec::Rsa2048, KeySpec::P256] {
        let key = PrivateKey::generate(spec).unwrap();
        key_pair::write(&key, &paths, Some(&passphrase), Existing::Replace).unwrap();
        let kid = key.public_key().key_id().as_str();
        assert_eq!(openssl_key_id(&openssl, "sa.key", "-passin file:passphrase"), kid, "{spec}");
        openssl.run("pkcs8 -in sa.key -passin file:passphrase -out plain.key");
        assert!(openssl.try_run("pkey -in sa.key -passin file:wrong -noout").is_err(), "{spec}");

        let structure = String::from_utf8(openssl.run("asn1parse -in sa.key")).unwrap();
        for name in ["PBES2", "PBKDF2", "hmacWithSHA256", "aes-256-cbc", ":0927C0"] {
            assert!(structure.contains(name), "{name} (600000 rounds are 0927C0): {structure}");
        }
    }
}

#[test]
fn openssl_verifies_our_rsa_signatures() {
    let openssl = Openssl::new();
    let key = PrivateKey::generate(KeySpec::Rsa3072).unwrap();
    let jwt = key.signing_key().jwt(br#"{"iss":"https://id.example.com"}"#).unwrap();
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    openssl.write("sa.pub", key.public_key().to_pem());
    openssl.write("signed", signed);
    openssl.write("signature", URL_SAFE_NO_PAD.decode(signature).unwrap());
    openssl.run("dgst -sha256 -verify sa.pub -signature signature signed");
    openssl.write("signed", format!("{signed}x"));
    assert!(openssl.try_run("dgst -sha256 -verify sa.pub -signature signature signed").is_err());
}

#[test]
fn openssl_verifies_our_ecdsa_signatures() {
    let openssl = Openssl::new();
    for (spec, digest) in [(KeySpec::P256, "sha256"), (KeySpec::P384, "sha384"), (KeySpec::P521, "sha512")] {
        let key = PrivateKey::generate(spec).unwrap();
        let jwt = key.signing_key().jwt(br#"{"iss":"https://id.example.com"}"#).unwrap();
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let (r, s) = signature.split_at(signature.len() / 2);
        openssl.write("sa.pub", key.public_key().to_pem());
        openssl.write("signed", signed);
        // openssl wants `SEQUENCE { r, s }`; its own configuration language builds it from the two numbers.
        let hex = |number: &[u8]| number.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (r, s) = (hex(r), hex(s));
        openssl.write("asn1", format!("asn1=SEQUENCE:pair\n[pair]\nr=INTEGER:0x{r}\ns=INTEGER:0x{s}\n"));
        openssl.run("asn1parse -genconf asn1 -noout -out signature");
        openssl.run(&format!("dgst -{digest} -verify sa.pub -signature signature signed"));
    }
}

#[test]
fn half_a_pair_never_stays_behind() {
    let openssl = Openssl::new();
    let key = PrivateKey::generate(KeySpec::P256).unwrap();
    for public in [Path::new("/proc/sa.pub"), Path::new("/nonexistent/sa.pub"), Path::new("/dev/null")] {
        let paths = KeyPairPaths { private: openssl.path("sa.key"), public: public.to_owned() };
        for existing in [Existing::Keep, Existing::Replace] {
            let error = key_pair::write(&key, &paths, None, existing).unwrap_err();
            assert!(matches!(error, KeyPairError::File(_)), "{error}");
            assert_eq!(std::fs::read_dir(openssl.directory()).unwrap().count(), 0, "{}", public.display());
        }
    }
}

#[test]
fn an_existing_pair_is_never_overwritten_unless_asked() {
    let openssl = Openssl::new();
    let paths = KeyPairPaths::in_directory(openssl.directory());
    let [first, second] = [(); 2].map(|()| PrivateKey::generate(KeySpec::P256).unwrap());
    key_pair::write(&first, &paths, None, Existing::Keep).unwrap();
    let error = key_pair::write(&second, &paths, None, Existing::Keep).unwrap_err();
    assert!(matches!(error, KeyPairError::File(FileError::Exists(_))), "{error}");
    assert_eq!(openssl_key_id(&openssl, "sa.key", ""), first.public_key().key_id().as_str());
    key_pair::write(&second, &paths, None, Existing::Replace).unwrap();
    assert_eq!(openssl_key_id(&openssl, "sa.key", ""), second.public_key().key_id().as_str());
    assert_eq!(openssl_key_id(&openssl, "sa.pub", "-pubin"), second.public_key().key_id().as_str());
}
