//! `frame`: the lines of the live table, as a pure function of its state.

use std::fmt::Write as _;

use tokio::time::Instant;
use unicode_width::UnicodeWidthStr as _;

use super::{
    health::Health,
    line::Line,
    rows::{LastChange, Row, RowId, Rows},
};
use crate::{
    output::{age, counted},
    terminal::Tone,
};

/// The width from which the table has a column with the number of changes.
const MIN_WIDTH_OF_COUNT: usize = 80;
/// The width from which the table has a column with the resource.
const MIN_WIDTH_OF_RESOURCE: usize = 50;
/// The height from which the screen has the title, the line of messages, and the help.
const MIN_HEIGHT_OF_TITLE: usize = 8;
/// The number of lines that are not rows: title, state, message, headings and help.
const FIXED_LINES: usize = 5;
/// The widths of the columns with the age, the event and the number of changes.
const AGE_WIDTH: usize = 4;
const EVENT_WIDTH: usize = 7;
const COUNT_WIDTH: usize = 7;
/// The maximum width of the column with the resource.
const MAX_RESOURCE_WIDTH: usize = 30;

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) title: &'a str,
    /// The resource of each target.
    pub(super) labels: &'a [String],
    pub(super) health: &'a Health,
    pub(super) rows: &'a Rows,
    /// The last incident.
    pub(super) message: Option<(&'a str, Instant)>,
    /// The number of rows above the first visible row.
    pub(super) offset: usize,
    pub(super) now: Instant,
}

/// Returns the number of rows that a terminal of this height displays.
pub(super) fn visible_rows(height: usize) -> usize {
    height.saturating_sub(if height < MIN_HEIGHT_OF_TITLE { 2 } else { FIXED_LINES })
}

/// Returns the lines of a screen with this size, in cells. There are `height` lines, and no line is wider
/// than `width`.
pub(super) fn frame(view: &View<'_>, width: usize, height: usize) -> Vec<Line> {
    let count = visible_rows(height);
    let shown: Vec<_> = view.rows.from(view.offset).take(count).collect();
    let columns = Columns::new(view.labels, &shown, width);
    let has_title = height >= MIN_HEIGHT_OF_TITLE;
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(Line::of(Tone::Heading, view.title, width));
    }
    lines.push(state(view, width));
    if has_title {
        lines.push(message(view, width));
    }
    lines.push(columns.heading(width));
    lines.extend(shown.iter().map(|(id, row)| columns.row(view, id, row, width)));
    lines.resize(height, Line::default());
    if has_title {
        lines[height - 1] = help(view, shown.len(), width);
    }
    lines
}

fn state(view: &View<'_>, width: usize) -> Line {
    let (tone, health) = view.health.text(view.now);
    let mut line = Line::of(tone, &health, width);
    let counts = view.rows.counts();
    let text = format!(
        "   {}   {} added, {} updated, {} deleted",
        counted(view.rows.objects(), "object"),
        counts.added,
        counts.updated,
        counts.deleted
    );
    line.push(None, &text, width);
    line
}

fn message(view: &View<'_>, width: usize) -> Line {
    let Some((text, at)) = view.message else { return Line::default() };
    let age = age(view.now.saturating_duration_since(at));
    Line::of(Tone::Muted, &format!("{age} ago: {text}"), width)
}

fn help(view: &View<'_>, shown: usize, width: usize) -> Line {
    let total = view.rows.len();
    let mut text = String::new();
    if shown < total {
        let above = view.offset.min(total);
        let below = total - above - shown;
        // Writing to a String cannot fail.
        let _ = write!(text, "hidden: {} above, {below} below; ", counted(above, "row"));
    }
    text.push_str("arrow keys scroll, q exits");
    Line::of(Tone::Muted, &text, width)
}

/// The widths of the columns that depend on the rows. `None` if the column is missing.
#[derive(Debug)]
struct Columns {
    resource: Option<usize>,
    object: usize,
    has_count: bool,
}

impl Columns {
    fn new(labels: &[String], shown: &[(&RowId, &Row)], width: usize) -> Self {
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or_default();
        let has_resource = width >= MIN_WIDTH_OF_RESOURCE && labels.iter().any(|label| *label != labels[0]);
        let resource = has_resource.then(|| {
            let widest = widest(&mut labels.iter().map(|label| label.width()));
            widest.clamp("RESOURCE".len(), MAX_RESOURCE_WIDTH)
        });
        let object = widest(&mut shown.iter().map(|((_, key), _)| key.to_string().width()));
        // The changes need at least a third of the screen.
        let object = object.clamp("OBJECT".len(), (width / 3).max(20));
        Self { resource, object, has_count: width >= MIN_WIDTH_OF_COUNT }
    }

    fn heading(&self, max: usize) -> Line {
        let mut line = Line::default();
        let mut cell = |text: &str, width: usize| line.push_cell(Tone::Heading, text, width, max);
        cell("AGE", AGE_WIDTH);
        cell("EVENT", EVENT_WIDTH);
        if let Some(width) = self.resource {
            cell("RESOURCE", width);
        }
        cell("OBJECT", self.object);
        if self.has_count {
            cell("CHANGES", COUNT_WIDTH);
        }
        cell("LAST CHANGE", "LAST CHANGE".len());
        line
    }

    fn row(&self, view: &View<'_>, id: &RowId, row: &Row, max: usize) -> Line {
        let (target, key) = id;
        let change = row.change.as_ref();
        let tone = row.is_deleted().then_some(Tone::Bad);
        let at = |change: &LastChange| age(view.now.saturating_duration_since(change.at));
        let mut line = Line::default();
        line.push_cell(tone, &change.map_or_else(|| "-".to_owned(), at), AGE_WIDTH, max);
        let event = change.map_or("", |change| change.event.name());
        line.push_cell(change.map(|change| change.event.tone()), event, EVENT_WIDTH, max);
        if let Some(width) = self.resource {
            line.push_cell(tone, &view.labels[*target], width, max);
        }
        line.push_cell(tone, &key.to_string(), self.object, max);
        if self.has_count {
            let count = if row.changes == 0 { String::new() } else { row.changes.to_string() };
            line.push_cell(tone, &count, COUNT_WIDTH, max);
        }
        line.push(tone, change.map_or("", |change| &change.details), max);
        line
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_informer::ObjectKey;

    use super::*;
    use crate::{feed::Notice, watch::record::EventType};

    const START_TO_NOW: Duration = Duration::from_secs(30);

    /// A table with five objects of two resources: one is updated, and one is deleted.
    struct Table {
        labels: [String; 2],
        health: Health,
        rows: Rows,
        start: Instant,
    }

    impl Table {
        fn new() -> Self {
            let labels = ["pods".to_owned(), "leases.coordination.k8s.io".to_owned()];
            let mut health = Health::new(labels.iter().map(String::as_str));
            health.listed(0);
            health.listed(1);
            let start = Instant::now();
            let mut rows = Rows::default();
            let id = |target, name: &str| (target, ObjectKey::new(Some("shop"), name));
            for name in ["web-0", "web-1", "web-2"] {
                rows.insert(id(0, name));
            }
            rows.insert(id(1, "node-0"));
            let details = "kubelet: status.phase: Pending → Running";
            rows.change(id(0, "web-1"), EventType::Updated, details.to_owned(), start);
            rows.change(id(1, "node-0"), EventType::Deleted, String::new(), start + Duration::from_secs(25));
            Self { labels, health, rows, start }
        }

        fn lines(&self, width: usize, height: usize, offset: usize) -> Vec<Line> {
            let view = View {
                title: "kubectl informer watch: context a",
                labels: &self.labels,
                health: &self.health,
                rows: &self.rows,
                message: Some(("watch of pods expired", self.start)),
                offset,
                now: self.start + START_TO_NOW,
            };
            frame(&view, width, height)
        }

        fn text(&self, width: usize, height: usize) -> String {
            let lines = self.lines(width, height, 0);
            lines.iter().map(|line| line.text() + "\n").collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wide_screen_has_all_columns() {
        let expected = "\
kubectl informer watch: context a
synced   3 objects   0 added, 1 updated, 1 deleted
30s ago: watch of pods expired
AGE   EVENT    RESOURCE                    OBJECT       CHANGES  LAST CHANGE
5s    DELETED  leases.coordination.k8s.io  shop/node-0  1
30s   UPDATED  pods                        shop/web-1   1        kubelet: status.phase: Pending → Running
-              pods                        shop/web-0
-              pods                        shop/web-2

arrow keys scroll, q exits
";
        assert_eq!(Table::new().text(120, 10), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn narrow_screen_omits_columns_and_shortens_texts() {
        let expected = "\
kubectl informer watch: context a
synced   3 objects   0 added, 1 updated…
30s ago: watch of pods expired
AGE   EVENT    OBJECT       LAST CHANGE
5s    DELETED  shop/node-0
30s   UPDATED  shop/web-1   kubelet: st…
-              shop/web-0
hidden: 0 rows above, 1 below; arrow ke…
";
        assert_eq!(Table::new().text(40, 8), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn screen_with_few_lines_contains_state_and_newest_rows() {
        let text = Table::new().text(100, 3);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("synced") && lines[2].contains("DELETED"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn scrolled_screen_counts_rows_above() {
        let lines = Table::new().lines(100, 8, 1);
        assert!(lines[4].text().contains("UPDATED"));
        assert_eq!(
            lines[7].text(),
            "arrow keys scroll, q exits".replace("arrow", "hidden: 1 row above, 0 below; arrow")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn lines_fit_into_a_terminal_of_any_size() {
        let table = Table::new();
        for (width, height) in (0..130).flat_map(|width| (0..14).map(move |height| (width, height))) {
            let lines = table.lines(width, height, 3);
            assert_eq!(lines.len(), height, "{width}x{height}");
            assert!(lines.iter().all(|line| line.width() <= width), "{width}x{height}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_is_in_the_line_of_the_state() {
        let mut table = Table::new();
        table.health.observe(0, &Notice::Gone, table.start);
        let lines = table.lines(100, 10, 0);
        assert!(lines[1].text().starts_with("reconnecting for 30s: pods   3 objects"));
    }
}
