//! Every configuration that the documentation shows is one that the service takes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use chancery_issuer::config::{Config, MigrationConfig};

/// The fenced YAML blocks of a page that are configurations, and the one in the kind manifest.
fn samples() -> Vec<(String, String)> {
    let root = Path::new("..");
    let mut samples = Vec::new();
    for page in ["docs/issuer.md", "docs/issuer-resource.md", "docs/quickstart.md", "docs/targets/sinks.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let configurations = blocks.filter(|block| block.contains("issuers:"));
        samples.extend(configurations.map(|block| (page.to_owned(), block.to_owned())));
    }
    let manifest = std::fs::read_to_string(root.join("kind/issuer.yaml")).unwrap();
    let (_, indented) = manifest.split_once("  chancery.yaml: |\n").unwrap();
    let lines = indented.lines().take_while(|line| line.starts_with("    "));
    let text: String = lines.map(|line| format!("{}\n", &line[4..])).collect();
    samples.push(("kind/issuer.yaml".to_owned(), text));
    samples
}

#[test]
fn every_sample_is_accepted() {
    let samples = samples();
    assert_eq!(samples.len(), 8, "a page lost its sample");
    for (page, sample) in samples {
        Config::parse(&sample, Path::new(&page)).unwrap_or_else(|error| panic!("{error}\n{sample}"));
    }
}

#[test]
fn the_plan_file_of_a_migration_is_accepted_and_a_bad_one_is_not() {
    let page = include_str!("../../docs/migration.md");
    let sample = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("migration.yaml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        MigrationConfig::read(&path).map_err(|error| error.to_string())
    };
    let intent = read(sample).unwrap().intent();
    assert!(intent.is_from_inside() && intent.wait().as_secs() == 87_000 && intent.parties.len() == 2);
    for (from, to, word) in [
        ("longestToken: 24h", "longestToken: long", "is not a time"),
        ("longestToken: 24h", "", "longestToken"),
        ("kind: vault", "kind: vaults", "vaults"),
        ("trusts: from", "trusts: nobody", "nobody"),
        (
            "to: https://my-oidc.s3.eu-west-1.amazonaws.com",
            "to: https://kubernetes.default.svc.cluster.local",
            "same issuer",
        ),
    ] {
        let error = read(&sample.replace(from, to)).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_configuration_of_sinks_alone_is_complete_and_a_bad_sink_is_refused_with_its_line() {
    let good = "issuers:
  - url: https://id.example.com
    sources:
      - files: { paths: [sa.pub] }
    sinks:
      - name: one
        configMap: { namespace: n, name: c }
      - httpPut:
          url: https://api.example.com/keys
          body: '{ \"keys\": {{jwks}} }'
          read: { pointer: /keys }
";
    let config = Config::parse(good, Path::new("chancery.yaml")).unwrap();
    assert_eq!(config.issuers[0].value.sinks.len(), 2);
    for (from, to, line, word) in [
        ("name: one", "nmae: one", 6, "nmae"),
        (
            "configMap: { namespace: n, name: c }",
            "adopt: true",
            6,
            "`vault`, `configMap`, `gcpProvider` and `httpPut`",
        ),
        ("namespace: n", "namespace: N", 6, "lower-case"),
        ("httpPut:", "name: one\n        httpPut:", 8, "two sinks are called"),
        ("{{jwks}}", "{{keys}}", 8, "{{keys}} (line 1 column 11 of the body)"),
        ("read: { pointer: /keys }", "method: PUT", 8, "adopt: true"),
        ("pointer:", "path:", 11, "path"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "the test does not change anything: {from}");
        let error = Config::parse(&bad, Path::new("chancery.yaml")).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}")) && error.contains(word), "{bad}\n{error}");
    }
}

const GOOD: &str = "issuers:\n  - url: https://id.example.com\n    sources:\n      - files: { paths: [sa.pub] }\n    targets:\n      - to: { directory: { path: www } }\n";

/// [`GOOD`] with `from` replaced by `to` is refused, with this line and word.
fn assert_refused(from: &str, to: &str, (line, word): (u64, &str)) {
    let bad = GOOD.replace(from, to);
    assert_ne!(bad, GOOD, "the test does not change anything: {from}");
    let error = Config::parse(&bad, Path::new("chancery.yaml")).unwrap_err().to_string();
    assert!(error.contains(&format!("line {line}")) && error.contains(word), "{bad}\n{error}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    Config::parse(GOOD, Path::new("chancery.yaml")).unwrap();
    for (from, to, line, word) in [
        ("url: https", "url: http", 2, "https://"),
        ("    targets:", "    target:", 5, "target"),
        ("paths:", "path:", 4, "path"),
        ("path: www", "path: [7]", 6, ""),
        ("to: { directory: { path: www } }", "to: { }", 6, "directory"),
        ("issuers:", "issuer:", 1, "issuer"),
        ("    sources:\n      - files: { paths: [sa.pub] }", "    sources: []", 2, "no `sources`"),
        ("    targets:\n      - to: { directory: { path: www } }", "    owner: a b", 5, "visible ASCII"),
        ("    targets:\n      - to: { directory: { path: www } }", "    retention: soon", 5, ""),
        (
            "    targets:\n      - to: { directory: { path: www } }",
            "    verify: { every: 0s }",
            5,
            "1s or more",
        ),
        ("    targets:\n      - to: { directory: { path: www } }\n", "", 1, "neither"),
    ] {
        assert_refused(from, to, (line, word));
    }
}

#[test]
fn what_a_key_or_a_relying_party_would_suffer_from_is_refused_with_its_line() {
    for (from, to, line, word) in [
        ("    targets:", "    retention: 0s\n    targets:", 5, "lifetime of the longest token"),
        (
            "path: www } }",
            "path: www } }\n        publicUrl: 'http://cdn.example.com'",
            6,
            "expected https://HOST",
        ),
        ("path: www } }", "path: www } }\n        publicUrl: file:///etc/passwd", 6, "expected https://HOST"),
        ("path: www } }", "path: www } }\n        publicUrl: ''", 6, "expected https://HOST"),
        (
            "path: www } }",
            "path: www } }\n      - to: { directory: { path: www } }",
            7,
            "two targets are called",
        ),
        (
            "path: www } }",
            "path: www }, name: issuer URL }\n        publicUrl: https://cdn.example.com",
            6,
            "two views are called \"issuer URL\"",
        ),
        (
            "path: www } }",
            "path: www }, name: a }\n        publicUrl: https://cdn.example.com\n    sinks:\n      - { name: a, configMap: { namespace: n, name: c } }",
            9,
            "two views are called \"a\"",
        ),
        (
            "paths: [sa.pub] }",
            "paths: [sa.pub] }\n        name: a\n      - files: { paths: [b.pub] }\n        name: a",
            6,
            "two sources are called",
        ),
        (
            "path: www } }\n",
            "path: www } }\nstate: { directory: s }\nleaderElection: { name: l }\n",
            7,
            "do not share",
        ),
    ] {
        assert_refused(from, to, (line, word));
    }
}

#[test]
fn a_public_url_with_a_password_is_refused_and_the_password_is_not_said() {
    let text = "issuers:\n  - url: https://id.example.com\n    sources:\n      - files: { paths: [sa.pub] }\n    targets:\n      - to: { directory: { path: www } }\n        publicUrl: https://me:topsecret@cdn.example.com\n";
    let error = Config::parse(text, Path::new("chancery.yaml")).unwrap_err().to_string();
    assert!(error.contains("cdn.example.com") && !error.contains("me:topsecret"), "{error}");
}
