//! An IAM OIDC provider, so that AWS STS takes tokens of an issuer.
//!
//! Sources: <https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html> and its
//! neighbours, <https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html>.
//!
//! 1. A provider without our tag [`OWNER_TAG`] is adopted only when we are told to; another owner's never.
//! 2. No thumbprint is sent that the user has not given. One that differs is a note: AWS trusts public roots and
//!    uses thumbprints only where that fails, so that a pinned one breaks at the next change of certificate.
//! 3. A client id is removed only if we added it: tags remember which. They are written before an id is added and
//!    after one is removed, so that a crash in between leaves an id unclaimed at worst.
//! 4. Nothing is called when everything is as it should be.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Body, Call, TrustBlocked, TrustPlan};
use crate::{IssuerUrl, Owner};

mod partition;

pub use partition::Partition;

/// The tag that holds the owner.
pub const OWNER_TAG: &str = "chancery-owner";
/// The tags that hold digests of the client ids that we added; `-1`, `-2` and so on.
const ADDED_TAG: &str = "chancery-audiences";
/// A tag's value has 256 characters at most; a digest takes 10, and a dot between them one.
const DIGESTS_IN_TAG: usize = 23;
/// `MaxClientIds`, and the largest length of a URL and of a client id, in characters.
const MOST_AUDIENCES: usize = 100;
const LONGEST: usize = 255;
/// What STS expects in the audience of a token, as a rule.
pub const USUAL_AUDIENCE: &str = "sts.amazonaws.com";

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose tokens are taken.
    pub issuer: IssuerUrl,
    /// The client ids: audiences, one of which a token must have.
    pub audiences: Vec<String>,
    /// Our mark.
    pub owner: Owner,
    /// SHA-1 digests of certificates in hex, only where the user says so.
    pub thumbprints: Vec<String>,
    /// Whether a provider without an owner may be taken over.
    pub adopt: bool,
}

/// Where the provider lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Which AWS.
    pub partition: Partition,
    /// Twelve digits.
    pub id: String,
}

/// A provider as `GetOpenIDConnectProvider` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    /// `ClientIDList`
    pub audiences: BTreeSet<String>,
    /// `ThumbprintList`
    pub thumbprints: BTreeSet<String>,
    /// `Tags`
    pub tags: BTreeMap<String, String>,
}

/// The ARN of the issuer's provider: host and path without the scheme.
pub fn provider_arn(issuer: &IssuerUrl, account: &Account) -> String {
    let Account { partition, id } = account;
    format!("arn:{partition}:iam::{id}:oidc-provider/{}", without_scheme(issuer))
}

fn without_scheme(issuer: &IssuerUrl) -> &str {
    issuer.as_str().split_once("://").map_or(issuer.as_str(), |(_, rest)| rest)
}

/// The call that reads the provider.
pub fn read_call(issuer: &IssuerUrl, account: &Account, endpoint: &str) -> Call {
    let arn = provider_arn(issuer, account);
    let parameters = vec![("OpenIDConnectProviderArn".to_owned(), arn)];
    call(endpoint, Action::Get, parameters, "to know what is registered".to_owned())
}

/// The call that says who we are. It takes no right.
pub fn identity_call(endpoint: &str) -> Call {
    let form = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
    Call {
        method: "POST",
        url: endpoint.to_owned(),
        body: Some(Body::Form(form.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())),
        permission: "sts:GetCallerIdentity",
        reason: "to know the account".to_owned(),
    }
}

/// Decides what to call at IAM's `endpoint`, by the rules at the head of this module.
///
/// # Errors
/// Says what stands in the way.
pub fn plan(
    wanted: &Wanted,
    account: &Account,
    endpoint: &str,
    observed: Option<&Provider>,
) -> Result<TrustPlan, TrustBlocked> {
    check(wanted)?;
    let audiences: BTreeSet<String> = wanted.audiences.iter().cloned().collect();
    let Some(provider) = observed else {
        check_room("a provider", &Provider::default(), audiences.len())?;
        return Ok(TrustPlan { calls: vec![create(wanted, &audiences, endpoint)], notes: Vec::new() });
    };
    let arn = provider_arn(&wanted.issuer, account);
    let adopts = check_owner(wanted, &arn, provider)?;
    let ours = |id: &&String| claimed(&provider.tags).contains(&digest(id));
    let adds: Vec<&String> = audiences.difference(&provider.audiences).collect();
    let removes: Vec<&String> = provider.audiences.difference(&audiences).filter(ours).collect();
    check_room(&arn, provider, adds.len())?;
    let claims = provider.audiences.iter().filter(ours).chain(adds.iter().copied());
    let before = tags(&wanted.owner, claims.clone(), &provider.tags);
    let after = tags(&wanted.owner, claims.filter(|id| !removes.contains(id)), &before);
    let on = |action, more: Vec<(String, String)>, reason| {
        let mut parameters = vec![("OpenIDConnectProviderArn".to_owned(), arn.clone())];
        parameters.extend(more);
        call(endpoint, action, parameters, reason)
    };
    let id = |id: &str| vec![("ClientID".to_owned(), id.to_owned())];
    let mut calls = Vec::new();
    if before != provider.tags {
        let reason = if adopts { "takes over a provider without an owner" } else { "remembers what we add" };
        calls.push(on(Action::Tag, tag_parameters(&before, &provider.tags), reason.to_owned()));
    }
    calls.extend(adds.iter().map(|it| on(Action::Add, id(it), format!("tokens for {it} are not taken yet"))));
    calls.extend(
        removes
            .iter()
            .map(|it| on(Action::Remove, id(it), format!("we added {it}, and it is not wanted any more"))),
    );
    if after != before {
        calls.push(on(Action::Tag, tag_parameters(&after, &before), "forgets what we removed".to_owned()));
    }
    Ok(TrustPlan { calls, notes: notes(wanted, &audiences, provider) })
}

/// The least policy under which a plan is made and carried out: on this one provider, and nothing else.
pub fn least_policy(issuer: &IssuerUrl, partition: Partition, account: Option<&Account>) -> Value {
    let account = account.cloned().unwrap_or_else(|| Account { partition, id: "ACCOUNT".to_owned() });
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Action": Action::ALL.map(Action::permission),
            "Resource": provider_arn(issuer, &account),
        }],
    })
}

/// The trust policy of a role that one ServiceAccount may assume.
pub fn trust_policy(wanted: &Wanted, account: &Account, namespace: &str, service_account: &str) -> Value {
    let key = |name: &str| format!("{}:{name}", without_scheme(&wanted.issuer));
    let audiences: Value = match wanted.audiences.as_slice() {
        [one] => one.as_str().into(),
        several => several.into(),
    };
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Principal": { "Federated": provider_arn(&wanted.issuer, account) },
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": { "StringEquals": {
                key("aud"): audiences,
                key("sub"): format!("system:serviceaccount:{namespace}:{service_account}"),
            } },
        }],
    })
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Create,
    Tag,
    Add,
    Remove,
}

impl Action {
    const ALL: [Self; 5] = [Self::Get, Self::Create, Self::Tag, Self::Add, Self::Remove];

    const fn permission(self) -> &'static str {
        match self {
            Self::Get => "iam:GetOpenIDConnectProvider",
            Self::Create => "iam:CreateOpenIDConnectProvider",
            Self::Tag => "iam:TagOpenIDConnectProvider",
            Self::Add => "iam:AddClientIDToOpenIDConnectProvider",
            Self::Remove => "iam:RemoveClientIDFromOpenIDConnectProvider",
        }
    }
}

fn call(endpoint: &str, action: Action, parameters: Vec<(String, String)>, reason: String) -> Call {
    let permission = action.permission();
    let name = permission.split_once(':').map_or(permission, |(_, name)| name);
    let mut form =
        vec![("Action".to_owned(), name.to_owned()), ("Version".to_owned(), "2010-05-08".to_owned())];
    form.extend(parameters);
    Call { method: "POST", url: endpoint.to_owned(), body: Some(Body::Form(form)), permission, reason }
}

fn create(wanted: &Wanted, audiences: &BTreeSet<String>, endpoint: &str) -> Call {
    let numbered = |name: &'static str, values: Vec<&String>| {
        let values = values.into_iter().cloned().collect::<Vec<_>>();
        values.into_iter().zip(1..).map(move |(value, n)| (format!("{name}.member.{n}"), value))
    };
    let mut parameters = vec![("Url".to_owned(), wanted.issuer.as_str().to_owned())];
    parameters.extend(numbered("ClientIDList", audiences.iter().collect()));
    parameters.extend(numbered("ThumbprintList", wanted.thumbprints.iter().collect()));
    parameters
        .extend(tag_parameters(&tags(&wanted.owner, audiences.iter(), &BTreeMap::new()), &BTreeMap::new()));
    let reason = "AWS does not know the issuer; the tags take iam:TagOpenIDConnectProvider, too";
    call(endpoint, Action::Create, parameters, reason.to_owned())
}

/// The tags that differ from what is there.
fn tag_parameters(
    tags: &BTreeMap<String, String>,
    there: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let differing = tags.iter().filter(|(key, value)| there.get(*key) != Some(*value));
    let member = |(n, (key, value)): (u32, (&String, &String))| {
        [(format!("Tags.member.{n}.Key"), key.clone()), (format!("Tags.member.{n}.Value"), value.clone())]
    };
    (1..).zip(differing).flat_map(member).collect()
}

/// All tags as they should be: those of others stay.
fn tags<'a>(
    owner: &Owner,
    claims: impl Iterator<Item = &'a String>,
    there: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let digests: Vec<String> = claims.map(|id| digest(id)).collect::<BTreeSet<_>>().into_iter().collect();
    let mut tags = there.clone();
    // A tag that is not needed any more becomes empty, which takes no right to remove tags.
    tags.iter_mut().filter(|(key, _)| key.starts_with(ADDED_TAG)).for_each(|(_, value)| value.clear());
    tags.insert(OWNER_TAG.to_owned(), owner.to_string());
    for (number, digests) in (1..).zip(digests.chunks(DIGESTS_IN_TAG)) {
        tags.insert(format!("{ADDED_TAG}-{number}"), digests.join("."));
    }
    tags
}

fn claimed(tags: &BTreeMap<String, String>) -> BTreeSet<String> {
    let ours = tags.iter().filter(|(key, _)| key.starts_with(ADDED_TAG));
    ours.flat_map(|(_, value)| value.split('.')).map(str::to_owned).collect()
}

/// Sixty bits of the id's SHA-256: a tag's value may not hold every character that an id may.
fn digest(id: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(id)).chars().take(10).collect()
}

fn notes(wanted: &Wanted, audiences: &BTreeSet<String>, provider: &Provider) -> Vec<String> {
    let mut notes = Vec::new();
    let claimed = claimed(&provider.tags);
    let foreign: Vec<&str> = provider
        .audiences
        .difference(audiences)
        .filter(|id| !claimed.contains(&digest(id)))
        .map(String::as_str)
        .collect();
    if !foreign.is_empty() {
        notes.push(format!("the client ids {} were added by somebody else and stay", foreign.join(", ")));
    }
    let ours: BTreeSet<String> = wanted.thumbprints.iter().map(|it| it.to_lowercase()).collect();
    if !ours.is_empty() && ours != provider.thumbprints {
        let theirs: Vec<&str> = provider.thumbprints.iter().map(String::as_str).collect();
        notes.push(format!(
            "the provider's thumbprints are {} and not those given; they stay, since AWS uses them only where a certificate leads to no public root",
            theirs.join(", ")
        ));
    }
    notes
}

fn blocked<T>(what: String, remedy: &str) -> Result<T, TrustBlocked> {
    Err(TrustBlocked { what, remedy: remedy.to_owned() })
}

fn check(wanted: &Wanted) -> Result<(), TrustBlocked> {
    let url = wanted.issuer.as_str();
    if wanted.issuer.port().is_some() {
        return blocked(format!("{url} names a port, which IAM refuses"), "serve the issuer on 443");
    }
    if url.len() > LONGEST {
        let what = format!("the issuer URL has {} characters, and IAM takes {LONGEST}", url.len());
        return blocked(what, "choose a shorter one");
    }
    if wanted.audiences.is_empty() {
        return blocked("no audience is given".to_owned(), "give one, such as sts.amazonaws.com");
    }
    if let Some(id) = wanted.audiences.iter().find(|id| !(1..=LONGEST).contains(&id.chars().count())) {
        let what = format!("the audience {id:?} has {} characters", id.chars().count());
        return blocked(what, "give one of 1 to 255 characters");
    }
    let hex = |print: &&String| print.len() == 40 && print.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(print) = wanted.thumbprints.iter().find(|print| !hex(print)) {
        let remedy = "give the SHA-1 digest of the topmost certificate as 40 hex digits, or better none";
        return blocked(format!("the thumbprint {print:?} is not one"), remedy);
    }
    if wanted.thumbprints.len() > 5 {
        return blocked(
            format!("{} thumbprints are given", wanted.thumbprints.len()),
            "give 5 at most, or none",
        );
    }
    Ok(())
}

/// Whether the provider is to be adopted.
fn check_owner(wanted: &Wanted, arn: &str, provider: &Provider) -> Result<bool, TrustBlocked> {
    match provider.tags.get(OWNER_TAG).map(String::as_str) {
        Some(owner) if owner == wanted.owner.as_str() => Ok(false),
        Some(theirs) => blocked(
            format!("{arn} belongs to {theirs}, and we are {}", wanted.owner),
            "set `--owner` to that if it is the same issuer; otherwise leave it to its owner",
        ),
        None if wanted.adopt => Ok(true),
        None => blocked(
            format!("{arn} is there without an owner (tag {OWNER_TAG})"),
            "say `--adopt` if it is this issuer's",
        ),
    }
}

fn check_room(arn: &str, provider: &Provider, adds: usize) -> Result<(), TrustBlocked> {
    let (there, after) = (provider.audiences.len(), provider.audiences.len() + adds);
    if adds > 0 && after > MOST_AUDIENCES {
        let what =
            format!("{arn} has {there} client ids, {adds} more are wanted, and IAM takes {MOST_AUDIENCES}");
        return blocked(what, "remove some that nobody uses");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
