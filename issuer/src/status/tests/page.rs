//! What the pages say, and how.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::Element;
use super::scene::{URL, certificate, details_in_words_of, object, one_key, replica};
use crate::conditions::{ConditionType, Verdict};
use crate::status::html::{STYLE, issuer_html, overview_html};
use crate::status::model::{Asked, IssuerPage, Overview};
use crate::status::snapshot::ReplicaSnapshot;
use crate::status::{issuer_page, overview};

const ASKED: Asked = Asked { page: 1, state: None, find: None };

/// Both pages, of which everything is said in these words of others.
fn pages(others: &'static str) -> (Overview, IssuerPage) {
    let refused = Verdict::bad(ConditionType::Acceptable, "Unacceptable", format!("refused {others}"));
    let certificates = vec![certificate(&format!("/{others}/tls.crt"), &refused)];
    let wrong = Verdict::bad(ConditionType::Accepted, "InvalidSpec", format!("wrong {others}"));
    let objects = vec![object(&format!("object {others}"), &wrong)];
    let replica = ReplicaSnapshot { certificates, objects, ..replica() };
    let details = details_in_words_of(others);
    let many = (0..150).map(|number| one_key(&format!("https://id.example/{number}")));
    let asked = Asked { find: Some("https".to_owned()), page: 2, ..ASKED };
    let overview = overview(&replica, many.chain([details.issuer.clone()]), asked).unwrap();
    (overview, issuer_page(&replica, &details))
}

/// Each page as JSON and as HTML.
fn rendered(others: &'static str) -> [(Value, String); 2] {
    let (overview, issuer) = pages(others);
    let (all, one) = (overview_html(&overview).unwrap(), issuer_html(&issuer).unwrap());
    [(serde_json::to_value(&overview).unwrap(), all), (serde_json::to_value(&issuer).unwrap(), one)]
}

/// The names of all members in `value`.
fn members(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => all.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            members(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        _ => {}
    }
}

#[test]
fn every_member_of_the_json_is_documented() {
    let documentation = include_str!("../../../../docs/status.md");
    let mut found = BTreeSet::new();
    rendered("of others").iter().for_each(|(json, _)| members(json, &mut found));
    assert!(found.len() > 50, "{found:?}");
    for name in found {
        let spelt = [format!("`{name}`"), format!("`{name}[]`"), format!("\"{name}\":")];
        assert!(spelt.iter().any(|it| documentation.contains(it)), "{name} is not in docs/status.md");
    }
}

/// Every text and number in `value`, with the name of the member that it is in.
fn facts(name: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| facts(name, value, found)),
        Value::Array(values) => values.iter().for_each(|value| facts(name, value, found)),
        Value::String(text) => found.push((name.to_owned(), text.clone())),
        Value::Number(number) => found.push((name.to_owned(), number.to_string())),
        Value::Bool(_) | Value::Null => {}
    }
}

#[test]
fn every_fact_of_the_json_is_on_the_page() {
    for (json, html) in rendered("of others") {
        let page = Element::parse(&html);
        let attributes = page.all().into_iter().flat_map(|element| &element.attributes);
        let attributes: BTreeSet<&str> = attributes.map(|(_, value)| value.as_str()).collect();
        let classes: BTreeSet<&str> = attributes.iter().flat_map(|value| value.split(' ')).collect();
        let mut all = Vec::new();
        facts("", &json, &mut all);
        assert!(all.len() > 60, "{all:?}");
        for (name, fact) in all.iter().filter(|(name, fact)| name != "format" && fact != "0") {
            let is_there = page.text.contains(&fact.replace('`', ""))
                || attributes.contains(fact.as_str())
                || classes.contains(fact.as_str());
            assert!(is_there, "{name} {fact:?} is not in {html}");
        }
    }
}

#[test]
fn the_words_of_others_are_text_and_nothing_else() {
    const HOSTILE: &str = "<script>alert(1)</script></title></style>\"'&amp;<img src=x onerror=alert(1)>{{7*7}}\u{202e}\u{1b}[2J\0";
    const SHOWN: &str = "<script>alert(1)</script></title></style>\"'&amp;<img src=x onerror=alert(1)>{{7*7}}\\u{202e}\\u{1b}[2J\\0";
    for (page, (_, html)) in rendered(HOSTILE).into_iter().enumerate() {
        let root = Element::parse(&html);
        let names: BTreeSet<&str> = root.all().iter().map(|element| element.name.as_str()).collect();
        let ours = "a body br caption code data dd details div dl dt footer form h1 h2 h3 head header html input label li main meta nav p section span strong style summary table tbody td th thead time title tr ul button";
        let ours: BTreeSet<&str> = ours.split(' ').collect();
        assert!(names.is_subset(&ours), "{:?}", names.difference(&ours));
        for element in root.all() {
            for (name, value) in &element.attributes {
                let known = [
                    "id",
                    "class",
                    "href",
                    "role",
                    "scope",
                    "lang",
                    "charset",
                    "name",
                    "content",
                    "datetime",
                    "value",
                    "type",
                    "for",
                    "action",
                    "method",
                    "rel",
                    "data-label",
                ];
                assert!(known.contains(&name.as_str()) || name.starts_with("aria-"), "{name}={value:?}");
                let is_link = name == "href" || name == "action";
                assert!(!is_link || !value.contains(':') || value.starts_with("https://"), "{value}");
            }
        }
        assert_eq!(
            root.named("style")[0].text,
            STYLE,
            "nothing but ours is in the style that its policy names"
        );
        assert!(html.contains(&format!("<style>{STYLE}</style>")), "no byte of it was changed");
        let times = root.text.matches(SHOWN).count();
        assert!(times >= [3, 20][page], "it is shown {times} times");
        assert!(!html.contains(['\u{202e}', '\u{1b}', '\0']));
    }
}

#[test]
fn the_pages_are_built_so_that_everybody_can_find_their_way() {
    for (_, html) in rendered("of others") {
        let root = Element::parse(&html);
        assert_eq!((root.name.as_str(), root.attribute("lang")), ("html", Some("en")));
        assert_eq!((root.named("h1").len(), root.named("main").len(), root.named("title").len()), (1, 1, 1));
        let ids: Vec<&str> = root.all().iter().filter_map(|element| element.attribute("id")).collect();
        let distinct: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "{ids:?}");
        for element in root.all() {
            let named = ["aria-labelledby", "for"].into_iter().filter_map(|name| element.attribute(name));
            named.for_each(|id| assert!(distinct.contains(id), "nothing is called {id}"));
            if element.name == "th" {
                assert!(matches!(element.attribute("scope"), Some("col" | "row")), "{element:?}");
            }
            if element.name == "section" || element.name == "nav" {
                let label = element.attribute("aria-labelledby").or(element.attribute("aria-label"));
                assert!(label.is_some(), "{element:?}");
            }
        }
        for table in root.named("table") {
            assert_eq!(table.children[0].name, "caption");
            assert!(!table.children[0].text.trim().is_empty());
            let columns = table.named("thead")[0].named("th").len();
            for row in table.named("tbody")[0].named("tr") {
                assert_eq!(row.children.len(), columns, "{row:?}");
                assert!(row.children.iter().any(|cell| cell.name == "th"), "a row without a name");
            }
        }
        let first_link = root.named("a")[0];
        assert_eq!(
            (first_link.attribute("class"), first_link.attribute("href")),
            (Some("skip"), Some("#content"))
        );
        let levels = root.all().into_iter().filter_map(|it| it.name.strip_prefix('h')?.parse::<u32>().ok());
        levels.reduce(|before, level| {
            assert!(level <= before + 1, "a heading of level {level} behind one of level {before}");
            level
        });
    }
}

#[test]
fn a_tab_and_a_state_say_in_words_how_things_stand() {
    let [(_, all), (_, one)] = rendered("of others");
    let title = |html: &str| Element::parse(html).named("title")[0].text.clone();
    assert_eq!(title(&all), "1 broken of 151 issuers - Chancery");
    assert_eq!(title(&one), format!("Broken: {URL} - Chancery"));
    for html in [&all, &one] {
        for badge in Element::parse(html)
            .all()
            .into_iter()
            .filter(|it| it.attribute("class").is_some_and(|class| class.starts_with("state ")))
        {
            let class = badge.attribute("class").unwrap().strip_prefix("state ").unwrap();
            assert!(badge.text.to_lowercase().ends_with(class), "{}", badge.text);
            assert_eq!(
                badge.children[0].attribute("aria-hidden"),
                Some("true"),
                "the shape is not read aloud"
            );
        }
    }
}

#[test]
fn pages_lead_to_each_other_and_keep_what_was_asked() {
    let many = || (0..250).map(|number| one_key(&format!("https://id.example/{number:03}")));
    let asked = Asked { page: 2, state: Some(crate::status::State::Healthy), find: Some("e/".to_owned()) };
    let html = overview_html(&overview(&replica(), many(), asked).unwrap()).unwrap();
    let root = Element::parse(&html);
    let links: BTreeSet<&str> = root.named("a").iter().filter_map(|link| link.attribute("href")).collect();
    for expected in [
        "status?state=healthy&find=e%2F",
        "status?state=healthy&find=e%2F&page=3",
        "status?state=broken&find=e%2F",
        "status?find=e%2F",
        "status.json?state=healthy&find=e%2F&page=2",
        "status/issuer?url=https%3A%2F%2Fid.example%2F199",
    ] {
        assert!(links.contains(expected), "{expected} is not in {links:?}");
    }
}

/// The relative luminance of a colour (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn every_colour_is_told_from_what_is_behind_it_in_light_dark_and_print() {
    let roots: Vec<&str> =
        STYLE.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    assert_eq!(roots.len(), 3, "light, dark and print");
    for root in roots {
        let colour = |name: &str| {
            let (_, rest) =
                root.split_once(&format!("--{name}: ")).unwrap_or_else(|| panic!("no {name} in {root}"));
            luminance(rest.split(';').next().unwrap())
        };
        let contrast = |one: &str, other: &str| {
            let (one, other) = (colour(one) + 0.05, colour(other) + 0.05);
            if one > other { one / other } else { other / one }
        };
        let states = ["broken", "attention", "waiting", "unknown", "healthy"];
        let on_states = states.iter().flat_map(|state| {
            let behind = format!("{state}-page");
            [((*state).to_owned(), behind.clone(), 4.5), ("text".to_owned(), behind, 4.5)]
        });
        let pairs = ["text", "quiet", "link"]
            .into_iter()
            .flat_map(|on| ["page", "panel"].map(|behind| (on, behind, 4.5)));
        let pairs = pairs
            .chain([("line", "page", 3.0)])
            .map(|(on, behind, least)| (on.to_owned(), behind.to_owned(), least));
        for (on, behind, least) in pairs.chain(on_states) {
            let found = contrast(&on, &behind);
            assert!(found >= least, "{on} on {behind}: {found:.2} of {least}");
        }
    }
}
