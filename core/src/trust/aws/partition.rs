//! The separate AWS clouds, each with an IAM of its own.
//!
//! Source: <https://docs.aws.amazon.com/general/latest/gr/iam-service.html>.

use std::fmt;

/// A cloud of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partition {
    /// The commercial regions.
    Aws,
    /// GovCloud (US).
    UsGov,
    /// China.
    China,
    /// The European Sovereign Cloud.
    EuropeanSovereign,
}

impl Partition {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Aws, Self::UsGov, Self::China, Self::EuropeanSovereign];

    /// The partition of a region, by its prefix.
    pub fn of_region(region: &str) -> Self {
        match region.split('-').collect::<Vec<_>>().as_slice() {
            ["us", "gov", ..] => Self::UsGov,
            ["cn", ..] => Self::China,
            ["eusc", ..] => Self::EuropeanSovereign,
            _ => Self::Aws,
        }
    }

    /// The partition of an ARN, by its second part; `None` for one that is not known here.
    pub fn of_arn(arn: &str) -> Option<Self> {
        let name = arn.split(':').nth(1)?;
        Self::ALL.into_iter().find(|partition| partition.as_str() == name)
    }

    /// As ARNs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::UsGov => "aws-us-gov",
            Self::China => "aws-cn",
            Self::EuropeanSovereign => "aws-eusc",
        }
    }

    /// Where IAM answers.
    pub const fn iam_endpoint(self) -> &'static str {
        match self {
            Self::Aws => "https://iam.amazonaws.com/",
            Self::UsGov => "https://iam.us-gov.amazonaws.com/",
            Self::China => "https://iam.cn-north-1.amazonaws.com.cn/",
            Self::EuropeanSovereign => "https://iam.eusc-de-east-1.amazonaws.eu/",
        }
    }

    /// The region that requests to IAM, which has none, are signed for.
    pub const fn iam_region(self) -> &'static str {
        match self {
            Self::Aws => "us-east-1",
            Self::UsGov => "us-gov-west-1",
            Self::China => "cn-north-1",
            Self::EuropeanSovereign => "eusc-de-east-1",
        }
    }

    /// What the host names of its services end with.
    pub const fn domain(self) -> &'static str {
        match self {
            Self::Aws | Self::UsGov => "amazonaws.com",
            Self::China => "amazonaws.com.cn",
            Self::EuropeanSovereign => "amazonaws.eu",
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
