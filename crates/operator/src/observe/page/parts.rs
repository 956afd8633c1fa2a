//! The parts of all pages: sections, tables, tiles, states, and the formats of numbers and times.

use std::time::Duration;

use kube_informer::Escaped;
use maud::{Markup, html};

/// The maximum number of rows of a table. It keeps pages with long names below 150 KB.
pub(super) const MAX_ROWS: usize = 40;

/// The maximum length of an error in a table. The page of the key contains the complete error.
const MAX_ERROR_CHARS: usize = 240;

/// The maximum length of a name in a table.
const MAX_NAME_CHARS: usize = 160;

/// A part of a page. If it changes, the stream replaces it.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) body: Markup,
}

impl Section {
    pub(super) fn new(id: &'static str, title: &'static str, body: Markup) -> Self {
        Self { id, title, body }
    }

    /// Returns the section with its heading.
    pub(super) fn markup(&self) -> Markup {
        let heading = format!("{}-title", self.id);
        html! {
            section id=(self.id) aria-labelledby=(heading) {
                h2 id=(heading) { (self.title) }
                (self.body)
            }
        }
    }
}

/// The severity of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Good,
    Neutral,
    Warning,
    Bad,
}

/// Returns a text with a capital letter at the start.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Returns a state as text with a coloured dot.
pub(super) fn state(level: Level, text: &str) -> Markup {
    let class = match level {
        Level::Good => "good",
        Level::Neutral => "neutral",
        Level::Warning => "warning",
        Level::Bad => "bad",
    };
    html! { span class={ "state " (class) } { span.dot aria-hidden="true" {} (sentence(&Escaped(text).to_string())) } }
}

/// A large number with its name.
pub(super) fn tile(name: &str, value: &Markup, note: &Markup) -> Markup {
    html! {
        div.tile { dt { (name) } dd { span.value { (value) } span.note { (note) } } }
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) enum Column {
    Text(&'static str),
    Number(&'static str),
}

/// Returns a table. The first cell of each row is its heading. `omitted` is the number of further rows.
pub(super) fn table(caption: &str, columns: &[Column], rows: &[Vec<Markup>], omitted: usize) -> Markup {
    let class = |column: &Column| match column {
        Column::Text(_) => None,
        Column::Number(_) => Some("number"),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    @for column in columns {
                        @let (Column::Text(name) | Column::Number(name)) = column;
                        th scope="col" class=[class(column)] { (name) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (index, (cell, column)) in row.iter().zip(columns).enumerate() {
                                @if index == 0 { th scope="row" class=[class(column)] { (cell) } }
                                @else { td class=[class(column)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
        @if omitted > 0 { p.more { "And " (count(omitted as u64)) " more." } }
    }
}

/// Returns a note that replaces an empty table.
pub(super) fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// Returns a list of names and values.
pub(super) fn facts(all: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in all { div { dt { (name) } dd { (value) } } } } }
}

/// Returns a link to the page of a key.
pub(super) fn key_link(controller: &str, key: &str) -> Markup {
    html! { a href=(key_path(controller, key)) { (name(key)) } }
}

/// Returns the path of the page of a key.
pub(super) fn key_path(controller: &str, key: &str) -> String {
    format!("/ui/key/{}/{}", encode(controller, false), encode(key, true))
}

/// Encodes text for the path of a URL.
fn encode(text: &str, keeps_slashes: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            b'/' if keeps_slashes => encoded.push('/'),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// Returns a name without control characters. Long names are truncated.
pub(super) fn name(text: &str) -> String {
    truncated(text, MAX_NAME_CHARS)
}

/// Returns an error without control characters. Long errors are truncated.
pub(super) fn error_text(text: &str) -> String {
    truncated(text, MAX_ERROR_CHARS)
}

fn truncated(text: &str, limit: usize) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(limit).collect();
    let end = if characters.next().is_some() { "…" } else { "" };
    format!("{}{end}", Escaped(&start))
}

/// Returns a number with separators of thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// Returns a number of bytes with a unit.
pub(super) fn bytes(number: usize) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut value, mut unit) = (number as f64 / 1024.0, 0);
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Returns a duration with a unit that suits its length.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time < Duration::from_millis(1) && !time.is_zero() => "<1 ms".to_owned(),
        0 => format!("{} ms", time.as_millis()),
        1..60 if time.subsec_millis() == 0 => format!("{seconds} s"),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns the time since an event in whole seconds, so that it changes at most once a second.
pub(super) fn ago(time: Option<Duration>) -> String {
    match time {
        None => "never".to_owned(),
        Some(time) if time.as_secs() < 60 => format!("{} s ago", time.as_secs()),
        Some(time) => format!("{} ago", duration(time)),
    }
}

/// Returns a rate per second.
pub(super) fn rate(rate: Option<f32>) -> String {
    match rate {
        None => "–".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}/s"),
        Some(rate) => format!("{rate:.0}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
        let times =
            [0, 340, 1500, 15_000, 600_000, 250_000, 7_500_000, 90_000_000].map(Duration::from_millis);
        assert_eq!(
            times.map(duration),
            ["0 ms", "340 ms", "1.5 s", "15 s", "10 min", "4 min 10 s", "2 h 5 min", "1 d 1 h"]
        );
        assert_eq!(duration(Duration::from_micros(3)), "<1 ms");
        assert_eq!([None, Some(Duration::from_millis(1900))].map(ago), ["never", "1 s ago"]);
        assert_eq!([None, Some(0.25), Some(12.4)].map(rate), ["–", "0.2/s", "12/s"]);
    }

    #[test]
    fn paths_of_keys_are_encoded() {
        assert_eq!(key_path("my controller/a", "shop/web-1"), "/ui/key/my%20controller%2Fa/shop/web-1");
        assert_eq!(key_path("a", "<script>\"é?"), "/ui/key/a/%3Cscript%3E%22%C3%A9%3F");
    }

    #[test]
    fn names_are_escaped_and_truncated() {
        let link = key_link("a", "<script>alert(1)</script>").into_string();
        assert!(link.contains("&lt;script&gt;") && !link.contains("<script>"), "{link}");
        assert_eq!(name(&"x".repeat(1000)).chars().count(), MAX_NAME_CHARS + 1);
        assert_eq!(error_text("a\nb"), "a\\nb");
    }
}
