//! What the operator has decided for every pod of the cluster.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::aws::AwsSettings;
use crate::azure::AzureSettings;
use crate::gcp::GcpSettings;

/// The clouds. Each is on unless it says `enabled: false`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// Amazon Web Services.
    pub aws: AwsSettings,
    /// Microsoft Azure.
    pub azure: AzureSettings,
    /// Google Cloud.
    pub gcp: GcpSettings,
}

/// What is known of a pod's ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// It is there, with these annotations.
    Found(BTreeMap<String, String>),
    /// There is none of its name.
    Missing,
    /// It could not be asked for, and why.
    Unknown(String),
}
