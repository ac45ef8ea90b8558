//! What reaches a terminal: nothing that somebody else wrote can move its cursor, colour it or hide what stands there,
//! and a reader that went away is an error and no panic.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;

/// Writes `text`, lines for a person or JSON, to standard output.
///
/// # Errors
/// When nobody reads it.
pub fn say(text: &str) -> anyhow::Result<()> {
    write_raw(printable(text, "\n\t").as_bytes())
}

/// Writes bytes as they are to standard output.
///
/// # Errors
/// When nobody reads them.
pub fn write_raw(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Writes why the command failed to standard error.
pub fn complain(reason: &str) {
    // Where nobody reads it, the exit code still says so.
    _ = writeln!(std::io::stderr(), "error: {}", printable(reason, "\n\t"));
}

/// `text` with every character that shows nothing, or changes how others are shown, written as JSON escapes it
/// (`\u001b`), apart from those in `kept`. Such characters stand in JSON within strings alone, so it stays what it was.
pub fn printable<'a>(text: &'a str, kept: &str) -> Cow<'a, str> {
    let is_shown = |character: char| {
        character == ' ' || kept.contains(character) || matches!(character, '"' | '\'' | '\\') || {
            // What Rust's own `Debug` does not print as it is: controls, separators, changes of direction.
            let mut escaped = character.escape_debug();
            escaped.next() == Some(character) && escaped.next().is_none()
        }
    };
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            shown if is_shown(shown) => safe.push(shown),
            '\n' => safe.push_str("\\n"),
            hidden => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    _ = write!(safe, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_on_a_terminal_is_spelt_out() {
        for (text, shown) in [
            ("plain \"text\" \\ 'as it is'", "plain \"text\" \\ 'as it is'"),
            ("Grüße, 鍵", "Grüße, 鍵"),
            ("\u{1b}[31mred\u{7}", "\\u001b[31mred\\u0007"),
            ("a\u{9b}2Jb\u{7f}", "a\\u009b2Jb\\u007f"),
            ("evil\u{202e}txt.exe", "evil\\u202etxt.exe"),
            ("\u{e0001}", "\\udb40\\udc01"),
            ("two\nlines\r", "two\\nlines\\u000d"),
        ] {
            assert_eq!(printable(text, ""), shown);
        }
        assert_eq!(printable("two\n\tlines\r\n", "\n\t"), "two\n\tlines\\u000d\n");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a\u{9b}": "\u{202e}\u{7f} \u{e0001}\u{1b}\n" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable(&text, "\n\t");
        assert!(shown.is_ascii());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
