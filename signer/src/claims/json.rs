//! JSON that every parser reads alike.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A value, as far as claims are looked at.
#[derive(Debug)]
pub(super) enum Json {
    Text(String),
    /// A number without sign, fraction and exponent.
    Whole(u64),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// Null, a boolean, any other number.
    Other,
}

impl Json {
    /// The one object that `bytes` are.
    ///
    /// # Errors
    /// Where they are something else, or could be read in two ways. No error quotes what was read.
    pub fn object(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        match serde_json::from_slice(bytes) {
            Ok(object @ Self::Object(_)) => Ok(object),
            Ok(_) => Err(serde_json::Error::custom("another value than an object")),
            Err(error) => Err(without_quotation(&error)),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.member(name)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text, or a list of nothing but texts, at least one.
    pub fn texts(&self, name: &str) -> Option<Vec<&str>> {
        match self.member(name)? {
            Self::Text(text) => Some(vec![text]),
            Self::List(values) => {
                let texts: Option<Vec<&str>> = values.iter().map(Self::as_text).collect();
                texts.filter(|texts| !texts.is_empty())
            }
            _ => None,
        }
    }

    pub fn seconds(&self, name: &str) -> Option<u64> {
        match self.member(name)? {
            Self::Whole(seconds) => Some(*seconds),
            _ => None,
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.member(name).is_some()
    }

    fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }
}

/// What kind of error it is and where, without the value that the library's own words may repeat.
fn without_quotation(error: &serde_json::Error) -> serde_json::Error {
    let what = match error.classify() {
        serde_json::error::Category::Data => AMBIGUOUS,
        serde_json::error::Category::Eof => "it ends too early",
        _ => "no JSON",
    };
    serde_json::Error::custom(format!("{what}, at line {} column {}", error.line(), error.column()))
}

const AMBIGUOUS: &str = "a member appears twice in one object, or in two spellings";

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let (mut members, mut names) = (Vec::new(), HashSet::new());
        while let Some(name) = object.next_key::<String>()? {
            if !names.insert(without_case(&name)) {
                return Err(A::Error::custom(AMBIGUOUS));
            }
            members.push((name, object.next_value()?));
        }
        Ok(Json::Object(members))
    }
}

/// One text for all spellings that Go's `encoding/json` takes for one name: it knows the long s and the Kelvin sign too.
fn without_case(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}
