//! A page as whoever reads it takes it apart. Pages are written so that they are XML too: what is not closed, or not
//! escaped, is found by any reader of XML.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

/// An element with its attributes, all text in it, and the elements in it.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    /// Also that of the elements in it.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// The root of a page.
    pub fn parse(page: &str) -> Self {
        let mut reader = Reader::from_str(page);
        reader.config_mut().expand_empty_elements = true;
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error} in {page}")) {
                Event::Start(start) => open.push(Self::started(&start)),
                Event::End(_) => {
                    let closed = open.pop().unwrap();
                    let parent = open.last_mut().unwrap();
                    parent.text.push_str(&closed.text);
                    parent.children.push(closed);
                }
                Event::Text(text) => open.last_mut().unwrap().text.push_str(&text.decode().unwrap()),
                Event::GeneralRef(reference) => {
                    let character = reference.resolve_char_ref().unwrap().expect("a number");
                    open.last_mut().unwrap().text.push(character);
                }
                Event::DocType(kind) => assert_eq!(kind.decode().unwrap(), "html"),
                Event::Eof => break,
                other => panic!("{other:?} in {page}"),
            }
        }
        assert_eq!(open.len(), 1, "something is not closed");
        open.pop().unwrap().children.pop().unwrap()
    }

    fn started(start: &BytesStart<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let attributes = start.attributes().map(|attribute| {
            let attribute = attribute.unwrap();
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).unwrap().into_owned();
            (text(attribute.key.as_ref()), value)
        });
        Self { name: text(start.name().as_ref()), attributes: attributes.collect(), ..Self::default() }
    }

    /// It and every element in it.
    pub fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        self.children.iter().for_each(|child| all.extend(child.all()));
        all
    }

    /// Every element of this name.
    pub fn named(&self, name: &str) -> Vec<&Self> {
        self.all().into_iter().filter(|element| element.name == name).collect()
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
