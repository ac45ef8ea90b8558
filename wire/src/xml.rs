//! AWS's answers. A document type is refused, so no entity but the five of XML itself can stand in one.

use chancery_core::quoted::one_line;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

use crate::limits::{EXCERPT, XML_DEPTH};

/// An element with its text and the elements in it. Attributes are passed over, and prefixes are dropped from names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    children: Vec<Self>,
}

impl Element {
    /// The root element of a document.
    ///
    /// # Errors
    /// When it is not XML, has a document type, or is nested too deeply.
    pub fn parse(xml: &str) -> Result<Self, XmlError> {
        let mut reader = Reader::from_str(xml);
        reader.config_mut().expand_empty_elements = true;
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().map_err(|error| XmlError::at(&error))? {
                Event::Start(_) if open.len() > XML_DEPTH => return Err(XmlError::at(&"nested too deeply")),
                Event::Start(start) => {
                    let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                    open.push(Self { name, ..Self::default() });
                }
                Event::End(_) => close(&mut open),
                Event::Text(text) => push(&mut open, &text.decode().map_err(|error| XmlError::at(&error))?),
                Event::CData(text) => push(&mut open, &text.decode().map_err(|error| XmlError::at(&error))?),
                Event::GeneralRef(reference) => {
                    let number = reference.resolve_char_ref().map_err(|error| XmlError::at(&error))?;
                    let name = reference.decode().map_err(|error| XmlError::at(&error))?;
                    match (number, resolve_xml_entity(&name)) {
                        (Some(character), _) => push(&mut open, character.encode_utf8(&mut [0; 4])),
                        (None, Some(text)) => push(&mut open, text),
                        (None, None) => return Err(XmlError::at(&"an unknown entity")),
                    }
                }
                Event::DocType(_) => return Err(XmlError::at(&"a document type")),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        let document = open.pop().filter(|_| open.is_empty());
        let root = document.and_then(|document| document.children.into_iter().next());
        root.ok_or_else(|| XmlError::at(&"no whole element"))
    }

    /// Its text, without that of the elements in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The elements right below it of this name.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element of this name anywhere in it, in the order of the document.
    pub fn find(&self, name: &str) -> Option<&Self> {
        self.children.iter().find_map(|child| if child.name == name { Some(child) } else { child.find(name) })
    }

    /// The text of the first element of this name anywhere in it.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.find(name).map(Self::text)
    }
}

fn close(open: &mut Vec<Element>) {
    if let Some(done) = open.pop()
        && let Some(parent) = open.last_mut()
    {
        parent.children.push(done);
    }
}

fn push(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// Text that is not the XML of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not the XML that was expected: {0}")]
pub struct XmlError(String);

impl XmlError {
    fn at(problem: &dyn std::fmt::Display) -> Self {
        Self(one_line(&problem.to_string(), EXCERPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_their_entities() {
        let xml = r#"<?xml version="1.0"?><A xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><L><member>a&amp;lt;</member>
            <member>b&lt;&#33;</member></L><!-- x --><M><member>c</member><D><![CDATA[<d>]]></D></M><E/></A>"#;
        let root = Element::parse(xml).unwrap();
        let members: Vec<&str> = root.find("L").unwrap().children("member").map(Element::text).collect();
        assert_eq!(members, ["a&lt;", "b<!"]);
        assert_eq!(
            (root.text_of("member"), root.text_of("D"), root.text_of("E")),
            (Some("a&lt;"), Some("<d>"), Some(""))
        );
        assert_eq!(root.text_of("F"), None);
    }

    #[test]
    fn what_is_not_an_answer_is_refused() {
        let deep = "<a>".repeat(40) + &"</a>".repeat(40);
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\">]><a>&b;</a>";
        for text in ["", "no", "<a>", "<a></b>", "<a>&nbsp;</a>", deep.as_str(), bomb] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }
}
