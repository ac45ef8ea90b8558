//! What a request asks for.

use chancery_core::IssuerUrl;
use chancery_core::quoted::quoted;
use url::form_urlencoded;

use super::model::Asked;

/// Reads what is asked of all issuers: `page`, counted from 1, `state` and `find`.
///
/// # Errors
/// Says what cannot be read, and what was expected.
pub fn asked(query: &str) -> Result<Asked, String> {
    let mut asked = Asked { page: 1, state: None, find: None };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (name.as_ref(), value.as_ref()) {
            // As a form sends a field that was left empty.
            ("state" | "find", "") => {}
            ("page", number) => {
                let read = number.parse().ok().filter(|page| *page > 0);
                asked.page = read.ok_or_else(|| {
                    format!("`page`: {} is no page; expected a number from 1", quoted(number))
                })?;
            }
            ("state", state) => {
                asked.state = Some(state.parse().map_err(|problem| format!("`state`: {problem}"))?);
            }
            ("find", text) => asked.find = Some(text.to_owned()),
            (other, _) => {
                return Err(format!(
                    "{} is not asked here; expected `page`, `state` and `find`",
                    quoted(other)
                ));
            }
        }
    }
    Ok(asked)
}

/// Reads which issuer is asked for: `url`.
///
/// # Errors
/// Says what cannot be read, and what was expected.
pub fn asked_issuer(query: &str) -> Result<IssuerUrl, String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match (pairs.next(), pairs.next()) {
        (Some((name, url)), None) if name == "url" => {
            url.parse().map_err(|problem| format!("`url`: {}: {problem}", quoted(&url)))
        }
        _ => Err("expected `url` alone, the URL of an issuer, percent-encoded".to_owned()),
    }
}

/// The query that asks for this, in the form in which [`asked`] reads it; empty if it asks for everything.
pub fn query_of(asked: &Asked) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(state) = asked.state {
        query.append_pair("state", state.as_str());
    }
    if let Some(find) = &asked.find {
        query.append_pair("find", find);
    }
    if asked.page > 1 {
        query.append_pair("page", &asked.page.to_string());
    }
    query.finish()
}

/// The query that asks for one issuer.
pub fn query_of_issuer(url: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("url", url).finish()
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;

    #[test]
    fn a_query_is_read_as_it_is_written() {
        for asked_for in [
            Asked { page: 1, state: None, find: None },
            Asked { page: 7, state: Some(State::Waiting), find: Some("https://a b/?&=%<ü>".to_owned()) },
        ] {
            assert_eq!(asked(&query_of(&asked_for)), Ok(asked_for));
        }
        assert_eq!(asked("state=&find=&page=1"), Ok(Asked { page: 1, state: None, find: None }));
        let url = "https://id.example.com/a";
        assert_eq!(asked_issuer(&query_of_issuer(url)).unwrap().as_str(), url);
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_words() {
        for (query, words) in [
            ("page=0", "expected a number from 1"),
            ("page=-1", "expected a number from 1"),
            ("page=99999999999999999999999", "expected a number from 1"),
            ("state=good", "expected one of broken, attention"),
            ("<script>=1", "\"<script>\" is not asked here; expected `page`"),
        ] {
            let refused = asked(query).unwrap_err();
            assert!(refused.contains(words), "{query}: {refused}");
        }
        for query in ["", "issuer=https://a.example", "url=http://a.example", "url=https://a.example&x=1"] {
            assert!(asked_issuer(query).unwrap_err().contains("url"), "{query}");
        }
    }
}
