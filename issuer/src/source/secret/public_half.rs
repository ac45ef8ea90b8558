//! A Secret without what may be private.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

/// Whether a field of that name is ever read. By the names that Kubernetes' tools give to public halves; `.pem`
/// is not among them, since it says nothing about which half it is.
pub(super) fn is_public_name(field: &str) -> bool {
    field.ends_with(".crt") || field.ends_with(".pub")
}

/// The name, the version and the public fields of a Secret. Every other value is skipped where it stands in the
/// answer, without being decoded. No form of `data` is an error: the client would log the answer as a whole.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublicHalf {
    #[serde(default, deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "public_fields")]
    data: BTreeMap<String, String>,
}

impl PublicHalf {
    /// A field's value, still in base64.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.data.get(name).map(String::as_str)
    }
}

fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let Identity { name, namespace, uid, resource_version } = Identity::deserialize(deserializer)?;
    Ok(ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() })
}

fn public_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct PublicFields;

    impl<'de> Visitor<'de> for PublicFields {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the data of a Secret")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut data: A) -> Result<Self::Value, A::Error> {
            let mut fields = BTreeMap::new();
            while let Some(name) = data.next_key::<String>()? {
                if !is_public_name(&name) {
                    data.next_value::<IgnoredAny>()?;
                } else if let serde_json::Value::String(value) = data.next_value()? {
                    fields.insert(name, value);
                }
            }
            Ok(fields)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }
    }

    deserializer.deserialize_any(PublicFields)
}

impl Resource for PublicHalf {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Secret::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Secret::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Secret::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Secret::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_private_becomes_a_value() {
        let secret = r#"{
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {
                "name": "prod-sa", "namespace": "clusters", "resourceVersion": "7",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"tls.key\":\"cHJpdmF0ZQ==\"}}" },
                "managedFields": [{ "manager": "cHJpdmF0ZQ==" }]
            },
            "data": { "ca.key": "cHJpdmF0ZQ==", "tls.crt": "cHVibGlj", "tls.key": "cHJpdmF0ZQ==", "x.pem": "cHJpdmF0ZQ==" },
            "stringData": { "tls.key": "cHJpdmF0ZQ==" }
        }"#;
        let secret: PublicHalf = serde_json::from_str(secret).unwrap();
        assert_eq!(secret.field("tls.crt"), Some("cHVibGlj"));
        assert_eq!(secret.field("tls.key"), None);
        assert_eq!(secret.meta().resource_version.as_deref(), Some("7"));
        assert!(!format!("{secret:?}").contains("cHJpdmF0ZQ=="));
    }

    #[test]
    fn no_form_of_data_is_an_error() {
        for data in ["null", "{}", r#"{"tls.key": 1, "tls.crt": [2]}"#, r#"{"tls.key": {"a": null}}"#] {
            let secret = format!(r#"{{"metadata": {{"name": "s"}}, "data": {data}}}"#);
            let secret: PublicHalf = serde_json::from_str(&secret).unwrap();
            assert!(secret.data.is_empty(), "{data}");
        }
    }

    #[test]
    fn it_is_found_where_secrets_are() {
        assert_eq!(PublicHalf::url_path(&(), Some("n")), "/api/v1/namespaces/n/secrets");
    }
}
