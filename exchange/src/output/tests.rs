use chancery_wire::sigv4::AwsKeys;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::credential::RegistryLogin;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn of(kind: CredentialKind) -> Credential {
    let at = |second| Timestamp::from_second(second).unwrap();
    Credential::new(kind, at(1_999_996_400), Some(at(2_000_000_000)))
}

fn aws() -> Credential {
    let (access_key_id, secret_access_key) = ("AKIA".to_owned(), secret("s'k"));
    of(CredentialKind::Aws(AwsKeys { access_key_id, secret_access_key, session_token: Some(secret("st")) }))
}

fn bearer() -> Credential {
    let at = |second| Timestamp::from_second(second).unwrap();
    Credential::bearer(secret("tok"), at(1_999_996_400), Some(at(2_000_000_000)))
}

fn login() -> Credential {
    let (host, username) = ("r.azurecr.io".to_owned(), "u".to_owned());
    of(CredentialKind::Registry(RegistryLogin { host, username, password: secret("pw") }))
}

fn rendered(credential: &Credential, form: Form<'_>) -> Value {
    serde_json::from_str(&render(credential, form).unwrap()).unwrap()
}

#[test]
fn e14_each_form_is_what_its_tool_reads() {
    assert_eq!(
        rendered(&aws(), Form::CredentialProcess),
        json!({ "Version": 1, "AccessKeyId": "AKIA", "SecretAccessKey": "s'k", "SessionToken": "st", "Expiration": "2033-05-18T03:33:20Z" })
    );
    assert_eq!(
        rendered(&bearer(), Form::ExecCredential(ExecVersion::V1)),
        json!({ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": { "token": "tok", "expirationTimestamp": "2033-05-18T03:33:20Z" } })
    );
    assert_eq!(
        rendered(&login(), Form::Docker("r.azurecr.io")),
        json!({ "ServerURL": "r.azurecr.io", "Username": "u", "Secret": "pw" })
    );
    assert_eq!(
        rendered(&bearer(), Form::GcpExecutable("urn:ietf:params:oauth:token-type:jwt")),
        json!({ "version": 1, "success": true, "token_type": "urn:ietf:params:oauth:token-type:jwt", "id_token": "tok", "expiration_time": 2_000_000_000 })
    );
    assert_eq!(rendered(&aws(), Form::Json)["kind"], "aws");
    assert_eq!(&**render(&bearer(), Form::Raw).unwrap(), "tok\n");
}

#[test]
fn a_shell_reads_back_what_a_value_holds() {
    let text = render(&aws(), Form::Env(Naming::default())).unwrap();
    assert!(text.contains("export AWS_SECRET_ACCESS_KEY='s'\\''k'\n"), "{}", *text);
    assert_eq!(&**render(&bearer(), Form::Env(Naming { bearer: "T" })).unwrap(), "export T='tok'\n");
}

#[test]
fn a_form_for_something_else_is_refused_in_words() {
    for (credential, form) in [
        (bearer(), Form::CredentialProcess),
        (aws(), Form::ExecCredential(ExecVersion::V1)),
        (aws(), Form::Docker("x")),
        (login(), Form::GcpExecutable("x")),
        (aws(), Form::Raw),
    ] {
        let error = render(&credential, form).unwrap_err();
        assert_eq!(error.code(), "output-unsuitable");
        assert!(!error.to_string().contains("s'k"));
    }
}
