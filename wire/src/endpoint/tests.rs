use super::*;

fn any(text: &str) -> Result<Endpoint, EndpointError> {
    Endpoint::parse(text, &EndpointRule::any_host())
}

fn aws() -> EndpointRule {
    let patterns = ["sts.amazonaws.com", "sts.*.amazonaws.com", "sts-fips.*.amazonaws.com"];
    EndpointRule::hosts(patterns.map(|pattern| pattern.parse().unwrap()))
}

#[test]
fn a_secret_goes_to_verified_servers_or_stays_on_this_machine() {
    for good in [
        "https://vault.example.com:8200/x?y=z",
        "https://vault.example.com",
        "https://VAULT.example.com",
        "https://vault.example.com:443/",
        "https://192.0.2.7",
        "https://[2001:db8::1]:8443",
        "http://127.0.0.1:1",
        "http://127.1.2.3",
        "http://[::1]:1",
        "http://[::ffff:7f00:1]:1",
        "http://localhost",
    ] {
        assert!(any(good).is_ok(), "{good}");
    }
    for bad in [
        "http://vault.example.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://0.0.0.0",
        "http://169.254.169.254",
    ] {
        assert!(matches!(any(bad), Err(EndpointError::InTheClear { .. })), "{bad}");
    }
    for bad in
        ["", "vault", "vault.example.com", "ftp://h", "https://", "https:///h", "https:h", "file:///etc"]
    {
        assert!(any(bad).is_err(), "{bad}");
    }
    assert_eq!(any("https://h/#x"), Err(EndpointError::Fragment));
}

#[test]
fn what_parsers_read_differently_is_refused() {
    for ambiguous in [
        "https://0x7f.1",
        "https://2130706433",
        "http://0x7f.1",
        "http://0177.0.0.1",
        "http://127.1",
        "https://%76ault.example.com",
        "https://vault.example.com.",
        "https://vault.example.com:",
        "https://[0:0:0:0:0:0:0:1]",
    ] {
        assert!(matches!(any(ambiguous), Err(EndpointError::AmbiguousHost { .. })), "{ambiguous}");
    }
    for illegal in [
        "https://good.example\\@evil.example",
        "https://good.example\\.evil.example",
        " https://good.example",
        "https://good.exam\tple",
        "https://good.example\n",
        "https://gööd.example",
        "https://good。example",
    ] {
        assert_eq!(any(illegal), Err(EndpointError::NotAUrl), "{illegal}");
    }
}

#[test]
fn an_error_repeats_no_password() {
    for text in ["https://me:hunter2@h", "https://hunter2@h", "https://good.example@evil.example/?hunter2"] {
        let error = any(text).unwrap_err();
        assert_eq!(error, EndpointError::UserInformation, "{text}");
        assert!(error.to_string().contains("by a file") && !error.to_string().contains("hunter2"));
    }
}

#[test]
fn a_host_is_matched_label_by_label_after_parsing() {
    for good in
        ["https://sts.amazonaws.com", "https://STS.eu-west-1.amazonaws.com/", "https://127.0.0.1:8443"]
    {
        assert!(Endpoint::parse(good, &aws()).is_ok(), "{good}");
    }
    for hidden in [
        "https://evil.example/a.sts.amazonaws.com",
        "https://evil.example?sts.amazonaws.com",
        "https://evil.example/#.sts.amazonaws.com",
        "https://sts.amazonaws.com@evil.example",
        "https://sts.amazonaws.com.evil.example",
        "https://evilsts.amazonaws.com",
        "https://sts.a.b.amazonaws.com",
        "https://sts.amazonaws.com.",
        "http://sts.amazonaws.com",
        "https://192.0.2.7",
    ] {
        assert!(Endpoint::parse(hidden, &aws()).is_err(), "{hidden}");
    }
    let error = Endpoint::parse("https://evil.example", &aws()).unwrap_err().to_string();
    assert!(error.contains("evil.example") && error.contains("`sts.*.amazonaws.com`"), "{error}");
}

#[test]
fn a_rule_says_what_else_may_be_asked() {
    let link_local: IpAddr = "169.254.170.2".parse().unwrap();
    let rule = EndpointRule::any_host().with_plain([link_local]);
    assert!(Endpoint::parse("http://169.254.170.2/v2/credentials", &rule).is_ok());
    assert!(Endpoint::parse("http://169.254.170.3", &rule).is_err());

    let strangers = aws().without_loopback().origin_only();
    assert!(Endpoint::parse("https://sts.eu-west-1.amazonaws.com", &strangers).is_ok());
    for more in [
        "https://127.0.0.1",
        "http://localhost",
        "https://sts.amazonaws.com:8443",
        "https://sts.amazonaws.com/x",
        "https://sts.amazonaws.com/?x",
    ] {
        assert!(Endpoint::parse(more, &strangers).is_err(), "{more}");
    }
    let anywhere_else = EndpointRule::any_host().without_loopback();
    assert!(Endpoint::parse("https://localhost", &anywhere_else).is_err());
}

#[test]
fn a_link_is_followed_on_the_same_server_alone() {
    let endpoint = any("https://management.example.com/base/").unwrap();
    assert_eq!(endpoint.base(), "https://management.example.com/base");
    let next = endpoint.admit("https://management.example.com:443/other?page=2").unwrap();
    assert_eq!(next.to_string(), "https://management.example.com/other?page=2");
    for elsewhere in [
        "https://management.example.com.evil.example/",
        "https://management.example.com:8443/",
        "http://management.example.com/",
        "https://management.example.com@evil.example/",
        "/other",
    ] {
        assert!(endpoint.admit(elsewhere).is_err(), "{elsewhere}");
    }
    let below = any("https://h/a/?b=c").unwrap().below("/v1/d?e#f g");
    assert_eq!(below.to_string(), "https://h/a/v1/d%3Fe%23f%20g");
}
