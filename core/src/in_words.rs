//! Times for a person.

use std::time::Duration;

/// A time for a person: its two largest parts.
///
/// ```
/// use std::time::Duration;
/// use chancery_core::in_words;
/// assert_eq!(in_words(Duration::from_secs(90_061)), "1 d 1 h");
/// assert_eq!(in_words(Duration::ZERO), "0 s");
/// ```
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let shown: Vec<String> = parts
        .iter()
        .skip_while(|(number, _)| *number == 0)
        .take(2)
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if shown.is_empty() { "0 s".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_the_two_largest_parts() {
        for (seconds, words) in
            [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (3601, "1 h"), (90_061, "1 d 1 h")]
        {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
