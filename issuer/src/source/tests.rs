use super::*;

fn parse(yaml: &str) -> Result<SourceConfig, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

#[test]
fn an_entry_has_exactly_one_kind() {
    assert!(parse("files: {paths: [sa.pub]}").is_ok());
    for (yaml, complaint) in [
        ("name: nothing", "a source that reads nothing"),
        ("{files: {paths: [a]}, secret: {namespace: n, name: s}}", "a source of 2 kinds"),
        ("file: {paths: [a]}", "file"),
        ("files: {path: [a]}", "path"),
        ("files: {paths: [a], pollSeconds: 0}", "pollSeconds"),
    ] {
        let error = parse(yaml).unwrap_err();
        assert!(error.contains(complaint), "{yaml}: {error}");
    }
}

#[test]
fn an_entry_is_called_by_what_it_reads() {
    for (yaml, name) in [
        ("files: {paths: [/etc/a.pub, /etc/keys]}", "files /etc/a.pub, /etc/keys"),
        #[cfg(feature = "kube")]
        ("configMap: {namespace: n, name: certs}", "configmap n/certs"),
        #[cfg(feature = "kube")]
        ("secret: {namespace: n, labelSelector: a=b}", "secret n with labels a=b"),
        #[cfg(feature = "kube")]
        ("kubeApiserver: {}", "kube-apiserver"),
    ] {
        assert_eq!(parse(yaml).unwrap().kind.to_string(), name);
    }
}

#[cfg(not(feature = "kube"))]
#[test]
fn a_kind_that_is_not_built_in_is_refused_by_name() {
    let error = parse("secret: {namespace: n, name: s}").unwrap_err();
    assert!(error.contains("built without the feature `kube`"), "{error}");
}

/// A new public key.
pub(crate) fn key() -> PublicKey {
    let pair = rcgen::KeyPair::generate().unwrap();
    PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap()
}
