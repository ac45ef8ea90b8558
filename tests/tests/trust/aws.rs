//! `chancery trust aws`: the IAM OIDC provider, made and kept, with exactly the rights that are printed; on a strict
//! stand-in for AWS, and on the IAM service of versitygw, which others wrote.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::config::Credentials;
use e2e::aws_iam::{AwsIam, StoredProvider};
use e2e::binary;
use e2e::chancery::{Output, run_command};
use e2e::sigv4::verify::{CREDENTIALS, SESSION_TOKEN};
use e2e::versitygw::Versitygw;
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example.com/cluster-a";
const URL: &str = "id.example.com/cluster-a";

/// The rights that `plan` prints, as the page docs/trust/aws.md does.
fn printed_policy() -> Result<Value> {
    let page = std::path::Path::new("../docs/trust/aws.md");
    let page = std::fs::read_to_string(page)?;
    let (_, rest) = page.split_once("```json\n").context("no JSON on the page")?;
    Ok(serde_json::from_str(rest.split_once("```").context("JSON without an end")?.0)?)
}

fn actions(policy: &Value) -> Result<BTreeSet<String>> {
    let actions = policy.pointer("/Statement/0/Action").and_then(Value::as_array).context("no actions")?;
    Ok(actions.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn without(action: &str, mut policy: Value) -> Result<Value> {
    let actions =
        policy.pointer_mut("/Statement/0/Action").and_then(Value::as_array_mut).context("no actions")?;
    let before = actions.len();
    actions.retain(|other| other != action);
    ensure!(actions.len() + 1 == before, "the policy does not name {action}");
    Ok(policy)
}

async fn trust(step: &str, endpoint: &str, credentials: &Credentials, more: &[&str]) -> Result<Output> {
    let mut command = Command::new(binary::chancery()?);
    command.env("AWS_ACCESS_KEY_ID", credentials.access_key_id());
    command.env("AWS_SECRET_ACCESS_KEY", credentials.secret_access_key());
    command.env("AWS_EC2_METADATA_DISABLED", "true").env_remove("AWS_PROFILE");
    if let Some(token) = credentials.session_token() {
        command.env("AWS_SESSION_TOKEN", token);
    }
    command.args(["trust", "aws", step, "--issuer", ISSUER, "--owner", "us", "--region", "us-east-1"]);
    command.args(["--endpoint", endpoint]).args(more);
    run_command(command).await
}

/// The stand-in, and who calls it.
struct Stage {
    iam: AwsIam,
    credentials: Credentials,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (id, secret) = CREDENTIALS;
        let credentials = Credentials::new(id, secret, Some(SESSION_TOKEN.to_owned()), None, "test");
        Ok(Self { iam: AwsIam::start(printed_policy()?).await?, credentials })
    }

    async fn run(&self, step: &str, more: &[&str]) -> Result<Output> {
        trust(step, &self.iam.endpoint(), &self.credentials, more).await
    }

    async fn apply(&self, more: &[&str]) -> Result<String> {
        self.run("apply", more).await?.success()
    }

    fn audiences(&self) -> Vec<String> {
        self.iam.provider(URL).map(|provider| provider.audiences.into_iter().collect()).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_provider_is_made_once_and_kept() -> Result<()> {
    let stage = Stage::new().await?;
    let plan = stage.run("plan", &[]).await?;
    assert_eq!(plan.code, Some(3), "{plan:?}");
    for words in
        ["Action=CreateOpenIDConnectProvider", "needs iam:Create", "oidc-provider/id.example.com/cluster-a"]
    {
        ensure!(plan.stdout.contains(words), "{}", plan.stdout);
    }
    ensure!(plan.stdout.contains("system:serviceaccount:NAMESPACE:SERVICE_ACCOUNT"), "{}", plan.stdout);
    ensure!(!plan.stdout.contains("Thumbprint"), "{}", plan.stdout);
    assert_eq!(
        stage.iam.take_calls(),
        ["GetCallerIdentity"],
        "a plan changes nothing, and a missing one is refused"
    );

    stage.apply(&[]).await?;
    assert_eq!(stage.iam.take_calls(), ["GetCallerIdentity", "CreateOpenIDConnectProvider"]);
    let made = stage.iam.provider(URL).context("no provider")?;
    assert_eq!(made.tags.get("chancery-owner").map(String::as_str), Some("us"));
    assert_eq!(made.audiences, BTreeSet::from(["sts.amazonaws.com".to_owned()]));

    stage.apply(&[]).await?;
    assert_eq!(
        stage.iam.take_calls(),
        ["GetCallerIdentity", "GetOpenIDConnectProvider"],
        "nothing is left to do"
    );
    assert_eq!(stage.run("plan", &[]).await?.code, Some(0));
    assert_eq!(stage.iam.provider(URL), Some(made));
    Ok(())
}

#[tokio::test]
async fn audiences_follow_and_those_of_others_stay() -> Result<()> {
    let stage = Stage::new().await?;
    stage.apply(&["--audience", "one", "two"]).await?;
    stage.apply(&["--audience", "two", "th&ree"]).await?;
    assert_eq!(stage.audiences(), ["th&ree", "two"]);
    let mut provider = stage.iam.provider(URL).context("no provider")?;
    provider.audiences.insert("theirs".to_owned());
    stage.iam.place(URL, provider);
    let said = stage.apply(&["--audience", "two"]).await?;
    ensure!(said.contains("theirs were added by somebody else and stay"), "{said}");
    assert_eq!(stage.audiences(), ["theirs", "two"]);
    Ok(())
}

#[tokio::test]
async fn what_is_not_ours_is_blocked_and_adopted_only_when_told() -> Result<()> {
    let stage = Stage::new().await?;
    let theirs = StoredProvider { thumbprints: vec!["f".repeat(40)], ..StoredProvider::default() };
    stage.iam.place(URL, theirs.clone());
    let output = stage.run("apply", &[]).await?;
    ensure!(output.code == Some(1) && output.stderr.contains("--adopt"), "{output:?}");
    assert_eq!(stage.iam.provider(URL), Some(theirs.clone()));
    let thumbprint = "0".repeat(40);
    let said = stage.apply(&["--adopt", "--thumbprint", &thumbprint]).await?;
    ensure!(said.contains("thumbprints"), "{said}");
    let adopted = stage.iam.provider(URL).context("no provider")?;
    assert_eq!(adopted.thumbprints, theirs.thumbprints, "a thumbprint that differs is only noted");
    let marked = StoredProvider {
        tags: [("chancery-owner".to_owned(), "them".to_owned())].into(),
        ..StoredProvider::default()
    };
    stage.iam.place(URL, marked.clone());
    let output = stage.run("apply", &["--adopt"]).await?;
    ensure!(output.code == Some(1) && output.stderr.contains("belongs to them"), "{output:?}");
    assert_eq!(stage.iam.provider(URL), Some(marked));
    Ok(())
}

#[tokio::test]
async fn whoever_was_faster_is_read_again() -> Result<()> {
    let stage = Stage::new().await?;
    let ours = [("chancery-owner".to_owned(), "us".to_owned())];
    stage.iam.be_faster(StoredProvider { tags: ours.into(), ..StoredProvider::default() });
    stage.apply(&["--audience", "one"]).await?;
    assert_eq!(stage.audiences(), ["one"]);
    let stage = Stage::new().await?;
    stage.iam.be_faster(StoredProvider::default());
    let output = stage.run("apply", &[]).await?;
    ensure!(output.code == Some(1) && output.stderr.contains("--adopt"), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn patience_is_had_and_bad_credentials_are_named() -> Result<()> {
    let stage = Stage::new().await?;
    stage.iam.throttle(3);
    stage.apply(&[]).await?;
    for (id, secret) in [(CREDENTIALS.0, "hunter2"), ("AKIDSTRANGER", CREDENTIALS.1)] {
        let token = Some(SESSION_TOKEN.to_owned());
        let credentials = Credentials::new(id, secret, token, None, "test");
        let output = trust("plan", &stage.iam.endpoint(), &credentials, &[]).await?;
        ensure!(output.code == Some(1) && output.stderr.contains("renew the credentials"), "{output:?}");
        ensure!(!format!("{output:?}").contains("hunter2") && !output.stderr.contains(SESSION_TOKEN));
    }
    Ok(())
}

/// Everything that a life of a provider takes: made, an audience more, one less.
async fn lives(endpoint: &str, credentials: &Credentials, more: &[&str]) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for audiences in [&["one"][..], &["one", "two"], &["two"]] {
        let arguments = [&["--audience"], audiences, more].concat();
        outputs.push(trust("apply", endpoint, credentials, &arguments).await?);
    }
    Ok(outputs)
}

#[tokio::test]
async fn exactly_the_printed_rights_suffice() -> Result<()> {
    let stage = Stage::new().await?;
    let plan = stage.run("plan", &[]).await?.stdout;
    let (_, printed) = plan.split_once("least policy\n").context("no policy in the plan")?;
    let printed: Value = serde_json::Deserializer::from_str(printed).into_iter().next().context("none")??;
    assert_eq!(printed, printed_policy()?, "the page and the plan print the same");
    for output in lives(&stage.iam.endpoint(), &stage.credentials, &[]).await? {
        output.success()?;
    }
    let called = stage.iam.take_calls().into_iter().filter(|call| call != "GetCallerIdentity");
    let called: BTreeSet<String> = called.map(|call| format!("iam:{call}")).collect();
    assert_eq!(called, actions(&printed)?, "every right is used, and no other");

    for action in actions(&printed)? {
        let stage = Stage::new().await?;
        stage.iam.allow(without(&action, printed_policy()?)?);
        let outputs = lives(&stage.iam.endpoint(), &stage.credentials, &[]).await?;
        let failed = outputs.iter().find(|output| output.code != Some(0));
        let failed = failed.with_context(|| format!("it works without {action}"))?;
        ensure!(
            failed.stderr.contains(&format!("grant {action} on arn:aws:iam::")),
            "{action}: {}",
            failed.stderr
        );
    }
    Ok(())
}

/// The same on somebody else's IAM. It fetches thumbprints at once where none is given, as AWS does, so it is given
/// one; and it asks no right of its own for the tags of a creation.
#[tokio::test]
async fn the_printed_rights_suffice_on_versitygw() -> Result<()> {
    if binary::skipped(&["versitygw"]) {
        return Ok(());
    }
    let server = Versitygw::start_with_iam().await?;
    let policy: Value =
        serde_json::from_str(&printed_policy()?.to_string().replace("123456789012", "000000000000"))?;
    let endpoint = format!("{}/", server.iam()?.endpoint);
    let all = server.credentials_limited_to("all", &policy.to_string()).await?;
    let thumbprint = ["--thumbprint", "0123456789abcdef0123456789abcdef01234567"];
    for output in lives(&endpoint, &all, &thumbprint).await? {
        output.success()?;
    }
    let again = trust("plan", &endpoint, &all, &["--audience", "two"]).await?;
    assert_eq!(again.code, Some(0), "{again:?}");
    for (number, action) in actions(&policy)?.iter().enumerate() {
        let policy = without(action, policy.clone())?;
        let less = server.credentials_limited_to(&format!("less-{number}"), &policy.to_string()).await?;
        let arn = format!("arn:aws:iam::000000000000:oidc-provider/{URL}");
        let delete = [
            ("Action", "DeleteOpenIDConnectProvider"),
            ("Version", "2010-05-08"),
            ("OpenIDConnectProviderArn", arn.as_str()),
        ];
        server.iam()?.call(&delete).await?;
        let outputs = lives(&endpoint, &less, &thumbprint).await?;
        let failed = outputs.iter().find(|output| output.code != Some(0));
        let failed = failed.with_context(|| format!("it works without {action}"))?;
        ensure!(
            failed.stderr.contains(&format!("grant {action} on arn:aws:iam::")),
            "{action}: {}",
            failed.stderr
        );
        if server.iam()?.call(&[("Action", "GetOpenIDConnectProvider"), delete[1], delete[2]]).await.is_err()
        {
            trust("apply", &endpoint, &all, &thumbprint).await?.success()?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_stand_in_refuses_what_iam_refuses() -> Result<()> {
    let stage = Stage::new().await?;
    let anyone = e2e::http::client(None)?;
    let unsigned = anyone.post(stage.iam.endpoint()).form(&[("Action", "GetCallerIdentity")]).send().await?;
    assert_eq!(unsigned.status(), 400);
    let json = anyone.post(stage.iam.endpoint()).json(&json!({})).send().await?;
    assert_eq!(json.status(), 400);
    let get = anyone.get(stage.iam.endpoint()).send().await?;
    assert_eq!(get.status(), 404);
    assert_eq!(stage.iam.take_calls(), [""; 0]);
    Ok(())
}
