//! Somebody else changes a target behind our back: it is noticed within a period, said as condition, Event and metric,
//! and repaired where the target is ours and nowhere else.

mod bucket;
mod directory;
mod report;

use std::path::Path;

use anyhow::{Context, Result};
use e2e::chancery::{self, IssuerService};
use e2e::key_file::KeyFile;
use e2e::site::Site;
use e2e::wait;
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const JWKS: &str = "openid/v1/jwks";

/// A site that looks each second.
pub(super) fn quick(site: &mut Site) -> Result<()> {
    let verify = site.config.pointer_mut("/issuers/0/verify").and_then(Value::as_object_mut);
    verify.context("no verify")?.insert("every".to_owned(), json!("1s"));
    Ok(())
}

async fn waits_for_drift(
    site: &Site,
    (target, kind): (&str, &str),
    at_least: f64,
    log: &IssuerService,
) -> Result<()> {
    let url = site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("target", target), ("kind", kind)];
    let what = format!("drift {kind}");
    let waited = wait::until(&what, async || {
        Ok(site.metric("chancery_drift_total", &labels).await?.is_some_and(|drift| drift >= at_least))
    });
    waited.await.with_context(|| log.log())
}

/// The JWKS of keys as a file of ours would be.
async fn jwks_of(keys: &[&KeyFile]) -> Result<Vec<u8>> {
    let mut arguments: Vec<&Path> = ["keygen", "jwks", "--key"].map(Path::new).into();
    arguments.extend(keys.iter().map(|key| key.public.as_path()));
    Ok(chancery::run(&arguments).await?.success()?.into_bytes())
}
