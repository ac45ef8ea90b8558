//! Texts with places for what an exchange knows: `{token}`, `{username}`, `{registry}`, `{repository}`, `{params.NAME}`.

use std::collections::BTreeMap;

use url::form_urlencoded::byte_serialize;

use crate::error::ExchangeError;

/// What fills the places, the token apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The user.
    pub username: String,
    /// The host of the registry.
    pub registry: String,
    /// The repository in it.
    pub repository: String,
    /// Anything else.
    pub params: BTreeMap<String, String>,
}

/// A text with places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Token,
    Username,
    Registry,
    Repository,
    Param(String),
}

impl Text {
    /// Reads a text.
    ///
    /// # Errors
    /// When a place is none that there is.
    pub fn parse(text: &str) -> Result<Self, ExchangeError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, left) = after.split_once('}').ok_or_else(|| unknown("{"))?;
            pieces.extend((!before.is_empty()).then(|| Piece::Literal(before.to_owned())));
            pieces.push(place(name)?);
            rest = left;
        }
        if rest.contains('}') {
            return Err(unknown("}"));
        }
        pieces.extend((!rest.is_empty()).then(|| Piece::Literal(rest.to_owned())));
        Ok(Self(pieces))
    }

    /// Whether the token is in it.
    pub fn has_token(&self) -> bool {
        self.0.contains(&Piece::Token)
    }

    /// The text with everything in its place; each value goes through `written` first, literals do not.
    ///
    /// # Errors
    /// Which parameter is missing.
    pub(super) fn filled(
        &self,
        values: &Values,
        token: &str,
        written: impl Fn(&str) -> String,
    ) -> Result<String, ExchangeError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Token => text.push_str(&written(token)),
                Piece::Username => text.push_str(&written(&values.username)),
                Piece::Registry => text.push_str(&written(&values.registry)),
                Piece::Repository => text.push_str(&written(&values.repository)),
                Piece::Param(name) => {
                    let value = values.params.get(name).ok_or_else(|| missing(name))?;
                    text.push_str(&written(value));
                }
            }
        }
        Ok(text)
    }
}

/// The path and the query of a URL. There is no place for a token in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathText {
    segments: Vec<Text>,
    query: Vec<(String, Text)>,
}

impl PathText {
    /// Reads a path that begins with a slash, and what follows after `?`.
    ///
    /// # Errors
    /// When it has a place for the token, or leads elsewhere than below the host.
    pub fn parse(text: &str) -> Result<Self, ExchangeError> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let path = path.strip_prefix('/').ok_or_else(|| unusable(text, "a path that begins with a slash"))?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic())
            || text.contains(['#', '\\'])
            || path.starts_with('/')
        {
            return Err(unusable(text, "a path below the host, without a fragment"));
        }
        let segments: Result<Vec<Text>, _> = path.split('/').map(Text::parse).collect();
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((name.to_owned(), Text::parse(value)?))
        };
        let query: Result<Vec<_>, ExchangeError> =
            query.split('&').filter(|text| !text.is_empty()).map(pair).collect();
        let (segments, query) = (segments?, query?);
        if segments.iter().chain(query.iter().map(|(_, text)| text)).any(Text::has_token) {
            return Err(unusable(text, "a URL without the token, which proxies and logs would keep"));
        }
        Ok(Self { segments, query })
    }

    /// The path and the query, each value written as its place wants it.
    pub(super) fn filled(&self, values: &Values) -> Result<String, ExchangeError> {
        let mut text = String::new();
        for segment in &self.segments {
            let segment = segment.filled(values, "", encoded)?;
            // To a parser of URLs these are no names, but steps.
            if matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..") {
                return Err(unusable(&segment, "a name, and no step up"));
            }
            text.push('/');
            text.push_str(&segment);
        }
        for (number, (name, value)) in self.query.iter().enumerate() {
            text.push(if number == 0 { '?' } else { '&' });
            text.push_str(&format!("{name}={}", value.filled(values, "", encoded)?));
        }
        Ok(text)
    }
}

/// A value as it stands in a path or a query: everything but what is unreserved is encoded (RFC 3986 section 2.3).
fn encoded(text: &str) -> String {
    // `byte_serialize` writes a blank as `+`, and leaves `*` alone, which both mean something else in a path.
    byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20").replace('*', "%2A")
}

fn place(name: &str) -> Result<Piece, ExchangeError> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    Ok(match name {
        "token" => Piece::Token,
        "username" => Piece::Username,
        "registry" => Piece::Registry,
        "repository" => Piece::Repository,
        name => match name.strip_prefix("params.") {
            Some(param) if is_name(param) => Piece::Param(param.to_owned()),
            _ => return Err(unknown(name)),
        },
    })
}

fn unknown(name: &str) -> ExchangeError {
    ExchangeError::configuration("template-place")
        .came(&format!("{name:?} in a template"))
        .expected("{token}, {username}, {registry}, {repository} or {params.NAME}")
        .remedy("write one of them, or the text itself")
}

fn missing(name: &str) -> ExchangeError {
    ExchangeError::configuration("template-parameter")
        .came(&format!("the parameter {name:?} is not given"))
        .remedy(format!("give it, as --param {name}=VALUE"))
}

fn unusable(text: &str, expected: &str) -> ExchangeError {
    ExchangeError::configuration("template-path")
        .came(&format!("{text:?} as the path of a request"))
        .expected(expected.to_owned())
        .remedy("write it as /oauth2/token?scope={repository}")
}
