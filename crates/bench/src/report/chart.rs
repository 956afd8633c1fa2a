//! Bar charts, written as SVG.

use std::fmt::Write as _;

use crate::contenders::Family;
use crate::figures::{Medians, by_key};

/// A chart and its file name.
pub(super) struct Chart {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    pub(super) svg: String,
}

/// File name, figure and title of each chart.
const CHARTS: [(&str, &str, &str); 6] = [
    ("sync-cpu.svg", "sync_cpu_s", "Processor time until the cache is in sync, seconds"),
    ("sync-peak.svg", "sync_peak_mb", "Peak memory until the cache is in sync, MB"),
    ("event-cpu.svg", "event_cpu_us", "Processor time for an event, microseconds"),
    ("memory.svg", "object_rss_kb", "Memory for an object after events, KB"),
    (
        "relist-cpu.svg",
        "relist_cpu_us",
        "Processor time for an object of a relist without changes, microseconds",
    ),
    ("latency.svg", "latency_p99_us", "Latency from the socket to the handler, p99, microseconds"),
];

const WIDTH: usize = 760;
const NAMES: usize = 210;
const VALUES: usize = 80;
const TOP: usize = 44;
const ROW: usize = 26;
const BAR: usize = 16;

/// A bar.
struct Bar<'a> {
    name: &'a str,
    color: &'static str,
    value: f64,
}

/// Creates all charts. A contender without a value has no bar.
pub(super) fn all(medians: &[Medians]) -> Vec<Chart> {
    let draw = |(file, key, title)| {
        let bars: Vec<Bar<'_>> = medians.iter().filter_map(|of| Bar::of(of, key)).collect();
        let digits = by_key(key).map_or(1, |figure| figure.digits);
        Chart { file, title, svg: svg(title, &bars, digits) }
    };
    CHARTS.into_iter().map(draw).collect()
}

impl<'a> Bar<'a> {
    fn of(medians: &'a Medians, key: &str) -> Option<Self> {
        let &value = medians.figures.get(key)?;
        Some(Self { name: &medians.contender, color: color(medians.family), value })
    }
}

fn color(family: Family) -> &'static str {
    match family {
        Family::KubeInformer => "#2563eb",
        Family::KubeRuntime => "#d97706",
        Family::ClientGo => "#64748b",
    }
}

/// Draws a chart with a white background and without a style sheet, so that it looks the same
/// everywhere.
fn svg(title: &str, bars: &[Bar<'_>], digits: usize) -> String {
    let height = TOP + bars.len() * ROW + 12;
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let room = (WIDTH - NAMES - VALUES) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"26\" font-weight=\"bold\" fill=\"#111827\">{title}</text>\n"
    );
    for (index, Bar { name, color, value }) in bars.iter().enumerate() {
        let y = TOP + index * ROW;
        let (baseline, width) = (y + BAR - 3, room * value / most);
        let end = NAMES as f64 + width + 6.0;
        let right = NAMES - 8;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<text x=\"{right}\" y=\"{baseline}\" text-anchor=\"end\" fill=\"#111827\">{name}</text>\n\
             <rect x=\"{NAMES}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{color}\"/>\n\
             <text x=\"{end:.1}\" y=\"{baseline}\" fill=\"#374151\">{value:.digits$}</text>"
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_all_the_room_and_others_their_share() {
        let bar = |name, value| Bar { name, color: "#000000", value };
        let svg = svg("t", &[bar("a", 10.0), bar("b", 5.0)], 1);
        let room = WIDTH - NAMES - VALUES;
        assert!(svg.contains(&format!("width=\"{room}.0\"")), "{svg}");
        assert!(svg.contains(&format!("width=\"{}.0\"", room / 2)), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
