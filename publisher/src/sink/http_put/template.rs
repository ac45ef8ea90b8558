//! The body of an upload, with placeholders for the keys. Pure.

use std::fmt;

use chancery_core::{IssuerUrl, Jwks, PublicKey, key_file};

/// A body, split at its placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Placeholder),
}

/// What can stand between `{{` and `}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    /// The JWKS, a JSON object.
    Jwks,
    /// The JWKS, escaped to stand between the quotes of a JSON string.
    JwksString,
    /// The keys as a JSON array of PEM strings.
    Pems,
    /// The issuer URL, escaped to stand between the quotes of a JSON string.
    Issuer,
}

impl Placeholder {
    const ALL: [Self; 4] = [Self::Jwks, Self::JwksString, Self::Pems, Self::Issuer];

    fn name(self) -> &'static str {
        match self {
            Self::Jwks => "jwks",
            Self::JwksString => "jwks_string",
            Self::Pems => "pems",
            Self::Issuer => "issuer",
        }
    }

    fn render(self, jwks: &Jwks, issuer: &IssuerUrl) -> String {
        let json = || String::from_utf8_lossy(&jwks.to_json()).into_owned();
        match self {
            Self::Jwks => json(),
            Self::JwksString => between_quotes(&json()),
            Self::Pems => {
                let pems: Vec<String> = jwks.keys().iter().map(PublicKey::to_pem).collect();
                serde_json::Value::from(pems).to_string()
            }
            Self::Issuer => between_quotes(issuer.as_str()),
        }
    }
}

/// A text escaped as JSON demands, without the quotes around it.
fn between_quotes(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

impl Template {
    /// Reads a body. Only `{{` is special: a JSON text holds none outside of strings.
    ///
    /// # Errors
    /// Names line and column of a placeholder that is unknown or does not end.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let at = Position::of(text, text.len() - after.len() - 2);
            let (name, behind) = after.split_once("}}").ok_or(TemplateError::Open(at))?;
            let field = Placeholder::ALL.into_iter().find(|field| field.name() == name.trim());
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Field(field.ok_or_else(|| TemplateError::Unknown(name.trim().to_owned(), at))?));
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Whether it carries the keys, and is what `content_type` says.
    ///
    /// # Errors
    /// When it does not or is not.
    pub fn check(&self, content_type: &str) -> Result<(), TemplateError> {
        let carries = |part: &Part| !matches!(part, Part::Text(_) | Part::Field(Placeholder::Issuer));
        if !self.0.iter().any(carries) {
            return Err(TemplateError::NoKeys);
        }
        match sample() {
            Some((jwks, issuer)) if is_json(content_type) => {
                let body = self.render(&jwks, &issuer);
                let read = serde_json::from_str::<serde::de::IgnoredAny>(&body);
                read.map(drop).map_err(|error| TemplateError::NotJson(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The body of one upload.
    pub fn render(&self, jwks: &Jwks, issuer: &IssuerUrl) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(field) => field.render(jwks, issuer),
        };
        self.0.iter().map(part).collect()
    }
}

/// Whether a body of this type is JSON (RFC 8259, RFC 6839).
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// A key to try a template with; nobody signs with it.
fn sample() -> Option<(Jwks, IssuerUrl)> {
    let text = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----";
    let jwks = Jwks::new(key_file::read_public_keys(text).keys)?;
    Some((jwks, "https://id.example.com".parse().ok()?))
}

/// A place in a template, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    line: usize,
    column: usize,
}

impl Position {
    fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Why a body cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// Not one of ours.
    #[error(
        "there is no placeholder {{{{{0}}}}} ({1} of the body); expected {{{{jwks}}}}, {{{{jwks_string}}}}, {{{{pems}}}} or {{{{issuer}}}}"
    )]
    Unknown(String, Position),
    /// No `}}`.
    #[error("a placeholder begins but does not end ({0} of the body); close it with }}}}")]
    Open(Position),
    /// Nothing that carries the keys.
    #[error("it does not carry the keys; put {{{{jwks}}}}, {{{{jwks_string}}}} or {{{{pems}}}} into it")]
    NoKeys,
    /// Not JSON, once the keys are in it.
    #[error(
        "with the keys in it, it is not JSON ({0}); expected {{{{jwks}}}} and {{{{pems}}}} without quotes around them, {{{{jwks_string}}}} and {{{{issuer}}}} between quotes"
    )]
    NotJson(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &str, content_type: &str) -> Result<String, String> {
        let template = Template::parse(body).map_err(|error| error.to_string())?;
        template.check(content_type).map_err(|error| error.to_string())?;
        let (jwks, issuer) = sample().unwrap();
        Ok(template.render(&jwks, &issuer))
    }

    #[test]
    fn every_placeholder_stands_where_json_takes_it() {
        let (jwks, _) = sample().unwrap();
        let set: serde_json::Value = serde_json::from_slice(&jwks.to_json()).unwrap();
        let body =
            r#"{"a":{"set":{{jwks}}},"text":"{{ jwks_string }}","pems":{{pems}},"iss":"<{{issuer}}>"}"#;
        let rendered: serde_json::Value =
            serde_json::from_str(&checked(body, "application/merge-patch+json; charset=utf-8").unwrap())
                .unwrap();
        assert_eq!(rendered["a"]["set"], set);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(rendered["text"].as_str().unwrap()).unwrap(),
            set
        );
        assert_eq!(rendered["pems"], serde_json::json!([jwks.keys()[0].to_pem()]));
        assert_eq!(rendered["iss"], "<https://id.example.com>");
        assert_eq!(checked("k={{issuer}}&{{pems}}}", "text/plain").unwrap().matches("BEGIN").count(), 1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (body, words) in [
            ("{\n  \"é\": {{jwk}} }", "{{jwk}} (line 2 column 8 of the body)"),
            ("{{jwks}}{{}}", "{{}} (line 1 column 9"),
            ("{\"a\": {{jwks }", "does not end (line 1 column 7"),
            ("{{jwks}} {{issuer", "does not end (line 1 column 10"),
            ("{\"a\": \"{{issuer}}\"}", "does not carry the keys"),
            ("", "does not carry the keys"),
            ("\"{{jwks}}\"", "is not JSON"),
            ("{{jwks_string}}", "is not JSON"),
            ("{{jwks}},", "is not JSON"),
        ] {
            let error = checked(body, "application/json").unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
    }
}
