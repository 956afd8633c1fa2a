//! `Watch`: reads the feed, and prints its events.

use std::path::Path;

use kube_informer::{ClusterId, Event, Removal, is_sensitive};
use tokio::time::{Instant, sleep_until};

use super::{
    flags::WatchFlags,
    goal::Goal,
    live::Wake,
    missed::{Listed, missed},
    output::Output,
    printer::Printer,
    record::{EventRecord, EventType, Origin},
    state_file::{self, StateFile},
};
use crate::{
    changes::changes,
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    feed::{CachedObject, Feed, FeedItem, Notice, Target, object_value},
    interrupt::interrupted,
    output::counted,
    terminal::Terminal,
};

/// The maximum number of events before the program looks for signals, keys and the end of the timeout.
const MAX_EVENTS: usize = 256;

/// The reason why a watch stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The goal is reached, or the watch has one list only.
    Done,
    TimedOut,
    Interrupted,
}

impl End {
    pub(super) fn status(self) -> ExitStatus {
        match self {
            Self::Done => ExitStatus::Success,
            Self::TimedOut => ExitStatus::TimedOut,
            Self::Interrupted => ExitStatus::Interrupted,
        }
    }
}

/// The progress of a target.
#[derive(Debug)]
enum Progress {
    /// The first list is not complete. With `--since`, contains its objects so far.
    Listing(Option<Listed>),
    Listed,
    /// The server has rejected the first list.
    Rejected,
}

/// The state of the command.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    flags: &'a WatchFlags,
    targets: Vec<Target>,
    progress: Vec<Progress>,
    is_announced: bool,
    objects: usize,
    output: Output,
    goal: Option<Goal>,
    deadline: Option<Instant>,
    since: Option<StateFile>,
    /// The identity of the cluster in state files.
    cluster: String,
}

impl<'a> Watch<'a> {
    /// Reads the file of `--since`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub(super) async fn new(
        session: &Session,
        flags: &'a WatchFlags,
        terminal: Terminal,
        targets: Vec<Target>,
        deadline: Option<Instant>,
    ) -> Result<Self, CliError> {
        let printer =
            Printer::new(flags.output, terminal, targets.iter().map(|target| target.label.as_str()));
        let mut output = Output::new(printer);
        let has_file = flags.since.is_some() || flags.checkpoint.is_some();
        let cluster = if has_file { cluster(session).await } else { String::new() };
        let since = match &flags.since {
            Some(path) => read_state(path, flags, &cluster, &targets, &mut output)?,
            None => None,
        };
        let has_names = targets
            .iter()
            .any(|target| target.fields.as_deref().is_some_and(|fields| fields.contains("metadata.name=")));
        let expected = if has_names { targets.len() } else { 1 };
        let goal = flags.until.clone().map(|condition| Goal::new(condition, flags.any, expected));
        let progress = targets.iter().map(|_| Progress::Listing(since.is_some().then(Listed::new)));
        Ok(Self {
            flags,
            progress: progress.collect(),
            targets,
            is_announced: false,
            objects: 0,
            output,
            goal,
            deadline,
            since,
            cluster,
        })
    }

    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Displays the live table instead of lines.
    ///
    /// # Errors
    ///
    /// Fails if standard output is not a terminal.
    pub(super) fn enter(&mut self, session: &Session) -> Result<(), CliError> {
        self.output.enter(&session.target, &self.targets)
    }

    /// Prints events until the watch stops.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written, a file is damaged, or the server rejects all first lists.
    pub(super) async fn run(&mut self, feed: &mut Feed) -> Result<End, CliError> {
        let end = self.process(feed).await;
        // Later lines are printed after the live table.
        self.output.leave();
        if matches!(end, Ok(End::TimedOut)) {
            let missing = self.goal.as_ref().map(Goal::missing).unwrap_or_default();
            self.output.note(&format!("the timeout expired: {missing}"));
        }
        end
    }

    async fn process(&mut self, feed: &mut Feed) -> Result<End, CliError> {
        let mut timeout = std::pin::pin!(reached(self.deadline));
        let mut interrupted = std::pin::pin!(interrupted());
        loop {
            let item = tokio::select! {
                item = feed.next() => item,
                wake = self.output.next() => match wake {
                    Wake::Quit => return Ok(End::Interrupted),
                    Wake::Suspend => {
                        self.output.suspend()?;
                        continue;
                    }
                    Wake::Redraw => {
                        self.output.draw()?;
                        continue;
                    }
                },
                () = &mut timeout => return Ok(End::TimedOut),
                () = &mut interrupted => return Ok(End::Interrupted),
            };
            let mut next = item;
            let mut rest = MAX_EVENTS;
            while let Some((number, item)) = next {
                self.handle(number, item)?;
                self.output.flush_many()?;
                if self.is_done() {
                    self.output.flush()?;
                    return Ok(End::Done);
                }
                rest -= 1;
                next = if rest > 0 { feed.try_next() } else { None };
            }
            self.output.flush()?;
        }
    }

    /// Prints the events that the informers have received before they stopped, and writes the file of
    /// `--checkpoint`.
    ///
    /// # Errors
    ///
    /// Fails if standard output or the file cannot be written.
    pub(super) async fn save(&mut self, feed: &mut Feed) -> Result<(), CliError> {
        let Some(path) = self.flags.checkpoint.as_deref() else { return Ok(()) };
        feed.stop().await;
        while let Some((number, item)) = feed.next().await {
            self.handle(number, item)?;
        }
        self.output.flush()?;
        if self.progress.iter().any(|progress| !matches!(progress, Progress::Listed)) {
            self.output
                .note(&format!("{} was not written, because not all resources were listed", path.display()));
            return Ok(());
        }
        state_file::write(path, &self.cluster, &self.targets, |target| feed.objects(target))?;
        self.output.note(&format!("saved {} to {}", counted(self.objects, "object"), path.display()));
        Ok(())
    }

    fn handle(&mut self, number: usize, item: FeedItem) -> Result<(), CliError> {
        match item {
            FeedItem::Event(event) => self.handle_event(number, &event),
            FeedItem::Synced => self.handle_synced(number),
            FeedItem::Notice(notice) => self.handle_notice(number, &notice),
        }
    }

    fn handle_event(&mut self, number: usize, event: &Event<CachedObject>) -> Result<(), CliError> {
        let is_listed = self.is_listed();
        if let Some(goal) = &mut self.goal {
            goal.observe(number, event, !is_listed);
        }
        match event {
            Event::Added { .. } => self.objects += 1,
            Event::Deleted { .. } => self.objects = self.objects.saturating_sub(1),
            Event::Updated { .. } => {}
        }
        match event {
            Event::Added { initial: true, .. } => self.output.insert(number, event.key()),
            Event::Deleted { .. } if self.is_held(number) => self.output.remove(number, event.key()),
            _ => {}
        }
        if let Progress::Listing(Some(listed)) = &mut self.progress[number] {
            match event {
                Event::Deleted { last, .. } => _ = listed.remove(last.key()),
                event => _ = listed.insert(event.key().clone(), event.entry().clone()),
            }
            return Ok(());
        }
        match self.record(number, event) {
            Some(record) => self.output.push(number, &record),
            None => Ok(()),
        }
    }

    /// Returns the event for the output. Returns `None` if the flags omit it.
    fn record(&self, number: usize, event: &Event<CachedObject>) -> Option<EventRecord> {
        let target = &self.targets[number];
        let record = |event_type, origin| EventRecord::new(target, &event.entry().id, event_type, origin);
        match event {
            Event::Added { initial: true, .. } => {
                self.flags.initial.then(|| record(EventType::Added, Origin::Initial))
            }
            Event::Added { .. } => Some(record(EventType::Added, Origin::Watch)),
            Event::Deleted { removal: Removal::Deleted, .. } => {
                Some(record(EventType::Deleted, Origin::Watch))
            }
            Event::Deleted { .. } => Some(record(EventType::Deleted, Origin::Relist)),
            Event::Updated { old, new } => {
                let is_sensitive = is_sensitive(&target.resource.kind);
                let changes = object_value(old)
                    .and_then(|old| Ok(changes(is_sensitive, &old, &object_value(new)?, &self.flags.only)));
                record(EventType::Updated, Origin::Watch).with_result(changes)
            }
        }
    }

    fn handle_synced(&mut self, number: usize) -> Result<(), CliError> {
        let progress = std::mem::replace(&mut self.progress[number], Progress::Listed);
        if let (Progress::Listing(Some(listed)), Some(file)) = (progress, &self.since) {
            let (output, only) = (&mut self.output, &self.flags.only);
            let target = &self.targets[number];
            missed(file, target, listed, only, |record| output.push(number, &record))?;
        }
        self.output.listed(number);
        self.announce();
        Ok(())
    }

    fn handle_notice(&mut self, number: usize, notice: &Notice) -> Result<(), CliError> {
        let label = self.targets[number].label.clone();
        self.output.flush()?;
        let is_listing = matches!(self.progress[number], Progress::Listing(_));
        let rejection = notice.rejection().filter(|_| is_listing);
        if let Some(error) = rejection {
            self.progress[number] = Progress::Rejected;
            let is_all = self.progress.iter().all(|progress| matches!(progress, Progress::Rejected));
            // Without a list of each resource, the goal and the changes since the file stay unknown.
            if is_all || self.goal.is_some() || self.flags.once || self.since.is_some() {
                let error = format!("cannot watch {label}: {error}");
                return Err(CliError::Command(error.into()));
            }
        }
        self.output.observe(number, notice, &notice.text(&label, self.targets.len() > 1));
        if rejection.is_some() {
            self.announce();
        }
        Ok(())
    }

    /// Prints the number of objects, once.
    fn announce(&mut self) {
        let is_open = |progress: &Progress| matches!(progress, Progress::Listing(_));
        if self.is_announced || self.progress.iter().any(is_open) {
            return;
        }
        self.is_announced = true;
        let listed = self.targets.iter().zip(&self.progress);
        let listed = listed.filter(|(_, progress)| matches!(progress, Progress::Listed));
        let mut labels: Vec<_> = listed.map(|(target, _)| target.label.as_str()).collect();
        labels.dedup();
        self.output.note(&format!("watching {} of {}", counted(self.objects, "object"), labels.join(", ")));
    }

    /// Returns whether the objects of the first list are compared with the file of `--since` later.
    fn is_held(&self, number: usize) -> bool {
        matches!(self.progress[number], Progress::Listing(Some(_)))
    }

    fn is_listed(&self) -> bool {
        self.progress.iter().all(|progress| matches!(progress, Progress::Listed))
    }

    fn is_done(&self) -> bool {
        let is_listed = self.is_listed();
        match &self.goal {
            Some(goal) => goal.is_reached(is_listed),
            None => self.flags.once && is_listed,
        }
    }
}

/// Waits until the deadline. Without a deadline, waits indefinitely.
///
/// # Cancel safety
///
/// This function is cancel safe, because it only waits.
pub(super) async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns the identity of the cluster. Without the permission to read it, the name of the context identifies
/// it.
async fn cluster(session: &Session) -> String {
    match ClusterId::read(&session.client).await {
        Ok(id) => id.to_string(),
        Err(_) => session.target.clone(),
    }
}

fn read_state(
    path: &Path,
    flags: &WatchFlags,
    cluster: &str,
    targets: &[Target],
    output: &mut Output,
) -> Result<Option<StateFile>, CliError> {
    let state = StateFile::read(path, cluster, targets)?;
    if state.is_none() {
        if flags.checkpoint.as_deref() != Some(path) {
            let problem = format!("{} does not exist; write it with --checkpoint first", path.display());
            return Err(CliError::Usage(problem));
        }
        let result =
            if flags.once { "this run prints no changes" } else { "changes are printed from now on" };
        output.note(&format!("{} does not exist yet; {result}", path.display()));
    }
    Ok(state)
}
