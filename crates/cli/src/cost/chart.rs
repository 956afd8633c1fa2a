//! Bar charts as inline SVG.

use maud::{Markup, html};

use crate::output::shortened;

const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 300.0;
const VALUE_WIDTH: f64 = 90.0;
const ROW_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 16.0;
const MAX_LABEL_CHARS: usize = 44;

/// Draws a horizontal bar for each row. `format` formats the value of a bar.
pub(super) fn bars(title: &str, rows: &[(String, u64)], format: impl Fn(u64) -> String) -> Markup {
    let largest = rows.iter().map(|(_, value)| *value).max().unwrap_or(0).max(1) as f64;
    let width = |value: u64| (WIDTH - LABEL_WIDTH - VALUE_WIDTH) * value as f64 / largest;
    let height = ROW_HEIGHT * rows.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) xmlns="http://www.w3.org/2000/svg" {
            @for (number, (label, value)) in rows.iter().enumerate() {
                @let y = ROW_HEIGHT * number as f64;
                text x="0" y=(y + BAR_HEIGHT - 2.0) { (shortened(label, MAX_LABEL_CHARS)) }
                rect.bar x=(LABEL_WIDTH) y=(y + 2.0) height=(BAR_HEIGHT) width=(format!("{:.1}", width(*value))) rx="2" {}
                text x=(format!("{:.1}", LABEL_WIDTH + width(*value) + 6.0)) y=(y + BAR_HEIGHT - 2.0) { (format(*value)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_bars_are_in_the_chart() {
        let rows =
            [("<script>alert(1)</script>".to_owned(), 10), ("b".to_owned(), u64::MAX), ("c".to_owned(), 0)];
        let svg = bars("t", &rows, |value| value.to_string()).into_string();
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(svg.contains("width=\"510.0\""), "{svg}");
    }

    #[test]
    fn empty_chart_is_drawn() {
        assert!(bars("t", &[], |value| value.to_string()).into_string().contains("<svg"));
    }
}
