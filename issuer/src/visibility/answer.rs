//! The record as the admin port shows it, and the question that a rotation asks, for a person.

use std::time::Duration;

use chancery_core::visibility::{EdgeRecord, ViewRecord};
use chancery_core::{IssuerUrl, KeyId};
use jiff::{Span, SpanRelativeTo};
use serde_json::{Map, Value, json};

use super::VisibilitySnapshot;

/// What `/visibility?kid=KID&for=24h` asks beside the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibilityQuestion {
    kid: Option<KeyId>,
    /// What the declared relying parties need when nothing is asked for.
    wait: Option<Duration>,
}

impl VisibilityQuestion {
    /// Reads a query: `kid`, a key id, and `for`, a time such as `24h`.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut question = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("kid", kid) => {
                    let read = kid.parse().map_err(|error| format!("`kid`: {error}"))?;
                    question.kid = Some(read);
                }
                ("for", text) => {
                    let days = SpanRelativeTo::days_are_24_hours();
                    let time = text.parse::<Span>().ok();
                    let time = time.and_then(|span| span.to_duration(days).ok()?.try_into().ok());
                    let read = time.ok_or_else(|| {
                        format!("`for`: {text:?} is not a time; expected one such as 24h or 600s")
                    })?;
                    question.wait = Some(read);
                }
                (other, _) => return Err(format!("{other:?} is not asked here; expected `kid` and `for`")),
            }
        }
        if question.kid.is_none() && question.wait.is_some() {
            return Err(
                "`for` says how long a key must have been visible; say which one with `kid`".to_owned()
            );
        }
        Ok(question)
    }
}

/// The record of one issuer, and the answer to `question`.
pub fn answer(issuer: &IssuerUrl, snapshot: &VisibilitySnapshot, question: &VisibilityQuestion) -> Value {
    let record = snapshot.record();
    let views: Vec<Value> = record.views().map(|(name, view)| of_view(name, view)).collect();
    let longest = record.longest_lifetime();
    let mut shown = Map::new();
    shown.insert("issuer".to_owned(), json!(issuer));
    shown.insert("observations".to_owned(), json!(record.observations()));
    shown.insert("observedHere".to_owned(), json!(snapshot.is_observed_here()));
    shown.insert("longestMaxAgeSeconds".to_owned(), json!(longest.map(|lifetime| lifetime.as_secs())));
    shown.insert("views".to_owned(), json!(views));
    if let Some(kid) = &question.kid {
        let wait = question.wait.unwrap_or(snapshot.usual_wait());
        let obstacles = snapshot.is_visible_everywhere(kid, wait).err().unwrap_or_default();
        let words: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
        let everywhere = json!({
            "kid": kid,
            "askedSeconds": wait.as_secs(),
            "waitSeconds": record.wait(wait).as_secs(),
            "visibleEverywhere": obstacles.is_empty(),
            "obstacles": obstacles,
            "because": words,
        });
        shown.insert("key".to_owned(), everywhere);
    }
    Value::Object(shown)
}

fn of_view(name: &str, view: &ViewRecord) -> Value {
    let keys = view.keys.iter().map(|(kid, key)| {
        json!({
            "kid": kid,
            "visibleSeconds": key.visible_seconds,
            "unbrokenSeconds": key.unbroken_seconds,
            "shownNow": view.shows(kid),
        })
    });
    let edges = view.edges.iter().map(|(edge, record)| of_edge(edge, record, view));
    json!({
        "view": name,
        "readSecondsAgo": view.read_seconds_ago,
        "longestMaxAgeSeconds": view.longest_lifetime().map(|lifetime| lifetime.as_secs()),
        "edges": edges.collect::<Vec<_>>(),
        "keys": keys.collect::<Vec<_>>(),
    })
}

fn of_edge(edge: &str, record: &EdgeRecord, view: &ViewRecord) -> Value {
    match record {
        EdgeRecord::Read { missing, others, age_seconds, lifetime_seconds } => json!({
            "edge": edge,
            "kids": view.keys.keys().filter(|kid| !missing.contains(kid)).collect::<Vec<_>>(),
            "otherKeys": others,
            "ageSeconds": age_seconds,
            "maxAgeSeconds": lifetime_seconds,
        }),
        EdgeRecord::Unreadable(why) => json!({ "edge": edge, "unreadable": why }),
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::visibility::{Observation, Visibility};

    use super::*;

    const KID: &str = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU";

    #[test]
    fn a_question_is_read_or_refused_in_words() {
        let question = VisibilityQuestion::parse(&format!("kid={KID}&for=24h")).unwrap();
        assert_eq!(
            question,
            VisibilityQuestion { kid: Some(KID.parse().unwrap()), wait: Some(Duration::from_secs(86_400)) }
        );
        assert_eq!(VisibilityQuestion::parse(""), Ok(VisibilityQuestion::default()));
        for (query, word) in [
            ("kid=x", "kid"),
            ("for=1h", "which one"),
            ("kid", "kid"),
            ("key=1", "expected `kid`"),
            ("for=soon", "24h"),
        ] {
            let error = VisibilityQuestion::parse(query).unwrap_err();
            assert!(error.contains(word), "{query}: {error}");
        }
    }

    #[test]
    fn the_answer_names_what_is_in_the_way() {
        let issuer = "https://id.example.com".parse().unwrap();
        let mut record = Visibility::new(["issuer URL"], Duration::from_secs(60));
        let kid: KeyId = KID.parse().unwrap();
        record.observe(Observation::of_copy("issuer URL", [kid.clone()], Duration::ZERO));
        let question = VisibilityQuestion { kid: Some(kid), wait: Some(Duration::from_secs(60)) };
        let snapshot = VisibilitySnapshot::observed(
            record.record(),
            tokio::time::Instant::now(),
            Duration::from_secs(960),
        );
        let answer = answer(&issuer, &snapshot, &question);
        assert_eq!(answer["key"]["visibleEverywhere"], false);
        assert_eq!(answer["key"]["obstacles"][0]["stillSeconds"], 60);
        assert_eq!(answer["key"]["because"][0], "issuer URL has shown it for 0 s, 60 s more are needed");
        assert_eq!(answer["views"][0]["keys"][0]["shownNow"], true);
        assert_eq!(answer["views"][0]["edges"][0]["kids"][0], KID);
    }
}
