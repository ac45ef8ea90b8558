//! Names of roles and sessions.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::error::ExchangeError;

/// The longest name of a session.
const LONGEST_SESSION: usize = 64;
/// How much of it is a digest where a name was longer.
const DIGEST: usize = 8;

/// The ARN of an IAM role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleArn(String);

impl RoleArn {
    /// A role of a server that is not AWS's own, which may have a partition of its own and no account:
    /// `arn:minio:iam:::role/NAME`.
    ///
    /// # Errors
    /// When it is no ARN of a role.
    pub fn of_server(text: &str) -> Result<Self, ExchangeError> {
        match text.split(':').collect::<Vec<_>>().as_slice() {
            ["arn", partition, "iam", "", "", resource] if is_name(partition) && is_role(resource) => {
                Ok(Self(text.to_owned()))
            }
            _ => text.parse(),
        }
    }

    /// The ARN as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The account.
    pub fn account(&self) -> &str {
        self.0.split(':').nth(4).unwrap_or_default()
    }

    /// The partition: `aws`, `aws-cn`, `aws-us-gov`.
    pub fn partition(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }

    /// The name, without its path.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// `role/PATH/NAME`.
fn is_role(resource: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@-_/".contains(&byte);
    let role = resource.strip_prefix("role/").unwrap_or_default();
    let name = role.rsplit('/').next().unwrap_or_default();
    role.bytes().all(legal) && (1..=64).contains(&name.len())
}

impl FromStr for RoleArn {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split(':').collect();
        let fits = match parts.as_slice() {
            ["arn", partition, "iam", "", account, resource] => {
                (*partition == "aws" || partition.starts_with("aws-"))
                    && is_name(partition)
                    && account.len() == 12
                    && account.bytes().all(|byte| byte.is_ascii_digit())
                    && is_role(resource)
            }
            _ => false,
        };
        if fits && (20..=2048).contains(&text.len()) {
            return Ok(Self(text.to_owned()));
        }
        Err(ExchangeError::configuration("aws-role-arn")
            .came(&format!("{text:?} is not the ARN of a role"))
            .expected("arn:aws:iam::123456789012:role/NAME, with a partition such as aws-cn and a path if it has them")
            .remedy("copy the ARN from `aws iam get-role --role-name NAME --query Role.Arn`"))
    }
}

/// What CloudTrail calls a session: 2 to 64 characters of `A-Za-z0-9_+=,.@-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName(String);

impl SessionName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name made of any text: other characters become `-`, and what is too long ends in a digest of the whole, so
    /// that two long names stay two.
    pub fn of(text: &str) -> Self {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
        let mut name: String = text.chars().map(|c| if legal(c) { c } else { '-' }).collect();
        if name.len() > LONGEST_SESSION || name != text || name.len() < 2 {
            name.truncate(LONGEST_SESSION - 2 * DIGEST - 1);
            name.push('-');
            let digest = Sha256::digest(text.as_bytes());
            digest.iter().take(DIGEST).for_each(|byte| name.push_str(&format!("{byte:02x}")));
        }
        Self(name)
    }

    /// The name of a ServiceAccount's session.
    pub fn of_service_account(namespace: &str, name: &str) -> Self {
        // A dot stands in names of ServiceAccounts, and in none of namespaces.
        Self::of(&format!("{namespace}.{name}"))
    }
}

impl FromStr for SessionName {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let made = Self::of(text);
        if made.0 == text {
            return Ok(made);
        }
        Err(ExchangeError::configuration("aws-session-name")
            .came(&format!("{text:?} is no name of a session"))
            .expected("2 to 64 letters, digits and _+=,.@-")
            .remedy("shorten it, or leave it out"))
    }
}

impl fmt::Display for RoleArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r0_21_role_arns_are_checked_before_any_network() {
        for arn in [
            "arn:aws:iam::123456789012:role/a",
            "arn:aws-cn:iam::123456789012:role/path/to/name",
            "arn:aws-us-gov:iam::123456789012:role/A_b+=,.@-c",
        ] {
            let role: RoleArn = arn.parse().unwrap();
            assert_eq!((role.as_str(), role.account()), (arn, "123456789012"));
        }
        for arn in [
            "",
            "arn:aws:iam::12345678901:role/a",
            "arn:aws:iam::123456789012:user/a",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::123456789012:role/a\n",
            "arn:aws:iam::123456789012:role/a b",
            "arn:evil:iam::123456789012:role/a",
            "xarn:aws:iam::123456789012:role/a",
            "arn:aws:iam::123456789012:role/a:b",
        ] {
            let error = arn.parse::<RoleArn>().unwrap_err();
            assert_eq!(error.code(), "aws-role-arn", "{arn}");
            assert!(error.to_string().contains("arn:aws:iam::123456789012:role/NAME"), "{error}");
        }
    }

    #[test]
    fn servers_of_their_own_have_roles_of_their_own() {
        for arn in ["arn:minio:iam:::role/dashboards", "arn:aws:iam::123456789012:role/a"] {
            assert_eq!(RoleArn::of_server(arn).unwrap().as_str(), arn);
        }
        assert!("arn:minio:iam:::role/dashboards".parse::<RoleArn>().is_err(), "that is none of AWS");
        for arn in ["", "arn:minio:iam:::role/", "arn:MINIO:iam:::role/a", "arn:minio:s3:::role/a"] {
            assert!(RoleArn::of_server(arn).is_err(), "{arn}");
        }
    }

    #[test]
    fn session_names_fit_and_stay_apart() {
        assert_eq!(SessionName::of_service_account("team-a", "app").as_str(), "team-a.app");
        let long = SessionName::of(&"x".repeat(65));
        let longer = SessionName::of(&"x".repeat(66));
        assert_eq!((long.as_str().len(), longer.as_str().len()), (64, 64));
        assert_ne!(long, longer);
        assert_ne!(SessionName::of("a/b"), SessionName::of("a-b"));
        assert!(SessionName::of("").as_str().len() > 2);
        assert!("a".repeat(65).parse::<SessionName>().is_err() && "a".parse::<SessionName>().is_err());
        assert!("a:b".parse::<SessionName>().is_err() && "ab".parse::<SessionName>().is_ok());
    }
}
