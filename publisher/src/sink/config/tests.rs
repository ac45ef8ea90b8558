use super::*;

fn parse(yaml: &str) -> SinkConfig {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

const HTTP: &str = "httpPut: {url: 'https://h/x', body: '{{jwks}}', read: {pointer: ''}}";

#[test]
fn names_itself_or_its_place() {
    for (yaml, name) in [
        ("{name: ours, configMap: {namespace: n, name: c}}", "ours"),
        ("configMap: {namespace: n, name: c}", "configmap n/c"),
        ("vault: {address: 'https://v:8200/', tokenFile: t}", "vault https://v:8200/v1/auth/jwt/config"),
        (
            "vault: {address: 'https://v', mount: a/b, namespace: team, kubernetes: {role: r}}",
            "vault https://v/v1/auth/a/b/config in namespace team",
        ),
        (HTTP, "https://h/x"),
    ] {
        let sink = parse(yaml);
        sink.place().unwrap_or_else(|error| panic!("{yaml}: {error}"));
        assert_eq!(sink.display_name(), name);
    }
}

#[test]
fn relative_paths_start_at_the_folder() {
    let mut sink =
        parse("vault: {address: 'https://v', ca: ca.pem, kubernetes: {role: r, tokenFile: token}}");
    sink.start_paths_at(Path::new("/etc/chancery"));
    let vault = sink.vault.unwrap();
    assert_eq!(vault.ca.unwrap(), Path::new("/etc/chancery/ca.pem"));
    assert_eq!(vault.kubernetes.unwrap().token_file, Path::new("/etc/chancery/token"));
    let mut sink =
        parse("httpPut: {url: 'https://h', body: '{{jwks}}', headers: {A: {file: a}, B: {value: b}}}");
    sink.start_paths_at(Path::new("/f"));
    assert_eq!(sink.http_put.unwrap().headers["A"].file.as_deref(), Some(Path::new("/f/a")));
}

fn refuses(yaml: &str, words: [&str; 2]) {
    let error = parse(yaml).place().expect_err(yaml).to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn refuses_what_cannot_be_meant_so() {
    for (yaml, words) in [
        ("{}".to_owned(), ["`vault`, `configMap`, `gcpProvider` and `httpPut`", ""]),
        (
            format!("{{configMap: {{namespace: n, name: c}}, {HTTP}}}"),
            ["`configMap` and `httpPut`", "expected one"],
        ),
        ("vault: {address: 'http://v', tokenFile: t}".to_owned(), ["vault.address", "https://HOST"]),
        ("vault: {address: 'https://me:hunter2@v', tokenFile: t}".to_owned(), ["vault.address", "by a file"]),
        (
            "vault: {address: 'https://v'}".to_owned(),
            ["neither `tokenFile` nor `kubernetes`", "expected one"],
        ),
        (
            "vault: {address: 'https://v', tokenFile: t, kubernetes: {role: r}}".to_owned(),
            ["both", "expected one"],
        ),
        (
            "vault: {address: 'https://v', kubernetes: {role: ''}}".to_owned(),
            ["vault.kubernetes.role", "name a role"],
        ),
        (
            "vault: {address: 'https://v', tokenFile: t, mount: auth/../sys}".to_owned(),
            ["vault.mount", "auth/../sys"],
        ),
        ("vault: {address: 'https://v', tokenFile: t, mount: '/jwt'}".to_owned(), ["vault.mount", "/jwt"]),
        (
            "vault: {address: 'https://v', tokenFile: t, namespace: 'a b'}".to_owned(),
            ["vault.namespace", "a b"],
        ),
        (
            "vault: {address: 'https://v', tokenFile: t, timeoutSeconds: 0}".to_owned(),
            ["timeoutSeconds", "1 to 300"],
        ),
        ("configMap: {namespace: N, name: c}".to_owned(), ["configMap.namespace", "lower-case"]),
        ("configMap: {namespace: n, name: ''}".to_owned(), ["configMap.name", "lower-case"]),
        ("configMap: {namespace: n, name: c, key: a/b}".to_owned(), ["configMap.key", "a/b"]),
        (
            "configMap: {namespace: n, name: c, discoveryKey: jwks.json}".to_owned(),
            ["configMap.discoveryKey", "another"],
        ),
    ] {
        refuses(&yaml, words);
    }
}

#[test]
fn refuses_requests_that_cannot_be_meant_so() {
    let http = |changed: &str| format!("httpPut: {{url: 'https://h/x', body: '{{{{jwks}}}}', {changed}}}");
    let read = "read: {pointer: ''}";
    for (yaml, words) in [
        (http("timeoutSeconds: 301, read: {pointer: ''}"), ["httpPut.timeoutSeconds", "1 to 300"]),
        (http(""), ["httpPut.read", "adopt: true"]),
        (http("read: {pointer: keys}"), ["httpPut.read.pointer", "JSON pointer"]),
        (http("read: {pointer: '', url: 'https://other/x'}"), ["httpPut.read.url", "server of `url`"]),
        (http("read: {pointer: '', url: 'https://h:444/x'}"), ["httpPut.read.url", "server of `url`"]),
        (http(&format!("headers: {{Host: {{value: x}}}}, {read}")), ["`Host`", "leave it out"]),
        (http(&format!("headers: {{'a b': {{value: x}}}}, {read}")), ["\"a b\"", "RFC 9110"]),
        (
            http(&format!("headers: {{authorization: {{value: hunter2}}}}, {read}")),
            ["`authorization`", "`file`"],
        ),
        (http(&format!("headers: {{X-A: {{value: a, file: b}}}}, {read}")), ["`X-A`", "exactly one"]),
        (http(&format!("headers: {{X-A: {{}}}}, {read}")), ["`X-A`", "exactly one"]),
        (http(&format!("headers: {{X-A: {{value: a, prefix: b}}}}, {read}")), ["`prefix`", "`X-A`"]),
        (
            "{adopt: true, httpPut: {url: 'https://h', body: '{{jwk}}'}}".to_owned(),
            ["{{jwk}}", "line 1 column 1"],
        ),
        (
            "{adopt: true, httpPut: {url: 'https://h', body: '\"{{jwks}}\"'}}".to_owned(),
            ["httpPut.body", "not JSON"],
        ),
    ] {
        refuses(&yaml, words);
    }
}

#[test]
fn refuses_unknown_fields() {
    for yaml in [
        "{url: 'https://h'}",
        "vault: {address: 'https://v', token: t}",
        "vault: {address: 'https://v', kubernetes: {role: r, jwt: j}}",
        "configMap: {namespace: n, name: c, data: {}}",
        "httpPut: {url: 'https://h', body: x, method: PATCH}",
        "httpPut: {url: 'https://h', body: x, headers: {A: secret}}",
    ] {
        assert!(serde_saphyr::from_str::<SinkConfig>(yaml).is_err(), "{yaml}");
    }
}
