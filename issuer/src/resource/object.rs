//! An `Issuer` as the API server has it. Its spec is read later: an object whose spec has another form than is expected
//! must not keep the others from being listed.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const GROUP: &str = "chancery.dev";
const VERSION: &str = "v1alpha1";
const KIND: &str = "Issuer";

/// An `Issuer` of `chancery.dev/v1alpha1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuerObject {
    #[serde(default = "api_version")]
    api_version: String,
    #[serde(default = "kind")]
    kind: String,
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

impl IssuerObject {
    /// Which spec it has: another number for every change of it.
    pub fn generation(&self) -> u64 {
        self.metadata.generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or_default()
    }
}

impl Resource for IssuerObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "issuers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

fn kind() -> String {
    KIND.to_owned()
}
