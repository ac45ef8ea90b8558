//! Keys and passphrases out of files, with everything said that a person should know about them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chancery_core::quoted::escaped;
use chancery_keygen::pem_file::Content;
use chancery_keygen::{Key, Passphrase, PemFile, secret_file};

/// Reads a passphrase file, if one is given.
pub fn passphrase(path: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    let Some(path) = path else { return Ok(None) };
    let contents = secret_file::read(path)?;
    if contents.readable_by_others {
        let path = escaped(path.display());
        eprintln!(
            "warning: the passphrase file {path} can be read by others than its owner; run `chmod 600 {path}`"
        );
    }
    let passphrase = Passphrase::from_file_bytes(&contents.bytes);
    passphrase.with_context(|| escaped(path.display()).to_string()).map(Some)
}

/// Reads a PEM file, or standard input for `-`. A file without any block is refused.
pub fn pem_file(path: &Path, passphrase: Option<&Passphrase>) -> anyhow::Result<PemFile> {
    let bytes = secret_file::read(path)?.bytes;
    let path = escaped(path.display());
    let file = PemFile::read(&bytes, passphrase);
    ensure!(
        !file.blocks.is_empty(),
        "{path} has no PEM block; expected `-----BEGIN ... KEY-----` or a certificate. If it is DER, convert it with `openssl pkey -inform DER -in {path} -out NEW_FILE`"
    );
    Ok(file)
}

/// The keys of several files in their order, each once; the private half wins over the public one.
///
/// A block that gives no key is an error here: a key that is missing from a document or an export rejects tokens.
pub fn keys(paths: &[PathBuf], passphrase: Option<&Passphrase>) -> anyhow::Result<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    for path in paths {
        for block in pem_file(path, passphrase)?.blocks {
            if let Some(reason) = block.as_key_file().reason().filter(|_| block.public_key().is_some()) {
                let (path, position) = (escaped(path.display()), block.position);
                eprintln!(
                    "warning: {path}, block {position}: kube-apiserver skips it in a key file without a word: {reason}"
                );
            }
            let key = match block.content {
                Content::Private(key, _) => Key::Private(key),
                Content::Public(key, _) => Key::Public(key),
                Content::Unusable(reason) if reason.is_harmless() => continue,
                Content::Unusable(reason) => {
                    let (path, label) = (escaped(path.display()), escaped(&block.label));
                    bail!("{path}, block {} ({label}): {reason}", block.position)
                }
            };
            add(&mut keys, key);
        }
    }
    ensure!(!keys.is_empty(), "the files hold no key; expected at least one private or public key");
    Ok(keys)
}

fn add(keys: &mut Vec<Key>, key: Key) {
    let known = keys.iter_mut().find(|known| known.public_key() == key.public_key());
    match known {
        Some(known) if known.private_key().is_none() => *known = key,
        Some(_) => {}
        None => keys.push(key),
    }
}
