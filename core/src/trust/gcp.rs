//! Google Cloud: a workload identity pool and, in it, an OIDC provider that trusts the issuer.
//!
//! Resources and their limits: <https://docs.cloud.google.com/iam/docs/reference/rest/v1/projects.locations.workloadIdentityPools.providers>.
//! They have no labels: whose a resource is stands in its description ([`names::description`]).
//!
//! 1. A missing pool or provider is made. A pool that is there is used as it is, whoever made it: many clusters share one.
//! 2. A provider with another owner's mark, or none, is never touched; neither is one that trusts another issuer.
//! 3. What is deleted lies there for 30 days and keeps its id. Bringing it back is for a person to decide.
//! 4. Nothing that a token may rely on is taken away: audiences and attributes that are there stay.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use self::names::{Project, ResourceId, description, owner_in};
use super::{Body, Call, TrustBlocked, TrustPlan};
use crate::upload::{self, DesiredUpload};
use crate::{IssuerUrl, Jwks, Owner, Withdrawals};

pub mod names;
pub mod uploaded;

/// Google's own address of the API.
pub const ENDPOINT: &str = "https://iam.googleapis.com";
/// How many audiences a provider has at most.
pub const MOST_AUDIENCES: usize = 10;
/// How long an audience may be, in characters.
pub const LONGEST_AUDIENCE: usize = 256;
/// The attribute that IAM bindings name: `system:serviceaccount:NAMESPACE:NAME`.
const SUBJECT: (&str, &str) = ("google.subject", "assertion.sub");

/// What is to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The issuer that is to be trusted.
    pub issuer: IssuerUrl,
    /// Whose the registration is.
    pub owner: Owner,
    /// Where.
    pub project: Project,
    /// The pool.
    pub pool: ResourceId,
    /// The provider in it.
    pub provider: ResourceId,
    /// Audiences that tokens may have; none stands for the provider's own name.
    pub audiences: Vec<String>,
    /// Keys to upload, for an issuer that Google cannot read.
    pub jwks: Option<Jwks>,
}

/// What is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The pool, also a deleted one.
    pub pool: Option<Pool>,
    /// The provider, also a deleted one.
    pub provider: Option<Provider>,
}

/// A pool as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pool {
    /// `ACTIVE` or `DELETED`.
    pub state: String,
    /// Whether no token can be exchanged.
    pub disabled: bool,
    /// Holds the mark.
    pub description: String,
}

/// A provider as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Provider {
    /// `projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER`
    pub name: String,
    /// `ACTIVE` or `DELETED`.
    pub state: String,
    /// Whether no token can be exchanged.
    pub disabled: bool,
    /// Holds the mark.
    pub description: String,
    /// From Google's attributes to expressions over a token's claims.
    pub attribute_mapping: BTreeMap<String, String>,
    /// An expression that a token must fulfil.
    pub attribute_condition: String,
    /// Absent in a provider of another kind (AWS, SAML, X.509).
    pub oidc: Option<Oidc>,
}

/// The part of a provider that is about OIDC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Oidc {
    /// The trusted issuer.
    pub issuer_uri: String,
    /// Audiences that tokens may have.
    pub allowed_audiences: Vec<String>,
    /// The uploaded JWKS; empty where Google reads the issuer.
    pub jwks_json: String,
}

/// Whether a resource is deleted, but its id not yet free again.
fn is_deleted(state: &str) -> bool {
    state == "DELETED"
}

/// The calls that bring a registration to where it should be, made at `endpoint` ([`ENDPOINT`] as a rule).
///
/// # Errors
/// When it must not be touched, or what is wanted breaks a limit of Google's.
pub fn plan(wanted: &Wanted, observed: &Observed, endpoint: &str) -> Result<TrustPlan, TrustBlocked> {
    check_audiences(&wanted.audiences)?;
    let mut plan = TrustPlan::default();
    plan_pool(wanted, observed.pool.as_ref(), endpoint, &mut plan)?;
    plan_provider(wanted, observed.provider.as_ref(), endpoint, &mut plan)?;
    Ok(plan)
}

fn plan_pool(
    wanted: &Wanted,
    pool: Option<&Pool>,
    endpoint: &str,
    plan: &mut TrustPlan,
) -> Result<(), TrustBlocked> {
    let name = names::pool(&wanted.project, &wanted.pool);
    match pool {
        None => {
            let body =
                json!({ "displayName": wanted.pool.as_str(), "description": description(&wanted.owner) });
            plan.calls.push(Call {
                method: "POST",
                url: format!(
                    "{endpoint}/v1/{}?workloadIdentityPoolId={}",
                    names::pools(&wanted.project),
                    wanted.pool
                ),
                body: Some(Body::Json(body)),
                permission: "iam.workloadIdentityPools.create",
                reason: format!("there is no pool {}", wanted.pool),
            });
        }
        Some(pool) if is_deleted(&pool.state) => return Err(deleted("pool", &name)),
        Some(pool) => {
            if pool.disabled {
                plan.notes.push(format!("the pool {} is disabled: it gives no tokens", wanted.pool));
            }
            if owner_in(&pool.description).as_ref() != Some(&wanted.owner) {
                plan.notes.push(format!("the pool {} is not ours and is used as it is", wanted.pool));
            }
        }
    }
    Ok(())
}

fn plan_provider(
    wanted: &Wanted,
    provider: Option<&Provider>,
    endpoint: &str,
    plan: &mut TrustPlan,
) -> Result<(), TrustBlocked> {
    let Some(provider) = provider else {
        plan.calls.push(create(wanted, endpoint)?);
        return Ok(());
    };
    let oidc = touchable(wanted, provider)?;
    let mut change = Change::default();
    audiences(wanted, provider, oidc, &mut change)?;
    attributes(provider, &mut change, plan);
    keys(wanted, oidc, &mut change, plan)?;
    if provider.disabled {
        plan.notes.push(format!("the provider {} is disabled: it gives no tokens", wanted.provider));
    }
    plan.calls.extend(
        change.into_call(&names::provider(&wanted.project, &wanted.pool, &wanted.provider), endpoint),
    );
    Ok(())
}

fn create(wanted: &Wanted, endpoint: &str) -> Result<Call, TrustBlocked> {
    let mut oidc = BTreeMap::from([("issuerUri", json!(wanted.issuer.as_str()))]);
    if !wanted.audiences.is_empty() {
        oidc.insert("allowedAudiences", json!(wanted.audiences));
    }
    if let Some(jwks) = &wanted.jwks {
        oidc.insert("jwksJson", json!(uploaded::json(jwks)?));
    }
    let body = json!({
        "displayName": wanted.provider.as_str(),
        "description": description(&wanted.owner),
        "attributeMapping": { SUBJECT.0: SUBJECT.1 },
        "oidc": oidc,
    });
    let parent = names::pool(&wanted.project, &wanted.pool);
    Ok(Call {
        method: "POST",
        url: format!("{endpoint}/v1/{parent}/providers?workloadIdentityPoolProviderId={}", wanted.provider),
        body: Some(Body::Json(body)),
        permission: "iam.workloadIdentityPoolProviders.create",
        reason: format!("there is no provider {}", wanted.provider),
    })
}

/// The OIDC part of a provider that is ours and trusts this issuer.
fn touchable<'a>(wanted: &Wanted, provider: &'a Provider) -> Result<&'a Oidc, TrustBlocked> {
    let name = names::provider(&wanted.project, &wanted.pool, &wanted.provider);
    if is_deleted(&provider.state) {
        return Err(deleted("provider", &name));
    }
    let Some(oidc) = &provider.oidc else {
        return Err(TrustBlocked {
            what: format!("{name} is a provider of another kind than OIDC"),
            remedy: "give the issuer a provider id of its own".to_owned(),
        });
    };
    match owner_in(&provider.description) {
        Some(owner) if owner == wanted.owner => {}
        Some(owner) => {
            return Err(TrustBlocked {
                what: format!("{name} belongs to {owner}, and we are {}", wanted.owner),
                remedy: format!(
                    "give the issuer a provider id of its own, or set its owner to {owner} if it is the same issuer"
                ),
            });
        }
        None => {
            return Err(TrustBlocked {
                what: format!("{name} carries no mark of ours"),
                remedy: format!(
                    "give the issuer a provider id of its own, or take this one over by setting its description to {:?}",
                    description(&wanted.owner)
                ),
            });
        }
    }
    if oidc.issuer_uri != wanted.issuer.as_str() {
        return Err(TrustBlocked {
            what: format!("{name} trusts {}, and not {}", oidc.issuer_uri, wanted.issuer),
            remedy: "give this issuer a provider id of its own: tokens of the other would be refused at once"
                .to_owned(),
        });
    }
    Ok(oidc)
}

fn deleted(kind: &str, name: &str) -> TrustBlocked {
    let command =
        if kind == "pool" { "workload-identity-pools" } else { "workload-identity-pools providers" };
    TrustBlocked {
        what: format!(
            "the {kind} {name} is deleted, and its id is not free again before 30 days have passed"
        ),
        remedy: format!("choose another id, or bring it back with `gcloud iam {command} undelete {name}`"),
    }
}

/// What is changed of a provider, in one call.
#[derive(Debug, Default)]
struct Change {
    mask: Vec<&'static str>,
    oidc: BTreeMap<&'static str, Value>,
    attribute_mapping: Option<Value>,
    reasons: Vec<String>,
}

impl Change {
    fn into_call(self, name: &str, endpoint: &str) -> Option<Call> {
        let mut body = BTreeMap::new();
        if !self.oidc.is_empty() {
            body.insert("oidc", json!(self.oidc));
        }
        if let Some(mapping) = self.attribute_mapping {
            body.insert("attributeMapping", mapping);
        }
        (!self.mask.is_empty()).then(|| Call {
            method: "PATCH",
            url: format!("{endpoint}/v1/{name}?updateMask={}", self.mask.join(",")),
            body: Some(Body::Json(json!(body))),
            permission: "iam.workloadIdentityPoolProviders.update",
            reason: self.reasons.join("; "),
        })
    }
}

fn audiences(
    wanted: &Wanted,
    provider: &Provider,
    oidc: &Oidc,
    change: &mut Change,
) -> Result<(), TrustBlocked> {
    let there: BTreeSet<&str> = oidc.allowed_audiences.iter().map(String::as_str).collect();
    let missing: Vec<&String> =
        wanted.audiences.iter().filter(|name| !there.contains(name.as_str())).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut all = oidc.allowed_audiences.clone();
    if all.is_empty() && !provider.name.is_empty() {
        // Until now tokens for the provider's own name were taken; they still are.
        all.extend(
            ["//iam.googleapis.com/", "https://iam.googleapis.com/"]
                .map(|host| format!("{host}{}", provider.name)),
        );
    }
    all.extend(
        missing.iter().filter(|name| !all.contains(name)).map(|name| (*name).clone()).collect::<Vec<_>>(),
    );
    if all.len() > MOST_AUDIENCES {
        return Err(TrustBlocked {
            what: format!(
                "with those that are there, it would be {} audiences, and Google takes {MOST_AUDIENCES}: {}",
                all.len(),
                all.join(" ")
            ),
            remedy: "ask for fewer, or remove by hand what no workload asks for any more".to_owned(),
        });
    }
    change.mask.push("oidc.allowedAudiences");
    change.oidc.insert("allowedAudiences", json!(all));
    change.reasons.push(format!("adds the audiences {missing:?}"));
    Ok(())
}

fn attributes(provider: &Provider, change: &mut Change, plan: &mut TrustPlan) {
    match provider.attribute_mapping.get(SUBJECT.0) {
        Some(expression) if expression == SUBJECT.1 => {}
        Some(expression) => plan.notes.push(format!(
            "{} is mapped to {expression:?} and not to {:?}; left alone, since IAM bindings name subjects so",
            SUBJECT.0, SUBJECT.1
        )),
        None => {
            let mut mapping = provider.attribute_mapping.clone();
            mapping.insert(SUBJECT.0.to_owned(), SUBJECT.1.to_owned());
            change.mask.push("attributeMapping");
            change.attribute_mapping = Some(json!(mapping));
            change.reasons.push(format!("maps {}", SUBJECT.0));
        }
    }
    if !provider.attribute_condition.is_empty() {
        plan.notes.push(format!("tokens must also fulfil {:?}", provider.attribute_condition));
    }
}

fn keys(wanted: &Wanted, oidc: &Oidc, change: &mut Change, plan: &mut TrustPlan) -> Result<(), TrustBlocked> {
    let Some(jwks) = &wanted.jwks else {
        if !oidc.jwks_json.is_empty() {
            plan.notes.push("its keys are uploaded: Google does not read the issuer".to_owned());
        }
        return Ok(());
    };
    let held = uploaded::held(oidc, Some(wanted.owner.clone()))?;
    let owner = &wanted.owner;
    let desired = DesiredUpload { jwks, withdrawals: Withdrawals::none(), owner, adopt_unmarked: true };
    let upload = upload::plan(desired, &held).map_err(|blocked| TrustBlocked {
        what: blocked.to_string(),
        remedy: "upload nothing, or look at its keys first".to_owned(),
    })?;
    plan.notes.extend(
        upload.foreign.iter().map(|kid| format!("the key {kid} was uploaded by somebody else and stays")),
    );
    let Some(keys) = upload.upload else { return Ok(()) };
    change.mask.push("oidc.jwksJson");
    change.oidc.insert("jwksJson", json!(uploaded::json(&keys)?));
    let added: Vec<&str> = upload.adds.iter().map(crate::KeyId::as_str).collect();
    let instead = if oidc.jwks_json.is_empty() { ", instead of reading the issuer" } else { "" };
    change.reasons.push(format!("uploads {}{instead}", added.join(" ")));
    Ok(())
}

fn check_audiences(audiences: &[String]) -> Result<(), TrustBlocked> {
    let long = audiences.iter().find(|name| name.chars().count() > LONGEST_AUDIENCE || name.is_empty());
    if let Some(name) = long {
        return Err(TrustBlocked {
            what: format!("the audience {name:?} has {} characters", name.chars().count()),
            remedy: format!("give one of 1 to {LONGEST_AUDIENCE}"),
        });
    }
    let distinct: BTreeSet<&String> = audiences.iter().collect();
    if audiences.len() > MOST_AUDIENCES || distinct.len() < audiences.len() {
        return Err(TrustBlocked {
            what: format!(
                "{} audiences are asked for, {} of them different",
                audiences.len(),
                distinct.len()
            ),
            remedy: format!("give up to {MOST_AUDIENCES}, each once"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
