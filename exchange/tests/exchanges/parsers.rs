//! No answer makes a parser panic.

use chancery_exchange::oauth;
use chancery_exchange::provider::google::{self, Impersonation};
use chancery_exchange::provider::{AzureProvider, aws, azure};
use chancery_exchange::registry::{RegistryHost, acr, ecr, of_image};
use chancery_exchange::service_account::ServiceAccountName;
use chancery_wire::HttpResponse;
use jiff::Timestamp;
use proptest::prelude::*;
use zeroize::Zeroizing;

fn answer(status: u16, body: Vec<u8>) -> HttpResponse {
    HttpResponse {
        status: http::StatusCode::from_u16(status).unwrap(),
        version: http::Version::HTTP_11,
        peer: None,
        headers: http::HeaderMap::new(),
        body: Zeroizing::new(body),
    }
}

/// Text that begins like an answer.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("1e308".to_owned()),
        Just("-1".to_owned()),
        Just("\"\\ud83d\\ude00AADSTS\"".to_owned()),
        "[0-9]{1,30}",
        "\"[a-zA-Z0-9:. =]{0,20}\"",
    ];
    let name = prop_oneof![
        Just("access_token"),
        Just("expires_in"),
        Just("token_type"),
        Just("error"),
        Just("error_description"),
        Just("error_codes"),
        Just("refresh_token"),
        Just("authorizationData"),
        Just("accessToken"),
        Just("expireTime"),
        Just("errors"),
        Just("__type"),
        Just("correlation_id"),
    ];
    let json = proptest::collection::vec((name, value), 0..8).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    });
    let element = "(<(Credentials|Error|Code|Message|Expiration|AccessKeyId)>|[a-z&;<]{0,5}|</(Credentials|Error|Code)>){0,10}";
    prop_oneof![json, element.prop_map(String::into_bytes), proptest::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn no_answer_makes_a_parser_panic(status in 100_u16..1000, body in body()) {
        let (answer, now) = (answer(status, body), Timestamp::UNIX_EPOCH);
        let host = |text: &str| text.parse::<RegistryHost>().unwrap();
        _ = aws::answer::read(&answer, now);
        _ = AzureProvider::read(&answer, now);
        _ = Impersonation::read(&answer, now);
        _ = Impersonation::read_id_token(&answer, now);
        _ = oauth::read_token(&answer, now);
        _ = ecr::read(&answer, &host("123456789012.dkr.ecr.eu-central-1.amazonaws.com"), now);
        _ = ecr::read(&answer, &host("public.ecr.aws"), now);
        _ = acr::read(&answer, &host("a.azurecr.io"), now);
    }

    #[test]
    fn no_setting_makes_a_reader_panic(text in any::<String>(), host in "[a-z0-9.-]{0,40}(dkr.ecr.|azurecr.io|-docker.pkg.dev|amazonaws.com)?") {
        _ = text.parse::<aws::RoleArn>();
        _ = aws::RoleArn::of_server(&text);
        _ = text.parse::<aws::Region>();
        _ = text.parse::<azure::TenantId>();
        _ = text.parse::<azure::ClientId>();
        _ = text.parse::<google::WorkloadProvider>();
        _ = text.parse::<google::ServiceAccountEmail>();
        _ = text.parse::<ServiceAccountName>();
        _ = of_image(&text);
        _ = of_image(&format!("{host}/a"));
        _ = aws::partition::tenant_sts(&text);
        _ = aws::partition::tenant_sts(&format!("https://{host}"));
        let name = aws::SessionName::of(&text);
        prop_assert!((2..=64).contains(&name.as_str().len()) && name.as_str().is_ascii());
    }

    #[test]
    fn a_host_that_is_taken_for_a_clouds_is_below_the_clouds_domain(prefix in "[a-z0-9.-]{0,12}", suffix in "[a-z0-9.:/@#?-]{1,12}") {
        let clouds = ["sts.eu-central-1.amazonaws.com", "sts.cn-north-1.amazonaws.com.cn", "sts.us-east-1.api.aws"];
        for cloud in clouds {
            if let Ok(endpoint) = aws::partition::tenant_sts(&format!("https://{prefix}{cloud}{suffix}")) {
                let host = endpoint.host();
                let domains = ["amazonaws.com", "amazonaws.com.cn", "api.aws"];
                prop_assert!(domains.iter().any(|domain| host.ends_with(&format!(".{domain}"))), "{}", host);
                prop_assert!(host.split('.').any(|label| label == "sts"), "{}", host);
            }
        }
    }
}
