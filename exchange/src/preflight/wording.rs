//! In what two texts differ, in words.

/// In what `came` differs from `expected`.
pub(crate) fn difference(came: &str, expected: &str) -> String {
    if came.trim() != came {
        return "it has white space around it".to_owned();
    }
    if came.strip_suffix('/') == Some(expected) {
        return "it has a slash at its end that is not expected".to_owned();
    }
    if expected.strip_suffix('/') == Some(came) {
        return "the slash at the end is missing".to_owned();
    }
    if came.eq_ignore_ascii_case(expected) {
        return "it differs in upper and lower case alone, which counts".to_owned();
    }
    let bare = |text: &str| text.split_once("://").map_or(text, |(_, rest)| rest).to_owned();
    if bare(came).trim_start_matches('/') == bare(expected).trim_start_matches('/') {
        return "it differs in the scheme in front alone, which counts".to_owned();
    }
    let same = came.chars().zip(expected.chars()).take_while(|(one, other)| one == other).count();
    format!(
        "they differ from character {} on; make both the same, in the token or where the trust is configured",
        same + 1
    )
}

/// A number of seconds for a person.
pub(super) fn seconds(seconds: i64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
