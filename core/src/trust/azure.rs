//! Federated identity credentials of Microsoft Entra: one for each ServiceAccount that an identity trusts.
//!
//! A credential names one issuer, one subject and one audience, each matched exactly; an identity has at most
//! [`LIMIT`] of them, and the pair of issuer and subject stands once in it
//! (<https://learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations>). They carry no tags: what
//! is ours is told by its name, which begins with a digest of the issuer, and on an application by its description too.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Body, Call, TrustBlocked, TrustPlan};
use crate::IssuerUrl;

mod cloud;
mod identity;

pub use cloud::Cloud;
pub use identity::{Identity, IdentityError};

/// How many federated identity credentials an identity may have.
pub const LIMIT: usize = 20;
/// How long an issuer or a subject may be, in characters.
const LONGEST: usize = 600;

/// What an identity is to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Equal to `iss`, byte for byte.
    pub issuer: IssuerUrl,
    /// Equal to `sub`: `system:serviceaccount:NAMESPACE:NAME`.
    pub subjects: Vec<String>,
    /// The one audience; [`Cloud::audience`] as a rule.
    pub audience: String,
    /// Whose credentials they become.
    pub identity: Identity,
    /// Azure Resource Manager or Microsoft Graph, `https://HOST`.
    pub endpoint: String,
}

/// A federated identity credential as it is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Its name, which never changes.
    pub name: String,
    /// `iss`.
    pub issuer: String,
    /// `sub`; empty where an expression stands instead.
    pub subject: String,
    /// `aud`.
    pub audiences: Vec<String>,
    /// What an application's credential says of itself.
    pub description: Option<String>,
}

/// Decides what to call so that the identity trusts what is wanted. Nothing is removed.
///
/// # Errors
/// When something that is wanted cannot be registered, or what is there is somebody else's.
pub fn plan(wanted: &Wanted, observed: &[Registered]) -> Result<TrustPlan, TrustBlocked> {
    check(wanted)?;
    let mut plan = TrustPlan::default();
    let mut created = 0;
    for subject in distinct(&wanted.subjects) {
        let there =
            observed.iter().find(|there| there.issuer == wanted.issuer.as_str() && there.subject == subject);
        let name = name(&wanted.issuer, subject);
        let named = observed.iter().find(|there| there.name.eq_ignore_ascii_case(&name));
        match there.or(named) {
            None => {
                created += 1;
                plan.calls.push(wanted.create(subject, &name));
            }
            Some(there) if there.says(wanted, subject) => {
                if !wanted.owns(there) {
                    plan.notes
                        .push(format!("{subject} is trusted by {}, which is not ours and stays", there.name));
                }
            }
            Some(there) if wanted.owns(there) => plan.calls.push(wanted.update(subject, there)),
            Some(there) => return Err(wanted.foreign(subject, there)),
        }
    }
    within_limit(wanted, observed, created)?;
    plan.notes.extend(wanted.notes(observed));
    if !plan.calls.is_empty() {
        plan.notes.push(
            "Entra takes seconds to minutes to see a change; until then an exchange fails with AADSTS70021 or AADSTS700211".to_owned(),
        );
    }
    Ok(plan)
}

/// What every name of ours for this issuer begins with.
pub fn name_prefix(issuer: &IssuerUrl) -> String {
    format!("chancery-{}-", digest(issuer.as_str()))
}

/// 3 to 120 letters, digits and hyphens: the issuer's digest, what a person recognises of the subject, its digest.
fn name(issuer: &IssuerUrl, subject: &str) -> String {
    let readable = subject.strip_prefix("system:serviceaccount:").unwrap_or(subject);
    let readable: String =
        readable.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{}{readable}-{}", name_prefix(issuer), digest(subject))
}

/// 48 bits, which is plenty for the few names of one identity.
fn digest(text: &str) -> String {
    Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn distinct(subjects: &[String]) -> impl Iterator<Item = &str> {
    let first =
        |(index, subject): &(usize, &String)| !subjects.iter().take(*index).any(|other| other == *subject);
    subjects.iter().enumerate().filter(first).map(|(_, subject)| subject.as_str())
}

fn check(wanted: &Wanted) -> Result<(), TrustBlocked> {
    let blocked = |what: String, remedy: &str| Err(TrustBlocked { what, remedy: remedy.to_owned() });
    if wanted.issuer.as_str().chars().count() > LONGEST {
        let what = format!("the issuer URL has more than {LONGEST} characters");
        return blocked(what, "Entra takes no longer one: publish under a shorter path");
    }
    if wanted.subjects.is_empty() {
        return blocked("no subject is given".to_owned(), "name a ServiceAccount");
    }
    for subject in &wanted.subjects {
        let legal = !subject.is_empty() && subject.chars().count() <= LONGEST;
        if !legal || subject.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*') {
            let remedy = "Entra compares subjects exactly and knows no wildcards: expected 1 to 600 characters without spaces and `*`";
            return blocked(format!("the subject {subject:?} cannot be registered"), remedy);
        }
    }
    Ok(())
}

fn within_limit(wanted: &Wanted, observed: &[Registered], created: usize) -> Result<(), TrustBlocked> {
    let total = observed.len() + created;
    if created == 0 || total <= LIMIT {
        return Ok(());
    }
    let idle: Vec<&str> = wanted.idle(observed).map(|there| there.name.as_str()).collect();
    let remedy = match idle.is_empty() {
        true => "spread the ServiceAccounts over several identities".to_owned(),
        false => format!(
            "remove what nobody needs ({}), or spread the ServiceAccounts over several identities",
            idle.join(", ")
        ),
    };
    Err(TrustBlocked {
        what: format!(
            "{} has {} federated identity credentials and would need {created} more, but {LIMIT} is all it may have; nothing was changed",
            wanted.identity,
            observed.len(),
        ),
        remedy,
    })
}

impl Registered {
    fn says(&self, wanted: &Wanted, subject: &str) -> bool {
        self.issuer == wanted.issuer.as_str()
            && self.subject == subject
            && self.audiences == [wanted.audience.as_str()]
    }
}

impl Wanted {
    /// What an application's credential of ours says of itself.
    fn description(&self) -> String {
        format!("kept by chancery trust azure, {}", name_prefix(&self.issuer))
    }

    fn owns(&self, there: &Registered) -> bool {
        let described = || there.description.as_deref() == Some(&self.description());
        there.name.starts_with(&name_prefix(&self.issuer))
            && (matches!(self.identity, Identity::Managed(_)) || described())
    }

    /// Ours, and no longer asked for.
    fn idle<'a>(&'a self, observed: &'a [Registered]) -> impl Iterator<Item = &'a Registered> {
        observed.iter().filter(|there| self.owns(there) && !self.subjects.contains(&there.subject))
    }

    fn create(&self, subject: &str, name: &str) -> Call {
        let reason = format!("tokens of {subject} are not trusted");
        match self.identity {
            Identity::Managed(_) => {
                Call { reason, ..self.call("PUT", self.url(&format!("/{name}")), self.properties(subject)) }
            }
            Identity::Application(_) => {
                let mut body = self.members(subject);
                if let Some(members) = body.as_object_mut() {
                    members.insert("name".to_owned(), json!(name));
                }
                Call { reason, ..self.call("POST", self.url(""), body) }
            }
        }
    }

    fn update(&self, subject: &str, there: &Registered) -> Call {
        let reason = format!(
            "{} is ours, and trusts {} of {} for {:?} instead of {subject} for {:?}",
            there.name, there.subject, there.issuer, there.audiences, self.audience
        );
        let at = format!("/{}", there.name);
        match self.identity {
            Identity::Managed(_) => {
                Call { reason, ..self.call("PUT", self.url(&at), self.properties(subject)) }
            }
            Identity::Application(_) => {
                Call { reason, ..self.call("PATCH", self.url(&at), self.members(subject)) }
            }
        }
    }

    /// As Azure Resource Manager takes it.
    fn properties(&self, subject: &str) -> Value {
        json!({ "properties": {
            "issuer": self.issuer.as_str(), "subject": subject, "audiences": [self.audience],
        } })
    }

    /// As Microsoft Graph takes it.
    fn members(&self, subject: &str) -> Value {
        json!({
            "issuer": self.issuer.as_str(), "subject": subject, "audiences": [self.audience],
            "description": self.description(),
        })
    }

    /// What lies below the identity's federated credentials.
    fn url(&self, below: &str) -> String {
        self.identity.url(&self.endpoint, below)
    }

    /// A call without its reason.
    fn call(&self, method: &'static str, url: String, body: Value) -> Call {
        Call {
            method,
            url,
            body: Some(Body::Json(body)),
            permission: self.identity.write_permission(),
            reason: String::new(),
        }
    }

    fn foreign(&self, subject: &str, there: &Registered) -> TrustBlocked {
        let what = match there.subject == subject {
            true => format!(
                "{} trusts {subject} already, for {:?} instead of {:?}, and is not ours; issuer and subject may stand together only once in an identity",
                there.name, there.audiences, self.audience
            ),
            false => {
                format!("{} has the name that ours for {subject} would get, and is not ours", there.name)
            }
        };
        TrustBlocked {
            what,
            remedy: "remove it or correct it by hand, if nobody needs it as it is".to_owned(),
        }
    }

    /// What differs and is left alone.
    fn notes(&self, observed: &[Registered]) -> Vec<String> {
        let idle = self.idle(observed).map(|there| {
            format!(
                "{} is ours and trusts {}, which nobody asked for now; it stays",
                there.name, there.subject
            )
        });
        let ours = self.issuer.as_str();
        let alike =
            |issuer: &str| issuer.trim_end_matches('/').eq_ignore_ascii_case(ours.trim_end_matches('/'));
        let near =
            observed.iter().filter(|there| there.issuer != ours && alike(&there.issuer)).map(|there| {
                format!(
                    "{} trusts {}, which is not {ours}: Entra compares byte for byte, so it never matches",
                    there.name, there.issuer
                )
            });
        idle.chain(near).collect()
    }
}

#[cfg(test)]
mod tests;
