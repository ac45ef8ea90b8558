//! What each kube-apiserver verifies with and signs with, as it was asked node by node.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chancery_core::KeyRing;
use chancery_core::rotation::ApiServer;
use serde_json::{Value, json};

/// A line for each.
pub fn table(servers: &BTreeMap<String, ApiServer>, ring: &KeyRing) -> String {
    let mut text = String::new();
    for (name, server) in servers {
        let keys = ring.verification_keys().filter(|key| !key.is_excluded);
        let kids: Vec<_> = keys.map(|key| key.public_key.key_id()).collect();
        let verified = kids.iter().filter(|kid| server.verifies.contains(**kid)).count();
        _ = write!(text, "  {name}  verifies with {verified} of {} keys", kids.len());
        _ = match &server.signs {
            Some(kid) if ring.key(kid).is_some() => write!(text, ", signs with {kid}"),
            Some(kid) => write!(text, ", signs with {kid}, which the ring does not know"),
            None => write!(text, ", what it signs with is not known"),
        };
        if let Some(motion) = server.motion {
            _ = write!(text, "; its node is {motion}");
        }
        if let Some(why) = &server.unseen {
            _ = write!(text, "; not seen now: {why}");
        }
        text.push('\n');
    }
    text
}

/// The same for a machine.
pub fn value(servers: &BTreeMap<String, ApiServer>) -> Value {
    let one = |server: &ApiServer| {
        json!({
            "verifies": server.verifies, "signs": server.signs, "unseen": server.unseen,
            "motion": server.motion.map(|motion| motion.to_string()),
        })
    };
    servers.iter().map(|(name, server)| (name.clone(), one(server))).collect()
}

#[cfg(test)]
mod tests {
    use chancery_core::rotation::Motion;

    use super::*;

    #[test]
    fn each_kube_apiserver_has_a_line_that_says_what_is_wrong_with_it() {
        let kid = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().ok();
        let unseen = Some("no answer".to_owned());
        let server =
            ApiServer { signs: kid, motion: Some(Motion::Upgrading), unseen, ..ApiServer::default() };
        let servers = BTreeMap::from([("a".to_owned(), server), ("b".to_owned(), ApiServer::default())]);
        let expected = "  a  verifies with 0 of 0 keys, signs with JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU, which the ring does not \
                        know; its node is being upgraded; not seen now: no answer\n  \
                        b  verifies with 0 of 0 keys, what it signs with is not known\n";
        assert_eq!(table(&servers, &KeyRing::new()), expected);
        assert_eq!(value(&servers)["a"]["motion"], "being upgraded");
    }
}
