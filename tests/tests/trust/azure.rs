//! `chancery trust azure` against a directory that checks what Entra, Azure Resource Manager and Microsoft Graph check.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use e2e::authority::Authority;
use e2e::chancery::{Output, run_command};
use e2e::entra::{AUDIENCE, Credential, Entra, Kind, TENANT};
use e2e::scratch::Scratch;
use e2e::token::TokenSigner;
use e2e::{binary, http};
use hyper::Method;
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example.com/clusters/a";
const OPERATOR: &str = "11111111-1111-1111-1111-111111111111";
const APP: &str = "22222222-2222-2222-2222-222222222222";
const RESOURCE: &str = "/subscriptions/33333333-3333-3333-3333-333333333333/resourceGroups/rg/providers/Microsoft.ManagedIdentity/userAssignedIdentities/app";
const READ: &str = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/read";
const WRITE: &str = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write";
const GRAPH: &str = "Application.ReadWrite.OwnedBy";

/// A directory, an operator who proves who it is with a ServiceAccount token, and the identity to be trusted with.
struct Stage {
    dir: Scratch,
    entra: Entra,
    authority: Authority,
    signer: TokenSigner,
    token: PathBuf,
    identity: [&'static str; 2],
}

impl Stage {
    async fn managed() -> Result<Self> {
        let kind = Kind::Managed(RESOURCE.to_owned());
        Self::new(kind, &[READ, WRITE], ["--managed-identity", RESOURCE]).await
    }

    async fn application() -> Result<Self> {
        Self::new(Kind::Application, &[GRAPH], ["--application", APP]).await
    }

    async fn new(kind: Kind, permissions: &[&str], identity: [&'static str; 2]) -> Result<Self> {
        let dir = Scratch::new("trust-azure")?;
        let authority = Authority::new(dir.path())?;
        let entra = Entra::start(&authority).await?;
        let signer = TokenSigner::generate()?;
        entra.shows(ISSUER, signer.jwks());
        entra.add(Kind::Application, OPERATOR, permissions);
        entra.add(kind, APP, &[]);
        entra.register(
            OPERATOR,
            credential("operator", "system:serviceaccount:chancery:operator", AUDIENCE),
        )?;
        let token = dir.write("token", signer.sign(&claims("chancery", "operator"))?)?;
        Ok(Self { dir, entra, authority, signer, token, identity })
    }

    /// `chancery trust azure VERB` for these ServiceAccounts of the namespace `ns`.
    async fn trust(&self, verb: &str, accounts: &[&str]) -> Result<Output> {
        self.trust_for(AUDIENCE, verb, accounts).await
    }

    async fn trust_for(&self, audience: &str, verb: &str, accounts: &[&str]) -> Result<Output> {
        let mut command = Command::new(binary::chancery()?);
        command.args(["trust", "azure", verb, "--json", "--issuer", ISSUER, "--endpoint", self.entra.url()]);
        command.args(self.identity).args(["--audience", audience, "--service-account"]);
        command.args(accounts.iter().map(|name| format!("ns/{name}")));
        command.env("AZURE_CLIENT_ID", OPERATOR).env("AZURE_TENANT_ID", TENANT);
        command.env("AZURE_FEDERATED_TOKEN_FILE", &self.token);
        command.env("AZURE_AUTHORITY_HOST", self.entra.url()).env("SSL_CERT_FILE", self.authority.path());
        run_command(command).await
    }

    async fn apply(&self, accounts: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.trust("apply", accounts).await?.success()?)?)
    }

    /// What a plan says, which must have found something to do or nothing.
    async fn plan(&self, accounts: &[&str], finds: bool) -> Result<Value> {
        let output = self.trust("plan", accounts).await?;
        ensure!(output.code == Some(if finds { 3 } else { 0 }), "{output:?}");
        Ok(serde_json::from_str(&output.stdout)?)
    }

    /// The error of a run that must fail.
    async fn fails(&self, verb: &str, accounts: &[&str]) -> Result<String> {
        let output = self.trust(verb, accounts).await?;
        ensure!(output.code == Some(1), "{output:?}");
        let token = std::fs::read_to_string(&self.token)?;
        ensure!(!output.stderr.contains(&token), "the token is in {}", output.stderr);
        Ok(output.stderr)
    }

    fn subjects(&self) -> Result<Vec<String>> {
        Ok(self.entra.credentials(APP)?.into_iter().map(|one| one.subject).collect())
    }

    /// How many writes were made, whatever came of them.
    fn writes(&self) -> usize {
        let api = |path: &str| path.contains("federatedIdentityCredentials");
        self.entra.records().iter().filter(|one| one.method != Method::GET && api(&one.path)).count()
    }

    /// What Entra says to a workload that brings the token of a ServiceAccount.
    async fn exchange(&self, account: &str) -> Result<(u16, String)> {
        let assertion = self.signer.sign(&claims("ns", account))?;
        let form = [
            ("client_assertion", assertion.as_str()),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_id", APP),
            ("grant_type", "client_credentials"),
            ("scope", "https://storage.azure.com/.default"),
        ];
        let url = format!("{}/{TENANT}/oauth2/v2.0/token", self.entra.url());
        let answer = http::client(Some(self.authority.pem()))?.post(url).form(&form).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

fn credential(name: &str, subject: &str, audience: &str) -> Credential {
    Credential {
        name: name.to_owned(),
        issuer: ISSUER.to_owned(),
        subject: subject.to_owned(),
        audience: audience.to_owned(),
        description: None,
    }
}

fn claims(namespace: &str, account: &str) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let subject = format!("system:serviceaccount:{namespace}:{account}");
    json!({ "iss": ISSUER, "sub": subject, "aud": [AUDIENCE], "iat": now, "nbf": now, "exp": now + 600 })
}

/// Plans, applies, applies again; a workload is let in from then on.
async fn trusts_from_nothing(stage: &Stage) -> Result<()> {
    let (status, refused) = stage.exchange("web").await?;
    ensure!(status == 400 && refused.contains("AADSTS700211"), "{status} {refused}");
    let plan = stage.plan(&["web", "job"], true).await?;
    ensure!(stage.subjects()?.is_empty() && stage.writes() == 0, "a plan changed something");
    let applied = stage.apply(&["web", "job"]).await?;
    assert_eq!(applied.pointer("/plan"), plan.pointer("/plan"), "what is planned is what is done");
    assert_eq!(stage.subjects()?, ["system:serviceaccount:ns:web", "system:serviceaccount:ns:job"]);
    for account in ["web", "job"] {
        let (status, given) = stage.exchange(account).await?;
        ensure!(status == 200, "{given}");
    }
    assert_eq!(stage.exchange("other").await?.0, 400);
    stage.plan(&["web", "job"], false).await?;
    stage.apply(&["web", "job"]).await?;
    assert_eq!(stage.writes(), 2, "the second time nothing is written");
    Ok(())
}

#[tokio::test]
async fn a_managed_identity_trusts_service_accounts() -> Result<()> {
    trusts_from_nothing(&Stage::managed().await?).await
}

#[tokio::test]
async fn an_application_trusts_service_accounts() -> Result<()> {
    trusts_from_nothing(&Stage::application().await?).await
}

#[tokio::test]
async fn the_printed_policy_suffices_and_one_right_less_is_named() -> Result<()> {
    let stage = Stage::managed().await?;
    let plan = stage.plan(&["web"], true).await?;
    let policy: Value =
        serde_json::from_str(plan.pointer("/leastPolicy").and_then(Value::as_str).context("none")?)?;
    let actions = policy.pointer("/Actions").and_then(Value::as_array).context("no actions")?;
    let actions: Vec<&str> = actions.iter().filter_map(Value::as_str).collect();
    for missing in &actions {
        let rest: Vec<&str> = actions.iter().filter(|one| one != &missing).copied().collect();
        stage.entra.permit(OPERATOR, &rest)?;
        let error = stage.fails("apply", &["web"]).await?;
        ensure!(error.contains(&format!("grant {missing}")), "{error}");
    }
    stage.entra.permit(OPERATOR, &actions)?;
    stage.apply(&["web"]).await?;
    let page = include_str!("../../../docs/trust/azure.md");
    for action in actions {
        ensure!(page.contains(action), "docs/trust/azure.md does not name {action}");
    }
    Ok(())
}

#[tokio::test]
async fn other_writers_are_borne_with() -> Result<()> {
    let stage = Stage::managed().await?;
    stage.entra.throttle(0);
    stage.entra.somebody_else_writes();
    stage.apply(&["web"]).await?;
    let statuses: Vec<u16> = stage
        .entra
        .records()
        .into_iter()
        .filter(|one| one.method == Method::PUT)
        .map(|one| one.status)
        .collect();
    assert_eq!(statuses, [429, 409, 201]);
    // One after the other, or the directory would have refused.
    let many: Vec<String> = (0..6).map(|number| format!("job-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    stage.apply(&many).await?;
    assert_eq!(stage.subjects()?.len(), 7);
    assert_eq!(stage.writes(), 3 + 6);
    Ok(())
}

#[tokio::test]
async fn the_limit_blocks_before_anything_is_written() -> Result<()> {
    let stage = Stage::managed().await?;
    for number in 0..19 {
        stage.entra.register(APP, credential(&format!("theirs-{number}"), &number.to_string(), "theirs"))?;
    }
    let error = stage.fails("apply", &["web", "job"]).await?;
    for words in ["19 federated identity credentials", "2 more", "several identities"] {
        ensure!(error.contains(words), "{error}");
    }
    assert_eq!(stage.writes(), 0);
    // The list comes in three pages; what is on the last one counts too.
    stage.apply(&["web"]).await?;
    assert_eq!(stage.subjects()?.len(), 20);
    Ok(())
}

#[tokio::test]
async fn what_somebody_else_registered_stays_and_drift_of_ours_is_mended() -> Result<()> {
    for stage in [Stage::managed().await?, Stage::application().await?] {
        let theirs = credential("by-hand", "system:serviceaccount:ns:web", AUDIENCE);
        stage.entra.register(APP, theirs.clone())?;
        let plan = stage.plan(&["web"], false).await?;
        ensure!(plan.to_string().contains("by-hand, which is not ours"), "{plan}");
        stage.entra.register(APP, credential("wrong-audience", "system:serviceaccount:ns:job", "other"))?;
        let error = stage.fails("apply", &["job"]).await?;
        ensure!(error.contains("wrong-audience") && error.contains("only once"), "{error}");
        assert_eq!(stage.writes(), 0);

        // Ours, for another audience: corrected in place.
        stage.apply(&["cron"]).await?;
        let ours = stage.entra.credentials(APP)?.pop().context("nothing was registered")?;
        stage.trust_for("api://other", "apply", &["cron"]).await?.success()?;
        let mended = Credential { audience: "api://other".to_owned(), ..ours };
        let all = stage.entra.credentials(APP)?;
        ensure!(all.contains(&mended) && all.contains(&theirs) && all.len() == 3, "{all:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_nobody_trusts_is_refused_in_words() -> Result<()> {
    let stage = Stage::managed().await?;
    let stranger = TokenSigner::generate()?.sign(&claims("chancery", "operator"))?;
    stage.dir.write("token", stranger)?;
    let error = stage.fails("plan", &["web"]).await?;
    ensure!(error.contains("no token") && error.contains("not published"), "{error}");
    Ok(())
}
