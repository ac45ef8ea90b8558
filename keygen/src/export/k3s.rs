//! k3s and RKE2: `service.key`, one file of PKCS#1 private keys that signs with its first and verifies with all.

use zeroize::Zeroizing;

use super::{ExportError, ExportFile, ExportRequest};
use crate::{Key, PrivateKey};

pub(super) fn service_key(request: &ExportRequest<'_>) -> Result<ExportFile, ExportError> {
    let mut keys: Vec<&PrivateKey> = vec![request.signing_key];
    for key in request.further_keys {
        keys.push(key.private_key().ok_or_else(|| private_half_needed(key))?);
    }
    let pems: Vec<Zeroizing<String>> =
        keys.into_iter().map(PrivateKey::to_exposed_pem).collect::<Result<_, _>>()?;
    // Sized at once: a string that grows leaves copies of the keys behind.
    let mut file = Zeroizing::new(String::with_capacity(pems.iter().map(|pem| pem.len()).sum()));
    pems.iter().for_each(|pem| file.push_str(pem));
    Ok(ExportFile::private("server/tls/service.key", &file))
}

fn private_half_needed(key: &Key) -> ExportError {
    ExportError::PrivateHalfNeeded { distribution: "k3s", key_id: key.public_key().key_id().to_string() }
}
