//! Texts of the cluster for the terminal, and numbers with units.

use std::time::Duration;

/// Returns the text without control characters. A terminal would execute the control sequences of a hostile
/// text.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns whether a terminal does not display the character as it is: control characters, line and paragraph
/// separators, invisible characters, and characters that change the direction of the text.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text with at most `max` characters. The last character of a shortened text is "…".
pub(crate) fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

/// Returns a number of bytes with a unit and at most four digits: 999 B, 1.5 KiB, 340 MiB.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    let mut unit = 0;
    loop {
        value /= 1024.0;
        if value < 1023.95 || unit == UNITS.len() - 1 {
            break;
        }
        unit += 1;
    }
    let digits = if value < 99.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Returns a time as in kubectl: 9s, 5m, 3h, 12d.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => format!("{seconds}s"),
        100..=5_999 => format!("{}m", seconds / 60),
        6_000..=359_999 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a number of things: `1 resource`, `2 resources`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_unit() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (340 << 20, "340 MiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), text, "{count}");
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{202e}"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
        let invisible = "\u{ad}\u{61c}\u{2028}\u{2029}\u{e0000}\u{e0041}\u{e007f}";
        assert_eq!(printable(invisible), "\u{fffd}".repeat(7));
    }

    #[test]
    fn age_has_at_most_two_digits_and_unit() {
        let seconds = [0, 99, 100, 5_999, 6_000, 359_999, 360_000].map(Duration::from_secs);
        assert_eq!(seconds.map(age), ["0s", "99s", "1m", "99m", "1h", "99h", "4d"]);
    }

    #[test]
    fn count_of_one_is_singular() {
        assert_eq!([counted(0, "Pod"), counted(1, "Pod"), counted(2, "Pod")], ["0 Pods", "1 Pod", "2 Pods"]);
    }

    #[test]
    fn long_text_is_shortened_at_character() {
        assert_eq!(shortened("äöüß", 3), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
