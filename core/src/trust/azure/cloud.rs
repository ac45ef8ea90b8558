//! The clouds of Microsoft, which share nothing but their protocols.

use std::fmt;
use std::str::FromStr;

/// A national cloud.
///
/// Source: <https://learn.microsoft.com/entra/identity-platform/authentication-national-cloud> and
/// <https://learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations>.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cloud {
    /// Everywhere else.
    #[default]
    Public,
    /// The United States' government.
    UsGovernment,
    /// China, operated by 21Vianet.
    China,
}

impl Cloud {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Public, Self::UsGovernment, Self::China];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::UsGovernment => "us-government",
            Self::China => "china",
        }
    }

    /// Azure Resource Manager.
    pub const fn management(self) -> &'static str {
        match self {
            Self::Public => "https://management.azure.com",
            Self::UsGovernment => "https://management.usgovcloudapi.net",
            Self::China => "https://management.chinacloudapi.cn",
        }
    }

    /// Microsoft Graph.
    pub const fn graph(self) -> &'static str {
        match self {
            Self::Public => "https://graph.microsoft.com",
            Self::UsGovernment => "https://graph.microsoft.us",
            Self::China => "https://microsoftgraph.chinacloudapi.cn",
        }
    }

    /// Where tokens are given out.
    pub const fn authority(self) -> &'static str {
        match self {
            Self::Public => "https://login.microsoftonline.com",
            Self::UsGovernment => "https://login.microsoftonline.us",
            Self::China => "https://login.chinacloudapi.cn",
        }
    }

    /// What a ServiceAccount token must have as its audience.
    pub const fn audience(self) -> &'static str {
        match self {
            Self::Public => "api://AzureADTokenExchange",
            Self::UsGovernment => "api://AzureADTokenExchangeUSGov",
            Self::China => "api://AzureADTokenExchangeChina",
        }
    }
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Cloud {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|cloud| cloud.as_str() == text);
        found.ok_or_else(|| {
            format!("{text:?} is no cloud; expected {}", Self::ALL.map(Self::as_str).join(", "))
        })
    }
}
