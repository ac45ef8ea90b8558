//! What somebody else wrote, without tokens.

use chancery_core::quoted::one_line;

/// How many characters of somebody else's text an error repeats.
const EXCERPT: usize = 512;

/// The shortest word that is taken for a token where it begins as a JWT does.
const SHORTEST_TOKEN: usize = 20;

/// Somebody else's text on one short line, without anything that looks like a token.
pub fn harmless(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/' | '=' | '~');
    let mut clean = String::with_capacity(text.len().min(EXCERPT));
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        // The header of every JWT begins with `{"`, which is `eyJ` in base64url.
        clean.push_str(match word.find("eyJ") {
            Some(start) if word.len() - start >= SHORTEST_TOKEN => "[token]",
            _ => word,
        });
        let mut characters = after.chars();
        clean.extend(characters.next());
        rest = characters.as_str();
    }
    one_line(&clean, EXCERPT)
}
