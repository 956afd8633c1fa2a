//! Charts as inline SVG. Their colours are in the style sheet.

use maud::{Markup, html};

/// The size of a sparkline, in units of the drawing.
const WIDTH: f32 = 120.0;
const HEIGHT: f32 = 28.0;

/// The maximum number of points of a sparkline.
const MAX_POINTS: usize = 40;

/// Draws the values as a line, the latest at the right end. `label` describes the values for screen
/// readers.
pub(super) fn sparkline(values: &[f32], label: &str) -> Markup {
    let points = downsample(values);
    let max = points.iter().copied().fold(1.0, f32::max);
    let step = WIDTH / (MAX_POINTS - 1) as f32;
    let first = MAX_POINTS.saturating_sub(points.len());
    let position = |(index, value): (usize, &f32)| {
        let (x, y) = ((first + index) as f32 * step, HEIGHT - 2.0 - value / max * (HEIGHT - 4.0));
        format!("{x:.0},{y:.1}")
    };
    let line = points.iter().enumerate().map(position).collect::<Vec<_>>().join(" ");
    let (start, latest) = (first as f32 * step, values.last().copied().unwrap_or_default());
    let peak = values.iter().copied().fold(0.0, f32::max);
    html! {
        svg.spark viewBox="0 0 120 28" preserveAspectRatio="none" role="img"
            aria-label={ (label) ": now " (latest) ", at most " (peak) } {
            line.base x1="0" y1="27" x2="120" y2="27" {}
            @if points.len() > 1 {
                polygon.area points={ (format!("{start:.0},28 ")) (line) " 120,28" } {}
                polyline.line points=(line) {}
            }
        }
    }
}

/// Returns at most `MAX_POINTS` values: the maximum of each group of neighbours.
fn downsample(values: &[f32]) -> Vec<f32> {
    let group = values.len().div_ceil(MAX_POINTS).max(1);
    // Groups are counted from the end, so that a new value changes only the last groups.
    let mut points: Vec<f32> =
        values.rchunks(group).map(|values| values.iter().copied().fold(0.0, f32::max)).collect();
    points.reverse();
    points
}

/// Draws a bar whose length is the share of `value` in `max`.
pub(super) fn bar(value: usize, max: usize) -> Markup {
    let width = if max == 0 { 0.0 } else { value as f32 / max as f32 * 200.0 };
    html! {
        svg.bar viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.track x="0" y="0" width="200" height="10" rx="2" {}
            rect.fill x="0" y="0" width=(format!("{width:.1}")) height="10" rx="2" {}
        }
    }
}

/// A part of a stacked bar.
pub(super) struct Part {
    /// The suffix of the class of the part.
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) seconds: f64,
    pub(super) text: String,
}

/// Draws the parts side by side, each with the length of its share, and a legend with names and values.
pub(super) fn stacked_bar(parts: &[Part]) -> Markup {
    let total: f64 = parts.iter().map(|part| part.seconds).sum();
    let scale = if total > 0.0 { 600.0 / total } else { 0.0 };
    let mut start = 0.0;
    let drawn = parts.iter().map(|part| {
        let (x, width) = (start, part.seconds * scale);
        start += width;
        (part.class, format!("{x:.1}"), format!("{width:.1}"))
    });
    html! {
        svg.stack viewBox="0 0 600 14" preserveAspectRatio="none" aria-hidden="true" {
            rect.track x="0" y="0" width="600" height="14" rx="3" {}
            @for (class, x, width) in drawn {
                rect class={ "part-" (class) } x=(x) y="0" width=(width) height="14" {}
            }
        }
        dl.legend {
            @for part in parts {
                div {
                    dt { span class={ "swatch part-" (part.class) } aria-hidden="true" {} (part.name) }
                    dd { (part.text) }
                }
            }
        }
    }
}

/// An event on a timeline.
pub(super) struct Mark {
    /// The position: 0 is the start of the timeline, and 1 is its end.
    pub(super) position: f32,
    pub(super) has_failed: bool,
}

/// Draws events by their time: a circle for a success, and a higher square for a failure.
pub(super) fn timeline(marks: &[Mark], start: &str, label: &str) -> Markup {
    // Percentages, so that the marks keep their shape in each width.
    let x = |mark: &Mark| format!("{:.1}%", 0.5 + 99.0 * mark.position.clamp(0.0, 1.0));
    html! {
        svg.timeline role="img" aria-label=(label) {
            line.base x1="0" y1="17" x2="100%" y2="17" {}
            @for mark in marks {
                @if mark.has_failed { rect.failed x=(x(mark)) y="2" width="8" height="8" rx="1" {} }
                @else { circle.succeeded cx=(x(mark)) cy="17" r="4.5" {} }
            }
        }
        p.axis aria-hidden="true" { span { (start) } span { "now" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparkline_has_a_bounded_number_of_points() {
        let values: Vec<f32> = (0..1000_u16).map(f32::from).collect();
        assert_eq!(downsample(&values).last(), Some(&999.0));
        assert!(downsample(&values).len() <= MAX_POINTS);
        let drawn = sparkline(&values, "Depth").into_string();
        assert!(drawn.len() < 1000, "{drawn}");
        // SVG has no elements without an end.
        assert!(drawn.contains("</line><polygon") && drawn.contains("</polygon><polyline"), "{drawn}");
    }

    #[test]
    fn sparkline_without_values_has_a_label_and_no_line() {
        let drawn = sparkline(&[], "Depth").into_string();
        assert!(
            drawn.contains(r#"aria-label="Depth: now 0, at most 0""#) && !drawn.contains("polyline"),
            "{drawn}"
        );
        assert!(stacked_bar(&[]).into_string().contains("<dl"));
    }

    #[test]
    fn failure_on_timeline_has_another_shape() {
        let marks = [(0.0, true), (1.0, false)].map(|(position, has_failed)| Mark { position, has_failed });
        let drawn = timeline(&marks, "1 min ago", "Timeline").into_string();
        assert!(drawn.contains(r#"class="failed" x="0.5%""#), "{drawn}");
        assert!(drawn.contains(r#"class="succeeded" cx="99.5%""#), "{drawn}");
    }

    #[test]
    fn label_is_escaped() {
        let drawn = sparkline(&[1.0, 2.0], "\"><script>").into_string();
        assert!(!drawn.contains("<script>"), "{drawn}");
    }
}
