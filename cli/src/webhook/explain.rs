//! `chancery webhook explain`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use chancery_core::quoted::escaped;
use chancery_webhook::explain::explain;
use chancery_webhook::patch::patch;
use chancery_webhook::{Account, Pod, decide};
use serde_json::{Value, json};

use super::manifest::read;
use crate::exit::unless_found;
use crate::output;

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when the pod would be let in without a warning, 3 when it would be refused or something looks wrong, 1 on input that cannot be read."
)]
pub struct Args {
    /// A pod, or a workload with a pod template such as a Deployment, in YAML or JSON
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pod: PathBuf,
    /// Its ServiceAccount; one without annotations if nothing is given
    #[arg(long, value_name = "FILE")]
    service_account: Option<PathBuf>,
    /// Its namespace, if the files say none
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The webhook's configuration, of which only the clouds are read; the usual one if nothing is given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document with the patch
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let object = read(&args.pod)?;
    let pod = pod_of(object).with_context(|| escaped(args.pod.display()).to_string())?;
    let account = match &args.service_account {
        Some(path) => {
            Some(checked_account(read(path)?).with_context(|| escaped(path.display()).to_string())?)
        }
        None => None,
    };
    let settings = super::settings::read(args.config.as_deref())?;
    let of_account = account.as_ref().and_then(|account| account.pointer("/metadata/namespace")?.as_str());
    let pod = Pod(&pod);
    let namespace = args.namespace.as_deref().or(pod.namespace()).or(of_account).unwrap_or("default");
    let decision = decide(&settings, pod, (namespace, &Account::Found(annotations(account.as_ref()))))?;
    if args.json {
        let refusals: Vec<String> = decision.refusals.iter().map(ToString::to_string).collect();
        let patch = patch(pod, &decision.plan);
        let document = json!({ "refusals": refusals, "warnings": decision.warnings, "patch": patch });
        output::say(&format!("{document:#}\n"))?;
    } else {
        output::say(&explain(pod, namespace, &decision))?;
    }
    Ok(unless_found(decision.refusals.is_empty() && decision.warnings.is_empty()))
}

/// The pod of a manifest: itself, or as its controller would make it.
fn pod_of(object: Value) -> anyhow::Result<Value> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let template = match kind.as_str() {
        "Pod" => return Ok(object),
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => "/spec/template",
    };
    let Some(template) = object.pointer(template) else {
        bail!(
            "its kind is {kind:?} and it has no pod template; expected a Pod, or a workload such as a Deployment. Give a single document"
        );
    };
    let mut pod = template.clone();
    let named = |field: &str| object.pointer(&format!("/metadata/{field}")).cloned();
    if pod.get("metadata").is_none_or(Value::is_null)
        && let Some(pod) = pod.as_object_mut()
    {
        pod.insert("metadata".to_owned(), json!({}));
    }
    if let Some(metadata) = pod.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        let prefix = named("name").and_then(|name| name.as_str().map(|name| format!("{name}-")));
        metadata.extend(prefix.map(|prefix| ("generateName".to_owned(), prefix.into())));
        metadata.extend(named("namespace").map(|namespace| ("namespace".to_owned(), namespace)));
    }
    Ok(pod)
}

fn checked_account(object: Value) -> anyhow::Result<Value> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != "ServiceAccount" {
        bail!("its kind is {kind:?}; expected a ServiceAccount in a single document");
    }
    Ok(object)
}

fn annotations(account: Option<&Value>) -> BTreeMap<String, String> {
    let annotations = account.and_then(|account| account.pointer("/metadata/annotations")?.as_object());
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    annotations.into_iter().flatten().filter_map(text).collect()
}
