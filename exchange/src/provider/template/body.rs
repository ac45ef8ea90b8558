//! What a template sends in the body: fields of a form, or JSON. The places are in values alone, which are written as
//! their form wants it, so that no value becomes structure.

use std::borrow::Cow;

use bytes::Bytes;
use chancery_wire::form;
use http::HeaderValue;
use serde_json::{Map, Value};
use url::form_urlencoded;
use zeroize::Zeroizing;

use super::text::{Text, Values};
use crate::error::ExchangeError;

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// None.
    #[default]
    None,
    /// Fields of a form.
    Form(Vec<(String, Text)>),
    /// JSON.
    Json(Json),
}

/// JSON with places in its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// A text.
    Text(Text),
    /// Values in their order.
    List(Vec<Json>),
    /// Values by name.
    Object(Vec<(String, Json)>),
    /// Anything else.
    Plain(Value),
}

impl Body {
    /// Reads a body: JSON where it begins with a brace, otherwise a form as `a=b&c={token}`.
    ///
    /// # Errors
    /// When it is neither, or has places that there are not.
    pub fn parse(text: &str) -> Result<Self, ExchangeError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::None);
        }
        // A form may begin with a place as well, which is no JSON.
        if let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
            return Json::of(value).map(Self::Json);
        }
        let field =
            |(name, value): (Cow<'_, str>, Cow<'_, str>)| Ok((name.into_owned(), Text::parse(&value)?));
        let fields: Result<Vec<_>, ExchangeError> =
            form_urlencoded::parse(text.as_bytes()).map(field).collect();
        let fields = fields?;
        if text.starts_with('{') || fields.iter().any(|(name, _)| name.is_empty()) {
            return Err(ExchangeError::configuration("template-body")
                .came("a body that is neither an object of JSON nor a form")
                .expected("as {\"jwt\": \"{token}\"} or jwt={token}&role=app"));
        }
        Ok(Self::Form(fields))
    }

    /// Whether the token is in it.
    pub(super) fn has_token(&self) -> bool {
        match self {
            Self::None => false,
            Self::Form(fields) => fields.iter().any(|(_, text)| text.has_token()),
            Self::Json(json) => json.has_token(),
        }
    }

    pub(super) fn filled(
        &self,
        values: &Values,
        token: &str,
    ) -> Result<Option<(HeaderValue, Bytes)>, ExchangeError> {
        Ok(match self {
            Self::None => None,
            Self::Form(fields) => {
                let mut filled = Vec::new();
                for (name, value) in fields {
                    filled.push((name.as_str(), Zeroizing::new(value.filled(values, token, str::to_owned)?)));
                }
                let pairs: Vec<(&str, &str)> =
                    filled.iter().map(|(name, value)| (*name, value.as_str())).collect();
                Some((HeaderValue::from_static(form::MEDIA_TYPE), form::encode(pairs)))
            }
            Self::Json(json) => {
                let text = json.filled(values, token)?.to_string();
                // Wiped with its last part.
                let bytes = Bytes::from_owner(Zeroizing::new(text.into_bytes()));
                Some((HeaderValue::from_static("application/json"), bytes))
            }
        })
    }
}

impl Json {
    fn of(value: Value) -> Result<Self, ExchangeError> {
        Ok(match value {
            Value::String(text) => Self::Text(Text::parse(&text)?),
            Value::Array(values) => Self::List(values.into_iter().map(Self::of).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(name, value)| Ok((name, Self::of(value)?));
                Self::Object(fields.into_iter().map(field).collect::<Result<_, ExchangeError>>()?)
            }
            plain => Self::Plain(plain),
        })
    }

    fn has_token(&self) -> bool {
        match self {
            Self::Text(text) => text.has_token(),
            Self::List(items) => items.iter().any(Self::has_token),
            Self::Object(fields) => fields.iter().any(|(_, value)| value.has_token()),
            Self::Plain(_) => false,
        }
    }

    fn filled(&self, values: &Values, token: &str) -> Result<Value, ExchangeError> {
        Ok(match self {
            Self::Text(text) => Value::String(text.filled(values, token, str::to_owned)?),
            Self::List(items) => {
                Value::Array(items.iter().map(|item| item.filled(values, token)).collect::<Result<_, _>>()?)
            }
            Self::Object(fields) => {
                let mut object = Map::new();
                for (name, value) in fields {
                    object.insert(name.clone(), value.filled(values, token)?);
                }
                Value::Object(object)
            }
            Self::Plain(value) => value.clone(),
        })
    }
}
