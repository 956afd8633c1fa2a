//! `Live`: the table of `watch --live`. It has a row for each object, and is updated in place.

mod frame;
mod health;
mod input;
mod line;
mod rows;
mod screen;
mod signals;

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use kube_informer::ObjectKey;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    printer::{TABLE_CHANGES, TABLE_VALUE_CHARS, details},
    record::EventRecord,
};
use crate::{
    error::CliError,
    feed::{Notice, Target},
    output::{counted, shortened},
    terminal::Terminal,
};
use frame::{View, frame, visible_rows};
use health::Health;
use input::Input;
use rows::Rows;
use screen::Screen;
pub(crate) use screen::restore;
use signals::{Signal, Signals};

/// The time between two updates of the screen.
const PERIOD: Duration = Duration::from_millis(250);
/// The minimum time between two updates after events. A person cannot read more.
const MIN_PERIOD: Duration = Duration::from_millis(100);
/// The maximum number of characters of the changes of an object. It is larger than usual terminals.
const MAX_DETAIL_CHARS: usize = 400;

/// The reason why [`Live::next`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The ages on the screen have changed, or the user has pressed a key.
    Redraw,
    /// The user has pressed q or Ctrl-C, or the terminal was closed.
    Quit,
    /// The user has pressed Ctrl-Z: [`Live::suspend`] must be called.
    Suspend,
}

/// The live table, while it is on the screen.
#[derive(Debug)]
pub(super) struct Live {
    title: String,
    labels: Vec<String>,
    health: Health,
    rows: Rows,
    message: Option<(String, Instant)>,
    offset: usize,
    drawn: Option<Instant>,
    ticks: tokio::time::Interval,
    /// The keys and changes of the size. `None` after the end of the input.
    input: Option<Input>,
    signals: Signals,
    screen: Screen,
}

impl Live {
    /// Switches the terminal to the table.
    ///
    /// # Errors
    ///
    /// Fails if standard output is not a terminal.
    pub(super) fn start(terminal: Terminal, cluster: &str, targets: &[Target]) -> Result<Self, CliError> {
        let labels: Vec<String> = targets.iter().map(|target| target.label.clone()).collect();
        let screen = Screen::enter(terminal)?;
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            title: title(cluster, targets),
            health: Health::new(labels.iter().map(String::as_str)),
            labels,
            rows: Rows::default(),
            message: None,
            offset: 0,
            drawn: None,
            ticks,
            input: Some(Input::start()),
            signals: Signals::new(),
            screen,
        })
    }

    /// Adds an object of the first list.
    pub(super) fn insert(&mut self, target: usize, key: &ObjectKey) {
        self.rows.insert((target, key.clone()));
    }

    /// Removes an object that disappeared before the first list was complete.
    pub(super) fn remove(&mut self, target: usize, key: &ObjectKey) {
        self.rows.remove(&(target, key.clone()));
    }

    /// Displays an event.
    pub(super) fn push(&mut self, target: usize, record: &EventRecord) {
        let key = ObjectKey::new(record.namespace.as_deref(), &record.name);
        let details = shortened(&details(record, TABLE_CHANGES, TABLE_VALUE_CHARS), MAX_DETAIL_CHARS);
        self.rows.change((target, key), record.event, details, Instant::now());
    }

    /// Displays that the first list of a target is complete.
    pub(super) fn listed(&mut self, target: usize) {
        self.health.listed(target);
    }

    /// Displays the state of a watch after an incident.
    pub(super) fn observe(&mut self, target: usize, notice: &Notice) {
        self.health.observe(target, notice, Instant::now());
    }

    /// Displays a message in the third line.
    pub(super) fn note(&mut self, text: &str) {
        self.message = Some((text.to_owned(), Instant::now()));
    }

    /// Waits until the screen must be drawn, or until the user stops the program.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no key is lost.
    pub(super) async fn next(&mut self) -> Wake {
        let input = async {
            match &mut self.input {
                Some(input) => input.next().await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = input => event,
            signal = self.signals.next() => return match signal {
                Signal::Hangup => Wake::Quit,
                Signal::Stop => Wake::Suspend,
            },
            _ = self.ticks.tick() => return Wake::Redraw,
        };
        match event {
            Some(Event::Key(key)) => self.press(key),
            Some(_) => Wake::Redraw,
            // Without input, signals still end the program.
            None => {
                self.input = None;
                Wake::Redraw
            }
        }
    }

    fn press(&mut self, key: KeyEvent) -> Wake {
        if key.kind == KeyEventKind::Release {
            return Wake::Redraw;
        }
        let page = visible_rows(Screen::size().1);
        let last = self.rows.len().saturating_sub(page);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wake::Quit,
            KeyCode::Char('z') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wake::Suspend,
            KeyCode::Char('q') => return Wake::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.offset = last.min(self.offset + 1),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(page),
            KeyCode::PageDown => self.offset = last.min(self.offset + page),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.offset = last,
            _ => {}
        }
        Wake::Redraw
    }

    /// Restores the terminal, stops the process until SIGCONT, and displays the table again.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn suspend(&mut self) -> Result<(), CliError> {
        self.screen.suspend()?;
        self.draw()
    }

    /// Draws the screen. If the last drawing was a short time ago, [`next`](Self::next) draws it later.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn draw_events(&mut self) -> Result<(), CliError> {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < MIN_PERIOD) {
            return Ok(());
        }
        self.draw()
    }

    /// Draws the screen.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn draw(&mut self) -> Result<(), CliError> {
        let now = Instant::now();
        self.drawn = Some(now);
        self.rows.expire(now);
        let (width, height) = Screen::size();
        self.offset = self.offset.min(self.rows.len().saturating_sub(visible_rows(height)));
        let view = View {
            title: &self.title,
            labels: &self.labels,
            health: &self.health,
            rows: &self.rows,
            message: self.message.as_ref().map(|(text, at)| (text.as_str(), *at)),
            offset: self.offset,
            now,
        };
        self.screen.draw(&frame(&view, width, height))
    }

    /// Returns the numbers of objects and events, for the line after the end of the table.
    pub(super) fn summary(&self) -> String {
        let counts = self.rows.counts();
        format!(
            "watched {}: {} added, {} updated, {} deleted",
            counted(self.rows.objects(), "object"),
            counts.added,
            counts.updated,
            counts.deleted
        )
    }
}

/// Returns the first line: the resources, the namespace and the cluster.
fn title(cluster: &str, targets: &[Target]) -> String {
    let mut labels: Vec<_> = targets.iter().map(|target| target.label.as_str()).collect();
    labels.dedup();
    let namespace = targets.iter().find_map(|target| target.namespace.as_deref());
    let namespace = match namespace {
        Some(namespace) => format!(" in namespace {namespace}"),
        None => String::new(),
    };
    format!("kubectl informer watch: {}{namespace}, {cluster}", labels.join(", "))
}
