//! The clouds' own SDKs as clients. They find an agent by the variables of their process, so that each runs in a process
//! of its own: this test binary again, with the one test that is ignored otherwise.

use std::process::{Command, Stdio};

use aws_credential_types::provider::ProvideCredentials as _;
use azure_core::credentials::TokenCredential as _;
use chancery_exchange::agent::AgentOptions;
use chancery_exchange::agent::variables::Value;

use super::{Running, SECRET, with_secret};
use crate::fake::Fake;
use crate::fake::clouds::{entra, google, sts};
use crate::{azure, google as gcp};

/// What the SDK's process says before its credential.
const SAID: &str = "the sdk was given ";

/// The credential that an SDK takes from an agent, with the variables that the agent announces.
async fn fetched(sdk: &str, running: &Running, secret: &std::path::Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env_clear().env("CHANCERY_TEST_SDK", sdk).stdin(Stdio::null());
    for announced in running.agent.variables(running.address.parse().unwrap()) {
        let value = match announced.value {
            Value::Text(text) => text,
            Value::SecretsPath => secret.display().to_string(),
            Value::Secret => SECRET.to_owned(),
        };
        command.env(announced.name, value);
    }
    command.args(["--exact", "agent::sdks::an_sdk_fetches_its_credential", "--ignored", "--nocapture"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text.lines().find_map(|line| line.split_once(SAID)).unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

#[tokio::test]
#[ignore = "runs as a process of its own, in the tests below"]
async fn an_sdk_fetches_its_credential() {
    let given = match std::env::var("CHANCERY_TEST_SDK").unwrap().as_str() {
        "aws" => {
            let provider = aws_config::ecs::EcsCredentialsProvider::builder().build();
            let keys = provider.provide_credentials().await.unwrap();
            assert!(keys.expiry().is_some());
            format!("{} {}", keys.access_key_id(), keys.session_token().unwrap())
        }
        "azure" => {
            let identity = azure_identity::ManagedIdentityCredential::new(None).unwrap();
            let token = identity.get_token(&["https://vault.azure.net/.default"], None).await.unwrap();
            token.token.secret().to_owned()
        }
        _ => {
            let builder = google_cloud_auth::credentials::mds::Builder::default();
            let credentials = builder.build_access_token_credentials().unwrap();
            credentials.access_token().await.unwrap().token
        }
    };
    println!("{SAID}{given}");
}

#[tokio::test]
async fn e14_the_sdks_of_three_clouds_fetch_their_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("token");
    std::fs::write(&secret, SECRET).unwrap();
    let (sts, entra, google) = (Fake::start(sts).await, Fake::start(entra).await, Fake::start(google).await);
    let aws = Running::of_aws(&sts).await;
    assert_eq!(fetched("aws", &aws, &secret).await, "ASIAEXAMPLE SESSION");
    let azure = Running::start(azure::chain(&entra.url, azure::good()), with_secret()).await;
    assert_eq!(fetched("azure", &azure, &secret).await, "entra-token");
    let account = Some("app@p.iam.gserviceaccount.com");
    let google = Running::start(gcp::chain(&google.url, gcp::good(), account), AgentOptions::default()).await;
    assert_eq!(fetched("gcp", &google, &secret).await, "impersonated");
}
