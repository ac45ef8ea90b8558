//! The metadata servers of two clouds, as their machines ask them: a header of their own, nothing in a body, one resource.

use chancery_exchange::subject::{CloudMetadata, Environment, Machine};
use chancery_exchange::transport::{Transport, TransportOptions};
use chancery_exchange::{Class, SubjectTokenSource};
use serde_json::json;

use crate::fake::issuer::{claims, token, verify};
use crate::fake::{Call, Fake, Reply};

const AUDIENCE: &str = "sts.amazonaws.com";

/// A token, or why not.
pub fn answer(call: &Call, mint: &dyn Fn(&str) -> String) -> Reply {
    let query = call.uri.split_once('?').map_or("", |(_, query)| query);
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    let header = |name: &str| call.headers.get(name).map_or("", |value| value.to_str().unwrap());
    if call.method != "GET" || !call.body.is_empty() || !header("x-forwarded-for").is_empty() {
        return Reply::new(403, "");
    }
    match call.path() {
        "/metadata/identity/oauth2/token" if header("metadata") == "true" => {
            let is_known = field("api-version") == "2018-02-01" && field("client_id") == "client-1";
            match is_known && fields.len() == 3 {
                true => Reply::json(
                    200,
                    &json!({ "access_token": mint(field("resource")), "token_type": "Bearer" }),
                ),
                false => Reply::json(400, &json!({ "error": "invalid_request" })),
            }
        }
        "/computeMetadata/v1/instance/service-accounts/default/identity"
            if header("metadata-flavor") == "Google" && field("format") == "full" =>
        {
            Reply::new(200, mint(field("audience")))
        }
        _ => Reply::new(404, ""),
    }
}

pub fn source(machine: Machine, fake: &Fake) -> CloudMetadata {
    let host = fake.url.strip_prefix("http://").unwrap();
    let variables = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.url.as_str()), ("GCE_METADATA_HOST", host)];
    opened(machine, &Environment::given(variables)).unwrap()
}

fn opened(
    machine: Machine,
    environment: &Environment,
) -> Result<CloudMetadata, chancery_exchange::ExchangeError> {
    CloudMetadata::new(machine, environment, Transport::new(TransportOptions::default()).unwrap())
}

#[tokio::test]
async fn w_20_a_machine_of_one_cloud_has_a_token_for_another() {
    let fake = Fake::start(|call| answer(call, &|audience| token(&claims(audience)))).await;
    let of_azure = |client: &str| Machine::Azure { client: Some(client.to_owned()) };
    for machine in [of_azure("client-1"), Machine::Google] {
        let given = source(machine, &fake).token(AUDIENCE).await.unwrap();
        assert!(verify(given.secret().expose(), AUDIENCE).is_ok());
    }
    let error = source(of_azure("another"), &fake).token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Source, "metadata-refused"));
    assert!(error.to_string().contains("managed identity"), "{error}");
    fake.script([Reply::new(429, "").with("retry-after", "7")]);
    let error = source(Machine::Google, &fake).token(AUDIENCE).await.unwrap_err();
    assert_eq!((error.class(), error.failure().retry_after.unwrap().as_secs()), (Class::Throttled, 7));
}

#[test]
fn w_20_whoever_answers_in_a_machines_place_is_on_that_machine() {
    let machine = opened(Machine::Google, &Environment::given([])).unwrap();
    let request = machine.request("a b").unwrap();
    assert_eq!(request.url().host_str(), Some("169.254.169.254"));
    assert_eq!(request.url().query(), Some("audience=a+b&format=full"));
    for elsewhere in ["10.0.0.1", "metadata.evil.example", "http://169.254.169.253", "https://evil.example"] {
        let environment = Environment::given([("GCE_METADATA_HOST", elsewhere)]);
        assert!(opened(Machine::Google, &environment).is_err(), "{elsewhere}");
    }
}
