//! What a KubeadmControlPlane and its Machines say of themselves: pure.

use std::collections::BTreeSet;

use chancery_core::KeyId;
use chancery_core::rollout::NodeKeys;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation of the KubeadmControlPlane that says what the Secret held when the last roll was asked for.
pub(super) const MARK: &str = "chancery.dev/service-account-keys";

/// The newest form of [`Mark`] that this program knows.
pub(super) const VERSION: u32 = 1;

/// KEP-1205: kube-apiserver lets tokens for itself live so long, whatever was asked for, unless it is told not to.
const EXTENDED: u64 = 365 * 24 * 3600;

/// What is written down beside a roll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub version: u32,
    /// The key that the Secret had to sign with.
    pub signs: Option<KeyId>,
    /// The keys that it had to verify with.
    pub verifies: BTreeSet<KeyId>,
    /// Machines that were made at this time of the management cluster or later have them; missing while that is doubted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Mark {
    pub fn new(keys: NodeKeys, since: Option<Timestamp>) -> Self {
        Self { version: VERSION, signs: keys.signs, verifies: keys.verifies, since }
    }

    pub fn keys(&self) -> NodeKeys {
        NodeKeys { signs: self.signs.clone(), verifies: self.verifies.clone() }
    }
}

/// What is read off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plane {
    pub mark: Option<Mark>,
    /// Whether the roll of the mark is asked for still.
    pub is_asked: bool,
    /// When machines have to be made at the earliest, as its spec says.
    pub after: Option<Timestamp>,
    /// Why not all machines are known to be ready and made since that roll.
    pub under_way: Option<String>,
}

impl Plane {
    /// # Errors
    /// A mark that is not one of ours, in words.
    pub fn of(object: &DynamicObject, machines: &[ObjectMeta]) -> Result<Self, String> {
        let annotations = object.metadata.annotations.as_ref();
        let mark = annotations.and_then(|all| all.get(MARK)).map(|text| mark(text)).transpose()?;
        let after = object.data.pointer("/spec/rollout/after").and_then(Value::as_str);
        let after = after.and_then(|after| after.parse().ok());
        let since = mark.as_ref().and_then(|mark| mark.since);
        let is_asked = since.is_some_and(|since| after.is_some_and(|after| since <= after));
        let under_way = moves(object).or_else(|| lacks(object, machines, since));
        Ok(Self { mark, is_asked, after, under_way })
    }
}

fn mark(text: &str) -> Result<Mark, String> {
    let version = serde_json::from_str::<Value>(text).ok().and_then(|read| read.get("version")?.as_u64());
    if version.is_some_and(|version| version > VERSION.into()) {
        return Err(format!("the annotation {MARK} was written by a later release; use that one"));
    }
    serde_json::from_str(text).map_err(|error| {
        format!("the annotation {MARK} is not what chancery writes ({error}); remove it, and every machine is rolled once")
    })
}

/// Whether its controller is at it, by what it says of itself.
fn moves(object: &DynamicObject) -> Option<String> {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    if object.metadata.deletion_timestamp.is_some() {
        return Some("the KubeadmControlPlane is being deleted".to_owned());
    }
    if number("/status/observedGeneration") < object.metadata.generation {
        return Some("Cluster API has not seen the last change of the KubeadmControlPlane yet".to_owned());
    }
    let wanted = number("/spec/replicas").unwrap_or(1);
    let [there, new, ready] = ["replicas", "upToDateReplicas", "readyReplicas"]
        .map(|of| number(&format!("/status/{of}")).unwrap_or(0));
    let is_at_rest = [there, new, ready] == [wanted; 3];
    (!is_at_rest).then(|| {
        format!(
            "a rollout is under way: of {wanted} machines {there} are there, {new} up to date, {ready} ready"
        )
    })
}

/// What the machines themselves lack, whatever is counted of them.
fn lacks(object: &DynamicObject, machines: &[ObjectMeta], since: Option<Timestamp>) -> Option<String> {
    let name = |machine: &ObjectMeta| machine.name.clone().unwrap_or_default();
    if let Some(machine) = machines.iter().find(|machine| machine.deletion_timestamp.is_some()) {
        return Some(format!("machine {} is being deleted", name(machine)));
    }
    let counted = object.data.pointer("/status/replicas").and_then(Value::as_u64);
    if counted != u64::try_from(machines.len()).ok() {
        return Some(format!(
            "there are {} machines, and Cluster API counts {}",
            machines.len(),
            counted.unwrap_or(0)
        ));
    }
    let since = since?;
    let is_older =
        |machine: &&ObjectMeta| machine.creation_timestamp.as_ref().is_none_or(|made| made.0 < since);
    machines
        .iter()
        .find(is_older)
        .map(|machine| format!("machine {} is older than the roll of {since}", name(machine)))
}

/// The longest that tokens of its kube-apiservers live, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongestTokens {
    /// `--service-account-max-token-expiration`.
    pub external: u64,
    /// Tokens for kube-apiserver itself.
    pub api_server: u64,
}

impl LongestTokens {
    /// # Errors
    /// When tokens may live for ever, in words.
    pub fn of(object: &DynamicObject) -> Result<Self, String> {
        const LIMIT: &str = "service-account-max-token-expiration";
        let flag = |name: &str| {
            let arguments =
                object.data.pointer("/spec/kubeadmConfigSpec/clusterConfiguration/apiServer/extraArgs");
            let arguments = arguments.and_then(Value::as_array).into_iter().flatten();
            let mut found =
                arguments.filter(|argument| argument.get("name").is_some_and(|found| found == name));
            found.next_back().and_then(|argument| argument.get("value")?.as_str())
        };
        let set = flag(LIMIT).ok_or_else(|| {
            format!("its kube-apiservers sign tokens of any length; set {LIMIT} among extraArgs, such as 24h, and let the machines roll")
        })?;
        let longest = set.parse::<SignedDuration>().ok().and_then(|time| u64::try_from(time.as_secs()).ok());
        let external = longest.filter(|seconds| *seconds > 0);
        let external = external.ok_or_else(|| format!("{LIMIT} is {set:?}; expected a time such as 24h"))?;
        let is_extended = flag("service-account-extend-token-expiration") != Some("false");
        Ok(Self { external, api_server: if is_extended { EXTENDED.max(external) } else { external } })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plane(status: &[i64; 4], more: &Value) -> DynamicObject {
        let [observed, there, new, ready] = status;
        let mut object = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmControlPlane",
            "metadata": { "name": "prod", "generation": 3 },
            "spec": { "replicas": 3, "rollout": { "after": "2026-01-01T00:00:10Z" } },
            "status": {
                "observedGeneration": observed, "replicas": there, "upToDateReplicas": new, "readyReplicas": ready,
            },
        });
        for (pointer, value) in more.as_object().unwrap() {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[name] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn machines(made: &[&str]) -> Vec<ObjectMeta> {
        let machine = |(number, made): (usize, &&str)| {
            serde_json::from_value(json!({ "name": format!("m{number}"), "creationTimestamp": made }))
                .unwrap()
        };
        made.iter().enumerate().map(machine).collect()
    }

    const NEW: &str = "2026-01-01T00:00:10Z";
    const OLD: &str = "2026-01-01T00:00:09Z";

    #[test]
    fn machines_are_at_rest_only_when_everything_says_so() {
        let since = json!({ "version": 1, "signs": null, "verifies": [], "since": NEW }).to_string();
        let marked = json!({ "/metadata/annotations": { MARK: since } });
        let why = |status: [i64; 4], made: &[&str]| {
            let seen = Plane::of(&plane(&status, &marked), &machines(made)).unwrap();
            assert!(seen.is_asked);
            seen.under_way.unwrap_or_default()
        };
        assert_eq!(why([3, 3, 3, 3], &[NEW; 3]), "");
        assert!(why([2, 3, 3, 3], &[NEW; 3]).contains("has not seen"));
        for counts in [[3, 4, 3, 3], [3, 3, 2, 3], [3, 3, 3, 2], [3, 2, 2, 2]] {
            assert!(why(counts, &[NEW; 3]).contains("a rollout is under way"), "{counts:?}");
        }
        assert!(why([3, 3, 3, 3], &[NEW; 4]).contains("there are 4 machines"));
        assert!(why([3, 3, 3, 3], &[NEW, OLD, NEW]).contains("machine m1 is older"));
        let mut leaving = machines(&[NEW; 3]);
        leaving[0].deletion_timestamp = leaving[0].creation_timestamp.clone();
        let seen = Plane::of(&plane(&[3; 4], &marked), &leaving).unwrap();
        assert_eq!(seen.under_way.unwrap(), "machine m0 is being deleted");
        // Without a mark there is nothing that they could be older than.
        let seen = Plane::of(&plane(&[3; 4], &json!({})), &machines(&[OLD; 3])).unwrap();
        assert_eq!((seen.mark, seen.is_asked, seen.under_way), (None, false, None));
    }

    #[test]
    fn a_roll_that_was_taken_back_or_doubted_is_not_asked_for() {
        let asked = |since: Value, after: Value| {
            let mark = json!({ "version": 1, "signs": null, "verifies": [], "since": since }).to_string();
            let more =
                json!({ "/metadata/annotations": { MARK: mark }, "/spec/rollout": { "after": after } });
            Plane::of(&plane(&[3; 4], &more), &machines(&[NEW; 3])).unwrap().is_asked
        };
        assert!(asked(json!(NEW), json!(NEW)) && asked(json!(OLD), json!(NEW)));
        assert!(
            !asked(json!(NEW), json!(OLD))
                && !asked(json!(NEW), json!(null))
                && !asked(json!(null), json!(NEW))
        );
    }

    #[test]
    fn what_is_not_ours_or_too_new_is_refused() {
        let refused = |text: &str| {
            let more = json!({ "/metadata/annotations": { MARK: text } });
            Plane::of(&plane(&[3; 4], &more), &[]).unwrap_err()
        };
        assert!(refused("{}").contains("not what chancery writes"));
        assert!(refused(r#"{ "version": 2 }"#).contains("a later release"));
    }

    #[test]
    fn the_longest_tokens_are_those_of_the_flags() {
        let longest = |arguments: Value| {
            let spec = json!({ "clusterConfiguration": { "apiServer": { "extraArgs": arguments } } });
            LongestTokens::of(&plane(&[3; 4], &json!({ "/spec/kubeadmConfigSpec": spec })))
        };
        let limit = |value: &str| json!({ "name": "service-account-max-token-expiration", "value": value });
        let day = LongestTokens { external: 86400, api_server: EXTENDED };
        assert_eq!(longest(json!([limit("24h0m0s")])), Ok(day));
        let exact = json!({ "name": "service-account-extend-token-expiration", "value": "false" });
        assert_eq!(longest(json!([limit("24h"), exact])), Ok(LongestTokens { api_server: 86400, ..day }));
        assert!(longest(json!([])).unwrap_err().contains("any length"));
        for odd in ["0s", "soon"] {
            assert!(longest(json!([limit(odd)])).unwrap_err().contains("expected a time"), "{odd}");
        }
    }
}
