//! What each account may do is what docs/addon.md says, no more and no less.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::API_AUDIENCE;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Stage;
use crate::helm::NAMESPACE;

const PAGE: &str = "../docs/addon.md";
/// Where rights are looked for.
const NAMESPACES: [&str; 8] =
    ["chancery", "default", "gateway", "keys", "clusters", "canaries", "kube-system", "kube-public"];

/// One right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    account: String,
    namespace: String,
    /// With its group, as `leases.coordination.k8s.io`.
    resource: String,
    /// Empty for all of them.
    name: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, namespace, resource, name, verb } = self;
        write!(f, "{account}: {verb} {resource} {name:?} in {namespace}")
    }
}

/// The values that the table of the page is about.
pub fn values_of_the_page() -> Result<Value> {
    let page = std::fs::read_to_string(PAGE)?;
    let block = page.split_once("```yaml\n# rights.yaml\n").context("no rights.yaml on the page")?.1;
    let block = block.split_once("\n```").context("a block without an end")?.0;
    Ok(serde_saphyr::from_str(block)?)
}

/// The table of the page.
fn documented() -> Result<BTreeSet<Right>> {
    let page = std::fs::read_to_string(PAGE)?;
    let table = page.split_once("| account | namespace |").context("no table of rights")?.1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut rights = BTreeSet::new();
    for row in rows {
        let cells: Vec<String> =
            row.trim_matches('|').split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect();
        let [account, namespaces, resource, names, verbs, _] = cells.as_slice() else {
            anyhow::bail!("a row of another form: {row}");
        };
        let namespaces = if namespaces == "every" { NAMESPACES.join(", ") } else { namespaces.clone() };
        for namespace in namespaces.split(", ") {
            for name in names.split(", ") {
                for verb in verbs.split(", ") {
                    rights.insert(Right {
                        account: account.clone(),
                        namespace: namespace.to_owned(),
                        resource: resource.clone(),
                        name: if name == "any" { String::new() } else { name.to_owned() },
                        verb: verb.to_owned(),
                    });
                }
            }
        }
    }
    Ok(rights)
}

/// What the API server says that an account may do in one namespace.
async fn granted(stage: &Stage, account: &str, namespace: &str) -> Result<BTreeSet<Right>> {
    let token = stage.server.token_request((NAMESPACE, account), API_AUDIENCE, 3600).await?;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (status, answer) =
        stage.server.post(path, &token, &json!({ "spec": { "namespace": namespace } })).await?;
    ensure!(status == StatusCode::CREATED && answer["status"]["incomplete"] == false, "{status}: {answer}");
    let list = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in answer["status"]["resourceRules"].as_array().into_iter().flatten() {
        let mut names = list(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        let (groups, resources, verbs) =
            (list(&rule["apiGroups"]), list(&rule["resources"]), list(&rule["verbs"]));
        for (group, resource) in pairs(&groups, &resources) {
            let resource = if group.is_empty() { resource } else { format!("{resource}.{group}") };
            rights.extend(pairs(&names, &verbs).map(|(name, verb)| Right {
                account: account.to_owned(),
                namespace: namespace.to_owned(),
                resource: resource.clone(),
                name,
                verb,
            }));
        }
    }
    Ok(rights)
}

fn pairs<'a>(left: &'a [String], right: &'a [String]) -> impl Iterator<Item = (String, String)> + 'a {
    left.iter().flat_map(move |one| right.iter().map(move |other| (one.clone(), other.clone())))
}

/// Both accounts, everywhere, less what any account may do.
pub async fn are_the_documented_ones(stage: &Stage) -> Result<()> {
    let documented = documented()?;
    ensure!(documented.len() > 20, "{documented:?}");
    stage.server.create_service_account(NAMESPACE, "nobody").await?;
    let mut found = BTreeSet::new();
    for namespace in NAMESPACES {
        let nobody = granted(stage, "nobody", namespace).await?;
        for account in ["chancery-issuer", "chancery-webhook"] {
            let all = granted(stage, account, namespace).await?;
            let own = all.into_iter().filter(|right| {
                let common = Right { account: "nobody".to_owned(), ..right.clone() };
                !nobody.contains(&common)
            });
            found.extend(own);
        }
    }
    let too_many: Vec<String> = found.difference(&documented).map(ToString::to_string).collect();
    let missing: Vec<String> = documented.difference(&found).map(ToString::to_string).collect();
    ensure!(
        too_many.is_empty() && missing.is_empty(),
        "not on the page: {too_many:#?}\nnot granted: {missing:#?}"
    );
    Ok(())
}
