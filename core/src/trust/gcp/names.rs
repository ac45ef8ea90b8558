//! The names of Google's resources, and the mark in their descriptions.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::Owner;

/// What stands before the owner in a description.
const MARK: &str = "chancery-owner=";

/// A project: its id (6 to 30 lower-case letters, digits and hyphens, perhaps below a domain) or its number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Project(String);

/// The id of a pool or a provider: 4 to 32 lower-case letters, digits and hyphens, not beginning with `gcp-`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ResourceId(String);

/// A name that Google would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{came:?} is no {kind}; expected {expected}")]
pub struct NameError {
    came: String,
    kind: &'static str,
    expected: &'static str,
}

impl FromStr for Project {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Old projects of an organisation are called `example.com:name`.
        let (domain, id) = text.split_once(':').unwrap_or(("example.com", text));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
        let named = (4..=30).contains(&id.len()) && id.starts_with(|c: char| c.is_ascii_lowercase());
        let domain_fits = !domain.is_empty() && domain.chars().all(|c| plain(c) || c == '.');
        if domain_fits && (number || (named && id.chars().all(plain))) {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError { came: text.to_owned(), kind: "project", expected: "a project's id or number" })
    }
}

impl FromStr for ResourceId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if (4..=32).contains(&text.len()) && text.chars().all(plain) && !text.starts_with("gcp-") {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError {
            came: text.to_owned(),
            kind: "id of a pool or provider",
            expected: "4 to 32 lower-case letters, digits and hyphens that do not begin with `gcp-`",
        })
    }
}

impl TryFrom<String> for Project {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<String> for ResourceId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl ResourceId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `projects/P/locations/global/workloadIdentityPools`
pub fn pools(project: &Project) -> String {
    format!("projects/{project}/locations/global/workloadIdentityPools")
}

/// The full name of a pool.
pub fn pool(project: &Project, pool: &ResourceId) -> String {
    format!("{}/{pool}", pools(project))
}

/// The full name of a provider.
pub fn provider(project: &Project, pool: &ResourceId, provider: &ResourceId) -> String {
    format!("{}/providers/{provider}", self::pool(project, pool))
}

/// A description with the owner's mark; at most 256 characters, as Google wants it.
pub fn description(owner: &Owner) -> String {
    format!("Kept by Chancery. {MARK}{owner}")
}

/// Whose mark a description carries.
pub fn owner_in(description: &str) -> Option<Owner> {
    description.split_whitespace().find_map(|word| word.strip_prefix(MARK)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_google_would_refuse_are_refused() {
        for id in ["abcd", "clusters", "a-1-b", &"a".repeat(32)] {
            assert_eq!(id.parse::<ResourceId>().unwrap().as_str(), id);
        }
        for id in ["", "abc", &"a".repeat(33), "gcp-clusters", "Clusters", "a_bcd", "a/bcd", "a bcd", "a%bcd"]
        {
            let error = id.parse::<ResourceId>().unwrap_err().to_string();
            assert!(error.contains("4 to 32"), "{error}");
        }
        for project in ["my-project", "123456789012", "example.com:my-project"] {
            assert_eq!(project.parse::<Project>().unwrap().to_string(), project);
        }
        for project in
            ["", "a/b-project", "My-project", "my project", "-project", ":project", "a..b/c:project"]
        {
            assert!(project.parse::<Project>().is_err(), "{project}");
        }
    }

    #[test]
    fn the_mark_comes_back_from_a_description_that_fits() {
        for owner in ["chancery-Zqzzb_h4qGetiZNhWKChbe", &"x".repeat(128)] {
            let owner: Owner = owner.parse().unwrap();
            let text = description(&owner);
            assert!(text.len() <= 256);
            assert_eq!(owner_in(&text), Some(owner));
        }
        assert_eq!(owner_in("Terraform keeps this"), None);
        assert_eq!(owner_in(""), None);
    }
}
