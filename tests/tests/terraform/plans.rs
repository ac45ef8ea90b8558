//! Terraform plans and makes what the modules say, and has nothing to do after a rotation.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::{binary, chancery};
use serde_json::{Value, json};

use crate::source::{EXAMPLES, MODULES};
use crate::stage::{SERVERS, Stage};

const OLD_KEYS: &str =
    r#"{"keys":[{"use":"sig","kty":"RSA","kid":"old","alg":"RS256","n":"AQ","e":"AQAB"}]}"#;
const NEW_KEYS: &str =
    r#"{"keys":[{"use":"sig","kty":"RSA","kid":"new","alg":"RS256","n":"Aw","e":"AQAB"}]}"#;
const POOL_PROVIDER: &str = "google_iam_workload_identity_pool_provider";

/// The arguments of an example, and what it reads.
fn arguments(stage: &Stage, example: &str) -> Result<&'static [&'static str]> {
    match example {
        "examples/aws" => Ok(&["-var", "published=true"]),
        "examples/gcp-private" => {
            std::fs::write(stage.modules().join(example).join("jwks.json"), OLD_KEYS)?;
            Ok(&[])
        }
        _ => Ok(&[]),
    }
}

/// A stage on which an example was made.
fn made(example: &str) -> Result<(Stage, &'static [&'static str])> {
    let stage = Stage::new()?;
    let arguments = arguments(&stage, example)?;
    stage.init(example)?;
    stage.terraform(example, &["validate", "-no-color"])?.success()?;
    stage.apply(example, arguments)?.success()?;
    Ok((stage, arguments))
}

/// What a rotation changes at the clouds, as Chancery does: the keys that a provider was given, and its mark.
fn rotate(stage: &Stage) -> Result<()> {
    stage.change(POOL_PROVIDER, |provider| {
        provider["oidc"][0]["jwks_json"] = json!(NEW_KEYS);
        provider["description"] = json!("Kept by Chancery. chancery-owner=cluster-a");
    })
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn a_plan_is_empty_after_it_was_made_and_after_a_rotation() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    for example in EXAMPLES {
        let (stage, arguments) = made(example)?;
        let again = stage.plan(example, arguments)?;
        assert_eq!(again.code, Some(0), "{example}: {}", again.said);
        if example.contains("gcp") {
            rotate(&stage)?;
        }
        // Documents are no resources: there is nothing of theirs in the state that could be old.
        let after = stage.plan(example, arguments)?;
        assert_eq!(after.code, Some(0), "{example}: {}", after.said);
        assert!(after.said.contains("No changes."), "{example}: {}", after.said);
        let state = std::fs::read_to_string(stage.modules().join(example).join("terraform.tfstate"))?;
        assert!(!state.contains("PRIVATE KEY") && !state.contains(NEW_KEYS), "{example}: {state}");
    }
    Ok(())
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn without_what_ignores_uploaded_keys_the_next_apply_would_bring_the_old_ones_back() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let (stage, arguments) = made("examples/gcp-private")?;
    let file = stage.modules().join("gcp/trust/main.tf");
    let text = std::fs::read_to_string(&file)?;
    let without = text.replace("ignore_changes = [oidc[0].jwks_json, description]", "");
    ensure!(text != without, "the line is not there");
    std::fs::write(&file, without)?;
    rotate(&stage)?;
    let plan = stage.plan("examples/gcp-private", arguments)?;
    assert_eq!(plan.code, Some(2), "{}", plan.said);
    assert!(plan.said.contains("jwks_json"), "{}", plan.said);
    Ok(())
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn a_change_of_the_infrastructure_behind_terraforms_back_is_planned_to_be_undone() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let (stage, arguments) = made("examples/aws")?;
    stage.change("aws_s3_bucket_policy", |policy| policy["policy"] = json!("{}"))?;
    let plan = stage.plan("examples/aws", arguments)?;
    assert_eq!(plan.code, Some(2), "{}", plan.said);
    assert!(plan.said.contains("aws_s3_bucket_policy.this will be updated in-place"), "{}", plan.said);
    Ok(())
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn the_tests_of_the_modules_pass_and_the_files_are_formatted() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let formatted = stage.terraform(".", &["fmt", "-check", "-recursive", "-diff"])?;
    assert_eq!(formatted.code, Some(0), "{}", formatted.stdout);
    for module in MODULES {
        stage.init(module)?;
        let printed = stage.terraform(module, &["test", "-no-color"])?.success()?;
        println!("{module}: {}", printed.lines().last().unwrap_or_default());
    }
    Ok(())
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn what_a_cloud_forbids_is_refused_with_the_reason_and_the_remedy() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    for (example, rules, edit, words) in [
        (
            "examples/aws",
            json!({ "data.aws_s3_account_public_access_block": { "block_public_policy": true } }),
            Some((
                "prefix = \"cluster-a\"",
                "prefix = \"cluster-a\"\n  check_account_public_access_block = true",
            )),
            ["Block Public Access of the account wins over the bucket's", "set access = \"cloudfront\""],
        ),
        (
            "examples/azure",
            json!({ "azurerm_storage_account": { "allow_nested_items_to_be_public": false } }),
            Some(("prefix               = \"cluster-a\"", "access = \"blob\"\n  container_name = \"oidc\"")),
            ["by a policy of the organization most likely", "set access = \"website\", which needs none"],
        ),
        (
            "examples/gcp",
            json!({ "google_storage_bucket": { "public_access_prevention": "enforced" } }),
            None,
            ["Public access prevention is enforced on the bucket", "upload_keys of the module trust"],
        ),
    ] {
        let stage = Stage::new()?;
        stage.rule(&rules)?;
        if let Some((from, to)) = edit {
            let file = stage.modules().join(example).join("main.tf");
            let text = std::fs::read_to_string(&file)?;
            ensure!(text.contains(from), "{example}: {from} is not there");
            std::fs::write(&file, text.replace(from, to))?;
        }
        stage.init(example)?;
        let refused = stage.apply(example, arguments(&stage, example)?)?;
        assert_eq!(refused.code, Some(1), "{example}: {}", refused.said);
        for word in words {
            assert!(refused.said.contains(word), "{example}, {word}: {}", refused.said);
        }
    }
    Ok(())
}

/// The value of an output.
fn output<'a>(outputs: &'a Value, name: &str) -> Result<&'a Value> {
    outputs.pointer(&format!("/{name}/value")).with_context(|| format!("no output {name}: {outputs}"))
}

/// `chancery issuer --check` takes a configuration whose keys come from a file instead of a cluster, with the environment
/// that the webhook makes of the annotations.
async fn check(configuration: &str, stage: &Stage, outputs: &Value) -> Result<()> {
    let dir = Scratch::new("configuration")?;
    let key = KeyFile::new(&dir, "sa")?;
    let source = json!({ "files": { "paths": [key.public] } }).to_string();
    let with_file = configuration.replace(r#"{"kubeApiserver":{"discover":true}}"#, &source);
    ensure!(with_file != configuration, "no source that could be replaced: {configuration}");
    let file = dir.write("chancery.yaml", with_file)?;
    let token = dir.write("token", "a.b.c")?;
    let google = outputs.pointer("/credential_configurations/value/publisher").and_then(Value::as_str);
    let credentials = stage.write("google.json", google.unwrap_or(CREDENTIALS))?;
    let mut command = Command::new(binary::chancery()?);
    command.args(["issuer", "--check", "--config"]).arg(&file);
    command
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token)
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/publisher");
    command.env("AZURE_FEDERATED_TOKEN_FILE", &token).env("GOOGLE_APPLICATION_CREDENTIALS", credentials);
    let said = chancery::run_command(command).await?.success()?;
    assert!(said.ends_with("ok, 1 issuers\n"), "{said}");
    Ok(())
}

/// Where the publisher has no entry of its own: another credential, of the same form.
const CREDENTIALS: &str = r#"{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"/var/run/secrets/token"}}"#;

/// What `chancery render` tells kube-apiserver of the same issuer.
async fn rendered_flags(issuer: &str, accepted: &[&str]) -> Result<Vec<String>> {
    let mut arguments = vec!["render", "systemd", "--version", "1.36", "--issuer", issuer, "--json"];
    if !accepted.is_empty() {
        arguments.extend(["--phase", "switch"]);
    }
    accepted.iter().for_each(|issuer| arguments.extend(["--from", issuer]));
    let printed: Value = serde_json::from_str(&chancery::run(&arguments).await?.success()?)?;
    let flags = printed["flags"].as_array().with_context(|| format!("no flags: {printed}"))?;
    let text = |flag: &Value, field: &str| {
        let text = flag[field].as_str().with_context(|| format!("no {field}: {flag}"))?;
        Ok::<_, anyhow::Error>(text.to_owned())
    };
    flags.iter().map(|flag| Ok(format!("--{}={}", text(flag, "name")?, text(flag, "value")?))).collect()
}

#[tokio::test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
async fn the_outputs_are_taken_by_the_service_and_are_what_render_says() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    for example in EXAMPLES {
        let (stage, _) = made(example)?;
        let outputs = stage.outputs(example)?;
        let configuration = output(&outputs, "chancery_config")?.as_str().context("no text")?;
        check(configuration, &stage, &outputs)
            .await
            .with_context(|| format!("{example}:\n{configuration}"))?;
        let Ok(issuer) = output(&outputs, "issuer_url") else {
            continue;
        };
        let issuer = issuer.as_str().context("no text")?;
        let accepted: &[&str] = match example {
            "examples/aws-cloudfront" => &["https://kubernetes.default.svc.cluster.local"],
            _ => &[],
        };
        let flags = rendered_flags(issuer, accepted).await?;
        let shown = flags.iter().filter(|flag| !flag.contains("-key-file="));
        assert_eq!(*output(&outputs, "kube_apiserver_args")?, json!(shown.collect::<Vec<_>>()), "{example}");
    }
    Ok(())
}
