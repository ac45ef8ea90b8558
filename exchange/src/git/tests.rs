use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use proptest::prelude::*;

use super::*;

fn request(host: &str, path: &str) -> Request {
    Request::parse(&format!(
        "protocol=https\nhost={host}\npath={path}\ncapability[]=authtype\nwwwauth[]=Basic\n\n"
    ))
}

fn keys() -> Credential {
    let secret = |text: &str| Secret::new(text.to_owned());
    let keys = AwsKeys {
        access_key_id: "ASIA".to_owned(),
        secret_access_key: secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session_token: Some(secret("session")),
    };
    let at = |second| Timestamp::from_second(second).unwrap();
    Credential::new(CredentialKind::Aws(keys), at(1_440_938_160), Some(at(1_440_941_760)))
}

fn bearer() -> Credential {
    let at = |second| Timestamp::from_second(second).unwrap();
    Credential::bearer(Secret::new("entra".to_owned()), at(0), Some(at(3600)))
}

#[test]
fn f29_azure_devops_takes_the_token_as_a_password() {
    for host in ["dev.azure.com", "org.visualstudio.com"] {
        let text = answer(&bearer(), &request(host, ""), Timestamp::UNIX_EPOCH).unwrap().unwrap();
        assert_eq!(text.as_str(), "username=chancery\npassword=entra\npassword_expiry_utc=3600\n", "{host}");
    }
}

/// The signature once more, by a second implementation of HMAC and the steps of
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.
#[test]
fn f29_codecommit_takes_a_signature_over_what_is_fetched() {
    let now = Timestamp::from_second(1_440_938_160).unwrap();
    let asked = request("git-codecommit.us-east-1.amazonaws.com", "v1/repos/app");
    let text = answer(&keys(), &asked, now).unwrap().unwrap();
    let digest =
        Sha256::digest("GIT\n/v1/repos/app\n\nhost:git-codecommit.us-east-1.amazonaws.com\n\nhost\n");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n20150830T123600\n20150830/us-east-1/codecommit/aws4_request\n{}",
        hex(&digest)
    );
    let mut key = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec();
    for part in ["20150830", "us-east-1", "codecommit", "aws4_request", &to_sign] {
        key = sign(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    let expected = format!(
        "username=ASIA%session\npassword=20150830T123600Z{}\npassword_expiry_utc={}\n",
        hex(&key),
        1_440_938_160 + 900
    );
    assert_eq!(text.as_str(), expected);
    let late = Timestamp::from_second(1_440_941_700).unwrap();
    let text = answer(&keys(), &asked, late).unwrap().unwrap();
    assert!(text.ends_with("password_expiry_utc=1440941760\n"), "no longer than the keys: {}", *text);
    let error = answer(&keys(), &request("git-codecommit.us-east-1.amazonaws.com", ""), now).unwrap_err();
    assert_eq!(error.code(), "git-without-path");
}

#[test]
fn s0_07_no_other_host_is_given_a_login() {
    for host in [
        "evil.example",
        "dev.azure.com.evil.example",
        "xdev.azure.com",
        ".visualstudio.com",
        "a.b.visualstudio.com",
        "dev.azure.com:8443",
        "git-codecommit.us-east-1.amazonaws.com.evil.example",
        "git-codecommit.evil.example.amazonaws.com",
        "DEV.azure.com",
    ] {
        for credential in [keys(), bearer()] {
            assert!(
                answer(&credential, &request(host, "v1/repos/x"), Timestamp::UNIX_EPOCH).unwrap().is_none(),
                "{host}"
            );
        }
    }
    let plain = Request { protocol: "http".to_owned(), ..request("dev.azure.com", "") };
    assert!(answer(&bearer(), &plain, Timestamp::UNIX_EPOCH).unwrap().is_none(), "in the clear");
    let other = answer(&keys(), &request("dev.azure.com", ""), Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(other.code(), "output-unsuitable");
}

proptest! {
    #[test]
    fn no_request_of_gits_makes_the_helper_panic(text in any::<String>(), host in "[a-z.-]{0,30}(amazonaws.com)?", path in any::<String>()) {
        _ = answer(&keys(), &Request::parse(&text), Timestamp::UNIX_EPOCH);
        let asked = Request { protocol: "https".to_owned(), host, path };
        if let Ok(Some(text)) = answer(&keys(), &asked, Timestamp::UNIX_EPOCH) {
            prop_assert_eq!(text.lines().count(), 3);
        }
    }
}
