//! The public half of key pairs in Secrets, such as Cluster API's `<cluster>-sa`.
//!
//! Kubernetes has no way to read one field of a Secret: the API server sends the private half along. It stays in
//! the bytes of the answer. The type that is read from them skips the value of every field that is not named like a
//! public half, and all metadata but the name and the version (`kubectl apply` leaves a copy of the whole
//! Secret in an annotation), so that no value of ours ever holds it, whatever is configured. To keep the
//! private half from this process altogether, copy the public half into a ConfigMap.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_cluster::access::ClusterChoice;
use chancery_core::key_file::PublicKeys;
use serde::Deserialize;

use self::public_half::{PublicHalf, is_public_name};
use super::SourceError;
use super::objects::Objects;
use super::parts::{self, PartLook, PartProblem, Parts};
use super::reporter::SourceReporter;
use super::selection::Selection;

mod public_half;

/// `secret`: the public half in one Secret, or in several by label.
///
/// ```yaml
/// secret:
///   namespace: clusters
///   name: prod-sa
/// ```
///
/// Needs `get`, `list` and `watch` of the Secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretSource {
    /// Its namespace.
    pub namespace: String,
    /// Its name; or `labelSelector`.
    pub name: Option<String>,
    /// A label selector in kubectl's form, instead of `name`.
    pub label_selector: Option<String>,
    /// The fields of `data` that hold public halves, each ending in `.crt` or `.pub`.
    #[serde(default = "default_fields")]
    pub fields: Vec<String>,
    /// The kubeconfig of the cluster; when missing, the cluster in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; its current one when missing.
    pub context: Option<String>,
}

/// Where Cluster API puts `sa.pub` (its `certificates.go`).
fn default_fields() -> Vec<String> {
    vec!["tls.crt".to_owned()]
}

impl SecretSource {
    /// Which Secrets are read.
    pub fn selection(&self) -> Selection<'_> {
        let (name, label_selector) = (self.name.as_deref(), self.label_selector.as_deref());
        Selection { namespace: &self.namespace, name, label_selector }
    }

    fn check(&self) -> Result<(), SourceError> {
        let private = self.fields.iter().find(|field| !is_public_name(field));
        let problem = match private {
            Some(field) => format!(
                "{field} is not read, since it may hold a private key; expected names that end in .crt or .pub, \
                 so put the public half into such a field, or into a ConfigMap"
            ),
            None if self.fields.is_empty() => "no field given; leave it out to read tls.crt".to_owned(),
            None => return Ok(()),
        };
        Err(SourceError::Value { field: "secret.fields", problem })
    }
}

/// A [`SecretSource`] with a client.
#[derive(Debug)]
pub(super) struct Secrets {
    config: SecretSource,
    objects: Objects<PublicHalf>,
    parts: Parts,
}

impl Secrets {
    pub async fn open(config: &SecretSource, base_dir: &Path) -> Result<Self, SourceError> {
        config.check()?;
        let (kubeconfig, context) = (config.kubeconfig.as_deref(), config.context.as_deref());
        let cluster = ClusterChoice { kubeconfig, context, base: base_dir };
        let objects = config.selection().open(cluster).await?;
        Ok(Self { config: config.clone(), objects, parts: Parts::default() })
    }

    pub async fn run(mut self, mut reporter: SourceReporter) {
        loop {
            match self.objects.next_or_quiet().await {
                Some(Ok(objects)) => {
                    let mut reading = self.parts.apply(read(&self.config, objects));
                    if objects.is_empty() {
                        let secret = self.config.selection();
                        reading.complain(vec![format!(
                            "secret {secret} is not there; create it, or correct the name"
                        )]);
                    }
                    reporter.report(reading).await;
                }
                Some(Err(error)) => reporter.fail(error).await,
                None => reporter.holds(),
            }
        }
    }
}

/// Every configured field of every Secret. One that a Secret does not have is wrong, not gone.
fn read(config: &SecretSource, objects: &BTreeMap<String, PublicHalf>) -> Vec<PartLook> {
    let fields =
        objects.iter().flat_map(|(name, secret)| config.fields.iter().map(move |f| (name, secret, f)));
    let read = fields.map(|(name, secret, field)| {
        let part = format!("secret {}/{name} field {field}", config.namespace);
        (part, public_keys(secret.field(field)))
    });
    read.collect()
}

fn public_keys(value: Option<&str>) -> Result<PublicKeys, PartProblem> {
    let unreadable = |problem: &str| PartProblem::Unreadable(problem.to_owned());
    let missing = || unreadable("it is not there; name the field of the public half in `fields`");
    let value = value.ok_or_else(missing)?;
    let bytes = STANDARD.decode(value).map_err(|_| unreadable("its value is not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("its value is not text; expected PEM"))?;
    parts::public_keys(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::key;

    fn config(yaml: &str) -> SecretSource {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn a_field_that_may_be_private_is_refused() {
        assert!(config("{namespace: n, name: s}").check().is_ok());
        assert!(config("{namespace: n, name: s, fields: [sa.pub, ca.crt]}").check().is_ok());
        for fields in ["[tls.key]", "[tls.crt, service-account.key]", "[id_rsa]", "[]"] {
            let error = config(&format!("{{namespace: n, name: s, fields: {fields}}}")).check().unwrap_err();
            assert!(error.to_string().starts_with("`secret.fields`: "), "{error}");
        }
    }

    #[test]
    fn the_configured_fields_are_read() {
        let (one, two) = (key(), key());
        let secret = serde_json::json!({
            "metadata": { "name": "prod-sa" },
            "data": { "tls.crt": STANDARD.encode(one.to_pem()), "sa.pub": STANDARD.encode(two.to_pem()) },
        });
        let objects = BTreeMap::from([("prod-sa".to_owned(), serde_json::from_value(secret).unwrap())]);
        for (fields, shown, error) in [
            ("[tls.crt]", vec![&one], None),
            ("[sa.pub, tls.crt]", vec![&two, &one], None),
            ("[tls.crt, b.pub]", vec![&one], Some("secret n/prod-sa field b.pub: it is not there")),
        ] {
            let config = config(&format!("{{namespace: n, name: prod-sa, fields: {fields}}}"));
            let reading = Parts::default().apply(read(&config, &objects));
            assert_eq!(reading.keys.iter().collect::<Vec<_>>(), shown);
            let said = reading.error.unwrap_or_default();
            assert!(
                said.starts_with(error.unwrap_or_default()) && said.is_empty() == error.is_none(),
                "{said}"
            );
        }
    }
}
