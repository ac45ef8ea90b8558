//! The record as the admin port shows it, and the question that a rotation asks, for a person.

use std::time::Duration;

use chancery_core::visibility::{EdgeSight, View, Visibility};
use chancery_core::{IssuerUrl, KeyId};
use jiff::{Span, SpanRelativeTo};
use serde_json::{Map, Value, json};

/// What `/visibility?kid=KID&for=24h` asks beside the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    kid: Option<KeyId>,
    wait: Duration,
}

impl Question {
    /// Reads a query: `kid`, a key id, and `for`, a time such as `24h`, 0 when missing.
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
                    question.wait = time.ok_or_else(|| {
                        format!("`for`: {text:?} is not a time; expected one such as 24h or 600s")
                    })?;
                }
                (other, _) => return Err(format!("{other:?} is not asked here; expected `kid` and `for`")),
            }
        }
        if question.kid.is_none() && !question.wait.is_zero() {
            return Err(
                "`for` says how long a key must have been visible; say which one with `kid`".to_owned()
            );
        }
        Ok(question)
    }
}

/// The record of one issuer, and the answer to `question`.
pub fn answer(issuer: &IssuerUrl, record: &Visibility, question: &Question) -> Value {
    let views: Vec<Value> = record.views().map(|(name, view)| of_view(name, view)).collect();
    let mut shown = Map::new();
    shown.insert("issuer".to_owned(), json!(issuer));
    shown.insert("longestMaxAgeSeconds".to_owned(), json!(record.longest_max_age().map(|age| age.as_secs())));
    shown.insert("views".to_owned(), json!(views));
    if let Some(kid) = &question.kid {
        let verdict = record.is_visible_everywhere(kid, question.wait);
        let obstacles = verdict.err().unwrap_or_default();
        let words: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
        let everywhere = json!({
            "kid": kid,
            "waitSeconds": record.wait(question.wait).as_secs(),
            "visibleEverywhere": obstacles.is_empty(),
            "obstacles": obstacles,
            "because": words,
        });
        shown.insert("key".to_owned(), everywhere);
    }
    Value::Object(shown)
}

fn of_view(name: &str, view: &View) -> Value {
    let keys: Vec<Value> = view.keys().map(|(kid, visible_for)| {
        json!({ "kid": kid, "visibleSeconds": visible_for.as_secs(), "shownNow": view.shows(kid) })
    }).collect();
    let edges: Vec<Value> = view.edges().map(|(edge, sight)| of_edge(edge, sight)).collect();
    json!({
        "view": name,
        "readSecondsAgo": view.unseen_for().map(|time| time.as_secs()),
        "longestMaxAgeSeconds": view.longest_max_age().map(|age| age.as_secs()),
        "edges": edges,
        "keys": keys,
    })
}

fn of_edge(edge: &str, sight: &EdgeSight) -> Value {
    match sight {
        EdgeSight::Read(seen) => json!({
            "edge": edge,
            "kids": seen.kids,
            "ageSeconds": seen.age.map(|age| age.as_secs()),
            "maxAgeSeconds": seen.max_age.map(|age| age.as_secs()),
        }),
        EdgeSight::Unreadable(why) => json!({ "edge": edge, "unreadable": why }),
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::visibility::Sighting;

    use super::*;

    const KID: &str = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU";

    #[test]
    fn a_question_is_read_or_refused_in_words() {
        let question = Question::parse(&format!("kid={KID}&for=24h")).unwrap();
        assert_eq!(question, Question { kid: Some(KID.parse().unwrap()), wait: Duration::from_secs(86_400) });
        assert_eq!(Question::parse(""), Ok(Question::default()));
        for (query, word) in [
            ("kid=x", "kid"),
            ("for=1h", "which one"),
            ("kid", "kid"),
            ("key=1", "expected `kid`"),
            ("for=soon", "24h"),
        ] {
            let error = Question::parse(query).unwrap_err();
            assert!(error.contains(word), "{query}: {error}");
        }
    }

    #[test]
    fn the_answer_names_what_is_in_the_way() {
        let issuer = "https://id.example.com".parse().unwrap();
        let mut record = Visibility::new(["issuer URL"], Duration::from_secs(60));
        let kid: KeyId = KID.parse().unwrap();
        record.observe(Sighting::of_copy("issuer URL", [kid.clone()], Duration::ZERO));
        let question = Question { kid: Some(kid), wait: Duration::from_secs(60) };
        let answer = answer(&issuer, &record, &question);
        assert_eq!(answer["key"]["visibleEverywhere"], false);
        assert_eq!(answer["key"]["obstacles"][0]["stillSeconds"], 60);
        assert_eq!(answer["key"]["because"][0], "issuer URL has shown it for 0 s, 60 s more are needed");
        assert_eq!(answer["views"][0]["keys"][0]["shownNow"], true);
        assert_eq!(answer["views"][0]["edges"][0]["kids"][0], KID);
    }
}
