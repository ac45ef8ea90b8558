//! The flags of kube-apiserver that an external issuer needs.

use super::ExportRequest;

/// A flag without its dashes, and its value.
pub(super) type Flag = (&'static str, String);

/// Issuers first, in order: the first `--service-account-issuer` signs, all are accepted. `--service-account-jwks-uri`
/// makes kube-apiserver's own discovery document advertise ours instead of a private address of its node.
pub(super) fn issuer_flags(request: &ExportRequest<'_>) -> Vec<Flag> {
    let issuers = request.issuers().map(|issuer| ("service-account-issuer", issuer.to_string()));
    issuers.chain([("service-account-jwks-uri", request.issuer.jwks_uri())]).collect()
}

/// The flags above of which none is repeated: the signing issuer without the accepted ones.
pub(super) fn signing_issuer_flags(request: &ExportRequest<'_>) -> Vec<Flag> {
    vec![
        ("service-account-issuer", request.issuer.to_string()),
        ("service-account-jwks-uri", request.issuer.jwks_uri()),
    ]
}

/// The issuer flags and the files.
pub(super) fn all_flags(request: &ExportRequest<'_>, signing_file: &str, key_file: &str) -> Vec<Flag> {
    let mut flags = issuer_flags(request);
    flags.push(("service-account-signing-key-file", signing_file.to_owned()));
    flags.push(("service-account-key-file", key_file.to_owned()));
    flags
}

/// As they stand on a command line.
pub(super) fn command_line(flags: &[Flag]) -> String {
    flags.iter().map(|(name, value)| format!("--{name}={value}\n")).collect()
}
