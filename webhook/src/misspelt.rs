//! Keys that look like one of ours and are none: whoever misspells one waits for credentials in vain.

use crate::asked::{self, Asked};
use crate::{aws, azure, gcp};

/// How far, in letters, a key may be from a known one to be taken for it.
const DISTANCE: usize = 2;
/// How far its domain may be, where what follows is a known name.
const DOMAIN_DISTANCE: usize = 4;
/// Longer keys are none (Kubernetes allows 253 letters before the slash and 63 behind it), and comparing them takes time.
const LONGEST: usize = 100;

/// Every key that we, or those whose annotations we read, know. Those of the neighbours that we do not follow are here
/// too, since they are spelt right.
const KNOWN: [&str; 27] = [
    aws::ROLE_ARN,
    aws::AUDIENCE,
    aws::REGIONAL,
    aws::EXPIRATION,
    aws::SKIP_CONTAINERS,
    aws::SKIP_LABEL,
    aws::REGION,
    aws::SESSION_NAME,
    "eks.amazonaws.com/pod-identity",
    azure::USE,
    azure::CLIENT_ID,
    azure::TENANT_ID,
    azure::EXPIRATION,
    azure::SKIP_CONTAINERS,
    azure::PROXY,
    azure::PROXY_PORT,
    gcp::PROVIDER,
    gcp::EMAIL,
    gcp::GKE_EMAIL,
    gcp::AUDIENCE,
    gcp::EXPIRATION,
    gcp::SKIP_CONTAINERS,
    gcp::MODE,
    gcp::RUN_AS,
    gcp::FILE_ANNOTATION,
    gcp::PROJECT,
    asked::SKIP_CONTAINERS,
];

/// A warning for each such key of a pod and its ServiceAccount.
pub fn warnings(asked: &Asked<'_>) -> Vec<String> {
    let of_pod = asked.pod.annotation_keys().map(|key| ("annotation of the pod", key));
    let labels = asked.pod.label_keys().map(|key| ("label of the pod", key));
    let account = asked.annotations.keys().map(|key| ("annotation of its ServiceAccount", key.as_str()));
    let near =
        of_pod.chain(labels).chain(account).filter_map(|(place, key)| Some((place, key, nearest(key)?)));
    near.map(|(place, key, meant)| format!("{place}: {key} is not read; {meant} was probably meant"))
        .collect()
}

/// Whether an annotation of a ServiceAccount is looked at: it is known, or looks like one that is.
pub fn is_of_interest(key: &str) -> bool {
    KNOWN.contains(&key) || nearest(key).is_some()
}

/// The known key that a key which is not known looks like.
pub fn nearest(key: &str) -> Option<&'static str> {
    if KNOWN.contains(&key) || key.len() > LONGEST {
        return None;
    }
    let (domain, name) = key.split_once('/')?;
    let is_near = |known: &&&str| {
        let Some((known_domain, known_name)) = known.split_once('/') else { return false };
        // `skip-containers` is a name of several domains; those that are no domain of a cloud's mean something else.
        (known_name == name && distance(known_domain, domain) <= DOMAIN_DISTANCE)
            || distance(known, key) <= DISTANCE
    };
    KNOWN.iter().filter(is_near).min_by_key(|known| distance(known, key)).copied()
}

/// Levenshtein's distance, in bytes.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, from) in one.bytes().enumerate() {
        let mut diagonal = place;
        let mut left = place + 1;
        let mut next = vec![left];
        for (to, above) in other.bytes().zip(row.iter().skip(1)) {
            left = (left + 1).min(above + 1).min(diagonal + usize::from(from != to));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_is_named_and_what_is_another_word_is_not() {
        for (key, meant) in [
            ("eks.amazon.com/role-arn", Some(aws::ROLE_ARN)),
            ("eks.amazonaws.com/rolearn", Some(aws::ROLE_ARN)),
            ("eks.amazonaws.com/role-arns", Some(aws::ROLE_ARN)),
            ("azure.workload.identiy/client-id", Some(azure::CLIENT_ID)),
            ("azure.workload.identity/clientid", Some(azure::CLIENT_ID)),
            ("iam.gke.io/gcp-serviceaccount", Some(gcp::GKE_EMAIL)),
            ("chancery.dev/aws-regions", Some(aws::REGION)),
            ("eks.amazonaws.com/role-arn", None),
            ("cloud.google.com/neg", None),
            ("example.com/role-arn", None),
            ("app", None),
            ("app.kubernetes.io/name", None),
        ] {
            assert_eq!(nearest(key), meant, "{key}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
