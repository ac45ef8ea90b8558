use std::collections::BTreeSet;

use super::*;

fn parse(yaml: &str) -> TargetConfig {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn reads_what_the_documentation_shows() {
    let pages = [
        include_str!("../../../docs/targets.md"),
        include_str!("../../../docs/targets/azure-blob.md"),
        include_str!("../../../docs/targets/gcs.md"),
    ];
    let text = pages.concat();
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let targets: Vec<TargetConfig> =
        blocks.flat_map(|block| serde_saphyr::from_str::<Vec<TargetConfig>>(block).unwrap()).collect();
    let names: BTreeSet<String> = targets.iter().map(TargetConfig::display_name).collect();
    assert_eq!(names.len(), targets.len());
    assert!(targets.iter().all(|target| target.location().is_ok()));
    assert!(targets.iter().any(|target| target.directory.is_some()));
    assert!(targets.iter().any(|target| target.s3.is_some()));
    assert!(targets.iter().any(|target| target.azure_blob.is_some()));
    assert!(targets.iter().any(|target| target.gcs.is_some()));
}

#[test]
fn names_itself_or_its_place() {
    for (yaml, name) in [
        ("{name: ours, directory: {path: /srv/www}}", "ours"),
        ("directory: {path: /srv/www}", "directory /srv/www"),
        ("s3: {bucket: b}", "s3://b"),
        ("s3: {bucket: b, prefix: /a/b/}", "s3://b/a/b"),
        ("s3: {bucket: b, endpoint: 'https://h:1'}", "s3://b at https://h:1"),
        ("azureBlob: {account: oidc, container: $web}", "https://oidc.blob.core.windows.net/$web"),
        ("azureBlob: {endpoint: 'https://h:1/a/', container: cde, prefix: /f/}", "https://h:1/a/cde/f"),
        ("gcs: {bucket: b, prefix: /a/}", "gs://b/a"),
        ("gcs: {bucket: b, endpoint: 'https://h:1'}", "gs://b at https://h:1"),
    ] {
        assert_eq!(parse(yaml).display_name(), name);
    }
}

#[test]
fn refuses_what_cannot_be_meant_so() {
    for (yaml, words) in [
        ("{}", ["`directory`", "`azureBlob`"]),
        ("{}", ["`directory`", "`gcs`"]),
        ("{directory: {path: /a}, s3: {bucket: b}}", ["`directory` and `s3`", "expected one"]),
        ("directory: {path: ''}", ["directory.path", "name a directory"]),
        ("s3: {bucket: ''}", ["s3.bucket", "name"]),
        ("s3: {bucket: 's3://b'}", ["s3.bucket", "s3://b"]),
        ("s3: {bucket: b, prefix: a/../b}", ["s3.prefix", "a/../b"]),
        ("s3: {bucket: b, timeoutSeconds: 0}", ["s3.timeoutSeconds", "1 to 300"]),
        ("s3: {bucket: b, endpoint: 'ftp://h'}", ["s3.endpoint", "ftp://h"]),
        ("s3: {bucket: b, endpoint: 'https://'}", ["s3.endpoint", "https://HOST"]),
        ("s3: {bucket: b, endpoint: 'https://h?a=b'}", ["s3.endpoint", "https://HOST"]),
        ("s3: {bucket: b, endpoint: 'https://me:hunter2@h'}", ["s3.endpoint", "credentialsFile"]),
        ("azureBlob: {container: abc}", ["azureBlob.account", "`endpoint`"]),
        (
            "azureBlob: {account: abc, endpoint: 'https://h', container: abc}",
            ["azureBlob.endpoint", "not both"],
        ),
        ("azureBlob: {account: a.blob.core.windows.net, container: abc}", ["azureBlob.account", "3 to 24"]),
        ("azureBlob: {account: abc, container: abc/def}", ["azureBlob.container", "`prefix`"]),
        ("azureBlob: {account: abc, container: abc, prefix: a//b}", ["azureBlob.prefix", "a//b"]),
        (
            "azureBlob: {account: abc, container: abc, timeoutSeconds: 301}",
            ["azureBlob.timeoutSeconds", "300"],
        ),
        ("azureBlob: {endpoint: 'https://h?sig=hunter2', container: abc}", ["azureBlob.endpoint", "sasFile"]),
        (
            "azureBlob: {account: abc, container: abc, authorityHost: 'http://h'}",
            ["azureBlob.authorityHost", "https://"],
        ),
        (
            "azureBlob: {account: abc, container: abc, sasFile: /s, credential: cli}",
            ["azureBlob.sasFile", "credential"],
        ),
        ("gcs: {bucket: 'gs://b'}", ["gcs.bucket", "gs://b"]),
        ("gcs: {bucket: b, prefix: a//b}", ["gcs.prefix", "a//b"]),
        ("gcs: {bucket: b, timeoutSeconds: 301}", ["gcs.timeoutSeconds", "1 to 300"]),
        ("gcs: {bucket: b, anonymous: true, credentialsFile: /f}", ["gcs.anonymous", "credentialsFile"]),
        ("gcs: {bucket: b, endpoint: 'http://h'}", ["gcs.endpoint", "in the clear"]),
        ("gcs: {bucket: b, endpoint: 'ftp://h'}", ["gcs.endpoint", "https://HOST"]),
        ("gcs: {bucket: b, endpoint: 'https://h?a=b'}", ["gcs.endpoint", "https://HOST"]),
        ("gcs: {bucket: b, endpoint: 'https://me:hunter2@h'}", ["gcs.endpoint", "credentialsFile"]),
    ] {
        let error = parse(yaml).location().unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
        assert!(!error.contains("hunter2"));
    }
    for yaml in [
        "gcs: {bucket: b, endpoint: 'http://127.0.0.1:1'}",
        "gcs: {bucket: b, endpoint: 'http://h', anonymous: true}",
    ] {
        assert!(parse(yaml).location().is_ok(), "{yaml}");
    }
}

#[test]
fn refuses_unknown_fields() {
    for yaml in [
        "{bucket: b}",
        "s3: {bucket: b, secretAccessKey: x}",
        "directory: {path: /a, mode: 7}",
        "azureBlob: {account: a, container: b, accountKey: x}",
    ] {
        assert!(serde_saphyr::from_str::<TargetConfig>(yaml).is_err(), "{yaml}");
    }
}
