//! What somebody else wrote, fit for a terminal, a log line or an error text.
//!
//! A key id, a label, a header, a file's name or a server's message may hold escape sequences that rewrite a
//! terminal, newlines that forge a log line, and controls that turn the direction of what follows (Unicode Technical
//! Report 36, section 2.5). All of them are shown as escapes here, and nothing else is changed.

use std::fmt::{self, Display, Formatter, Write};

/// The longest text, in characters, that [`quoted`] shows.
pub const LONGEST_QUOTED: usize = 200;

/// `text` between quotation marks, escaped, and cut after [`LONGEST_QUOTED`] characters: for values in a message.
pub fn quoted<T: Display>(text: T) -> Quoted<T> {
    Quoted(text)
}

/// `text` escaped, without marks and whole: for paths and for messages that have passed a limit of their own.
pub fn escaped<T: Display>(text: T) -> Escaped<T> {
    Escaped(text)
}

/// `text` escaped, without marks, on one line (white space becomes single spaces), and cut after `longest` characters:
/// for what a server says, as a part of an error.
pub fn one_line(text: &str, longest: usize) -> String {
    let mut characters = text.split_whitespace().flat_map(|word| [" ", word]).skip(1).flat_map(str::chars);
    let shown: String = characters.by_ref().take(longest).collect();
    let rest = if characters.next().is_some() { "..." } else { "" };
    format!("{}{rest}", escaped(shown))
}

/// An error's text and those of what lies behind it, in one: what is empty, or was said before, is left out, since errors
/// often repeat those that they contain.
pub fn each_once(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().fold(String::new(), |said, text| match said.as_str() {
        "" => text,
        said if said.contains(&text) => said.to_owned(),
        said => format!("{said}: {text}"),
    })
}

/// See [`quoted`].
#[derive(Clone, Copy, Debug)]
pub struct Quoted<T>(T);

/// See [`escaped`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(T);

impl<T: Display> Display for Quoted<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut escaping = Escaping { to: f, mark: '"', room: LONGEST_QUOTED, cut: false };
        // An error of ours says that the rest was cut, an error of the formatter's shows again at the next write.
        let _ = write!(escaping, "{}", self.0);
        let cut = escaping.cut;
        f.write_str(if cut { "\u{2026}\"" } else { "\"" })
    }
}

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, mark: '\\', room: usize::MAX, cut: false }, "{}", self.0)
    }
}

/// Escapes what passes through it on the way to a formatter.
struct Escaping<'a, 'b> {
    to: &'a mut Formatter<'b>,
    /// Escaped as well, so that the end of the text can be told.
    mark: char,
    /// How many characters more are let through.
    room: usize,
    cut: bool,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| self.write_char(character))
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        let Some(room) = self.room.checked_sub(1) else {
            self.cut = true;
            return Err(fmt::Error);
        };
        self.room = room;
        match character {
            '"' | '\'' if character != self.mark => self.to.write_char(character),
            // Everything that the language does not count as printable: controls, separators, formats such as the
            // bidirectional ones, private use, and marks that would merge with what stands before them.
            _ => write!(self.to, "{}", character.escape_debug()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_moves_a_terminal_or_turns_a_line_is_escaped() {
        let bidirectional = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let controls = ('\0'..' ').chain('\u{7f}'..='\u{9f}');
        let marks =
            ['\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{feff}', '\u{ad}'];
        for character in bidirectional.chain(controls).chain(marks) {
            for shown in [quoted(character).to_string(), escaped(character).to_string()] {
                assert!(
                    shown.contains('\\') && !shown.contains(character),
                    "{:x}: {shown}",
                    u32::from(character)
                );
            }
        }
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in
            ["RSA PUBLIC KEY", "/etc/kubernetes/pki/sa.pub", "it's", "schlüssel", "鍵", "a=b, <c> & d"]
        {
            assert_eq!(escaped(text).to_string(), text);
            assert_eq!(quoted(text).to_string(), format!("\"{text}\""));
        }
    }

    #[test]
    fn an_escape_cannot_be_forged_and_a_quotation_cannot_be_ended() {
        assert_eq!(quoted("a\u{1b}[2Jb\n").to_string(), r#""a\u{1b}[2Jb\n""#);
        assert_eq!(escaped(r"a\u{1b}").to_string(), r"a\\u{1b}");
        assert_eq!(quoted(r#"a" is fine"#).to_string(), r#""a\" is fine""#);
        assert_eq!(escaped(r#"a" is fine"#).to_string(), r#"a" is fine"#);
    }

    #[test]
    fn a_quotation_is_cut_and_says_so() {
        let fits = "x".repeat(LONGEST_QUOTED);
        assert_eq!(quoted(&fits).to_string(), format!("\"{fits}\""));
        assert_eq!(quoted(format!("{fits}y")).to_string(), format!("\"{fits}\u{2026}\""));
        assert_eq!(escaped(format!("{fits}y")).to_string(), format!("{fits}y"));
    }

    #[test]
    fn what_an_error_repeats_is_said_once() {
        for (texts, said) in [
            (vec![], ""),
            (vec!["a"], "a"),
            (vec!["outer", "", "outer", "inner"], "outer: inner"),
            (vec!["cannot read x: denied", "denied", "by policy"], "cannot read x: denied: by policy"),
        ] {
            assert_eq!(each_once(texts.into_iter().map(str::to_owned)), said);
        }
    }

    #[test]
    fn what_a_server_says_stays_a_short_line() {
        for (text, shown) in [
            (" denied\r\n\tfor you\n", "denied for you"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\u{202e}b\u{2028}c", "a\\u{202e}b c"),
            (" \n", ""),
        ] {
            assert_eq!(one_line(text, 100), shown);
        }
        assert_eq!(one_line(&"é".repeat(300), 300), "é".repeat(300));
        assert_eq!(one_line(&"é".repeat(301), 300), format!("{}...", "é".repeat(300)));
    }
}
