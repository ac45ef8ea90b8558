//! Pages as HTML, from templates that are given the same data as JSON is made of, and no other.
//!
//! The template crate escapes whatever it writes. What it may not escape are the tags that are made here, which hold
//! nothing that anybody else wrote, and the style sheet. Characters that are not seen (controls, and those that turn the
//! direction of a text) are shown as escapes, whoever wrote them.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use askama::Template;
use askama::filters::HtmlSafe;
use chancery_core::in_words;
use jiff::Timestamp;

use super::model::{Asked, IssuerPage, Overview};
use super::query::{query_of, query_of_issuer};
use super::state::State;

/// The style sheet, inline: the policy of the page names its digest.
pub(super) const STYLE: &str = include_str!("../../templates/status/style.css");

/// The page of all issuers.
///
/// # Errors
/// None in practice: writing to a `String` does not fail.
pub fn overview_html(page: &Overview) -> Result<String, askama::Error> {
    let asked = &page.asked;
    let at = |number: usize| query(&Asked { page: number, ..asked.clone() });
    let html = OverviewHtml {
        frame: Frame::of(page.replica.at),
        title: title(page),
        filters: filters(page),
        query: query(asked),
        find: asked.find.as_deref().unwrap_or_default(),
        previous: asked.page.checked_sub(1).filter(|number| *number > 0).map(at),
        next: asked.page.checked_add(1).filter(|number| *number <= page.pages).map(at),
        page,
    };
    Ok(seen(&html.render()?))
}

/// The page of one issuer.
///
/// # Errors
/// None in practice: writing to a `String` does not fail.
pub fn issuer_html(page: &IssuerPage) -> Result<String, askama::Error> {
    let html = IssuerHtml { frame: Frame::of(page.replica.at), page };
    Ok(seen(&html.render()?))
}

#[derive(Template)]
#[template(path = "status/overview.html")]
struct OverviewHtml<'a> {
    frame: Frame,
    page: &'a Overview,
    title: String,
    filters: Vec<Filter>,
    query: String,
    find: &'a str,
    previous: Option<String>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "status/issuer.html")]
struct IssuerHtml<'a> {
    frame: Frame,
    page: &'a IssuerPage,
}

/// A link to the issuers that stand alike.
struct Filter {
    title: &'static str,
    count: usize,
    query: String,
    is_here: bool,
}

fn filters(page: &Overview) -> Vec<Filter> {
    let asked = &page.asked;
    let all = [(None, page.counts.total())].into_iter();
    let each = page.counts.each().into_iter().map(|(state, count)| (Some(state), count));
    let filters = all.chain(each).map(|(state, count)| Filter {
        title: state.map_or("All", State::title),
        count,
        query: query(&Asked { page: 1, state, find: asked.find.clone() }),
        is_here: asked.state == state,
    });
    filters.collect()
}

/// The worst in a few words, so that a tab shows it.
fn title(page: &Overview) -> String {
    let bad = page.counts.each().into_iter().filter(|(state, count)| *state != State::Healthy && *count > 0);
    let words: Vec<String> = bad.map(|(state, count)| format!("{count} {state}")).collect();
    let issuers = page.counts.total();
    match words.is_empty() {
        true => format!("{issuers} issuers healthy"),
        false => format!("{} of {issuers} issuers", words.join(", ")),
    }
}

/// A query as it stands behind a path.
fn query(asked: &Asked) -> String {
    let query = query_of(asked);
    if query.is_empty() { query } else { format!("?{query}") }
}

/// What every page has.
struct Frame {
    style: &'static str,
    now: Timestamp,
}

impl Frame {
    fn of(now: Timestamp) -> Self {
        Self { style: STYLE, now }
    }

    fn badge(&self, state: &State) -> Tag {
        let (class, shape, title) = (state.as_str(), state.shape(), state.title());
        Tag(format!(r#"<span class="state {class}"><span aria-hidden="true">{shape}</span> {title}</span>"#))
    }

    /// A time as a date.
    fn clock(&self, at: &Timestamp) -> Tag {
        Tag(format!(r#"<time datetime="{at}">{}</time>"#, at.strftime("%Y-%m-%d %H:%M:%S UTC")))
    }

    /// A time as a date, and how far it is from now.
    fn moment(&self, at: &Timestamp) -> Tag {
        let (past, future) = (self.now.duration_since(*at), at.duration_since(self.now));
        let away = match (Duration::try_from(past), Duration::try_from(future)) {
            (Ok(past), _) => format!("{} ago", in_words(past)),
            (_, Ok(future)) => format!("in {}", in_words(future)),
            _ => String::new(),
        };
        Tag(format!("{} ({away})", self.clock(at)))
    }

    fn span(&self, seconds: &u64) -> Tag {
        let words = in_words(Duration::from_secs(*seconds));
        Tag(format!(r#"<data value="{seconds}">{words}</data>"#))
    }

    fn prose<'a>(&self, text: &'a str) -> Prose<'a> {
        Prose(text)
    }

    fn issuer_query(&self, url: &str) -> String {
        format!("?{}", query_of_issuer(url))
    }
}

/// A sentence, in which what stands between backticks is a command or a setting.
#[derive(Template)]
#[template(
    ext = "html",
    source = "{% for (text, is_code) in self.parts() %}{% if is_code %}<code>{{ text }}</code>{% else %}{{ text }}{% endif %}{% endfor %}"
)]
struct Prose<'a>(&'a str);

impl HtmlSafe for Prose<'_> {}

impl Prose<'_> {
    /// The parts, and whether each is code. A backtick that is alone is a backtick.
    fn parts(&self) -> Vec<(&str, bool)> {
        let parts: Vec<&str> = self.0.split('`').collect();
        match parts.len() % 2 {
            1 => parts.into_iter().enumerate().map(|(number, part)| (part, number % 2 == 1)).collect(),
            _ => vec![(self.0, false)],
        }
    }
}

/// HTML of our own, which holds nothing but numbers and fixed words.
struct Tag(String);

impl HtmlSafe for Tag {}

impl askama::FastWritable for Tag {
    fn write_into(&self, to: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(to.write_str(&self.0)?)
    }
}

impl Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same text, in which every character is seen.
fn seen(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\\' | '"' | '\'' => shown.push(character),
            // Writing to a `String` does not fail.
            _ => _ = write!(shown, "{}", character.escape_debug()),
        }
    }
    shown
}
