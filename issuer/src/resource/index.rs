//! The objects that are there, and the last good spec of each: pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_saphyr::Spanned;

use super::DeclaredIssuer;
use super::object::IssuerObject;
use super::spec::{ObjectLimits, entry};
use crate::config::IssuerConfig;

/// Every object by its name.
#[derive(Debug)]
pub(super) struct ObjectIndex {
    limits: ObjectLimits,
    known: BTreeMap<String, KnownObject>,
}

/// An object as the API server has it, and its last good spec.
#[derive(Clone, Debug)]
pub(super) struct SeenObject {
    pub object: Arc<IssuerObject>,
    pub good: Option<Arc<Spanned<IssuerConfig>>>,
}

/// An object as it was read last.
#[derive(Debug)]
struct KnownObject {
    /// As the API server has it, shared with whoever writes its status.
    object: Arc<IssuerObject>,
    good: Option<Arc<Spanned<IssuerConfig>>>,
    refusal: Option<String>,
}

impl KnownObject {
    fn read(object: &IssuerObject, before: Option<Self>, limits: &ObjectLimits) -> Self {
        // One that was deleted and made again under the same name is another object.
        let before = before.filter(|before| before.object.metadata.uid == object.metadata.uid);
        let read = entry(&object.spec, limits).and_then(IssuerConfig::of_entry);
        let (good, refusal) = match read {
            Ok(config) => (Some(Arc::new(config)), None),
            Err(why) => (before.and_then(|before| before.good), Some(why)),
        };
        Self { object: Arc::new(object.clone()), good, refusal }
    }

    /// Whether it was read with the spec that `object` has.
    fn has_spec_of(&self, object: &IssuerObject) -> bool {
        let (known, now) = (&self.object.metadata, &object.metadata);
        known.uid == now.uid && known.generation == now.generation
    }
}

impl ObjectIndex {
    pub fn new(limits: ObjectLimits) -> Self {
        Self { limits, known: BTreeMap::new() }
    }

    /// Takes all objects that there are. Tells whether one came or went, or has another spec.
    pub fn take(&mut self, objects: &BTreeMap<String, IssuerObject>) -> bool {
        let before = self.known.len();
        self.known.retain(|name, _| objects.contains_key(name));
        let mut changed = self.known.len() < before;
        for (name, object) in objects {
            match self.known.get_mut(name) {
                Some(known) if known.object.metadata.resource_version == object.metadata.resource_version => {
                }
                Some(known) if known.has_spec_of(object) => known.object = Arc::new(object.clone()),
                _ => {
                    let known = KnownObject::read(object, self.known.remove(name), &self.limits);
                    self.known.insert(name.clone(), known);
                    changed = true;
                }
            }
        }
        changed
    }

    /// What they declare.
    pub fn declared(&self) -> Vec<DeclaredIssuer> {
        let declared = self.known.iter().map(|(name, known)| DeclaredIssuer {
            name: name.clone(),
            created: created(&known.object),
            generation: known.object.generation(),
            config: known.good.clone(),
            refusal: known.refusal.clone(),
        });
        declared.collect()
    }

    /// Each for whoever writes its status.
    pub fn objects(&self) -> Vec<SeenObject> {
        let seen =
            |known: &KnownObject| SeenObject { object: known.object.clone(), good: known.good.clone() };
        self.known.values().map(seen).collect()
    }
}

fn created(object: &IssuerObject) -> Timestamp {
    object.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(uid: &str, generation: u64, spec: Value) -> BTreeMap<String, IssuerObject> {
        let object = json!({
            "metadata": {
                "name": "a", "uid": uid, "generation": generation, "resourceVersion": generation.to_string(),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
        });
        BTreeMap::from([("a".to_owned(), serde_json::from_value(object).unwrap())])
    }

    #[test]
    fn a_bad_spec_never_replaces_the_last_good_one_of_the_same_object() {
        let spec = |retention: &str| json!({ "url": "https://a.example", "retention": retention, "sources": [{ "kubeApiserver": {} }] });
        let mut index = ObjectIndex::new(ObjectLimits::default());
        for (objects, changed, followed, refused) in [
            (object("1", 1, spec("0s")), true, None, true),
            (object("1", 2, spec("1h")), true, Some(3600), false),
            (object("1", 2, spec("1h")), false, Some(3600), false),
            (object("1", 3, spec("0s")), true, Some(3600), true),
            (object("1", 4, json!("nonsense")), true, Some(3600), true),
            (object("1", 5, spec("2h")), true, Some(7200), false),
            (object("2", 1, spec("0s")), true, None, true),
            (BTreeMap::new(), true, None, false),
            (BTreeMap::new(), false, None, false),
        ] {
            assert_eq!(index.take(&objects), changed, "{objects:?}");
            let declared = index.declared();
            assert_eq!(declared.len(), objects.len());
            let declared = declared.first();
            let config = declared.and_then(|declared| declared.config.as_ref());
            assert_eq!(config.map(|config| config.value.retention.as_secs()), followed, "{objects:?}");
            assert_eq!(declared.is_some_and(|declared| declared.refusal.is_some()), refused, "{objects:?}");
        }
    }

    #[test]
    fn what_changes_beside_the_spec_is_kept_and_changes_nothing() {
        let spec = json!({ "url": "https://a.example", "sources": [{ "kubeApiserver": {} }] });
        let mut index = ObjectIndex::new(ObjectLimits::default());
        let mut objects = object("1", 1, spec);
        assert!(index.take(&objects));
        let object = objects.get_mut("a").unwrap();
        object.metadata.resource_version = Some("9".to_owned());
        object.status = json!({ "observedGeneration": 1 });
        assert!(!index.take(&objects));
        assert_eq!(index.objects()[0].object.status["observedGeneration"], 1);
    }
}
