//! `record`: writes lists and watches to a file, from which `serve` starts a server.

mod redaction;

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use clap::Args;
use kube_operator::Recording;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::{
    changes::Pattern,
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    feed::{Feed, FeedItem},
    flags::{SelectionFlags, duration},
    interrupt::interrupted,
    output::{bytes, counted, note, print_text},
    resources::Catalog,
    watch::targets,
};
use redaction::Redaction;

/// The options of `record`.
#[derive(Debug, Args)]
pub(crate) struct RecordFlags {
    /// The resources, for example pods,deploy, and then optionally the names of objects. TYPE/NAME selects
    /// one object.
    #[arg(value_name = "RESOURCE [NAME]", required = true)]
    objects: Vec<String>,
    /// Write the recording to this file. Only the owner can read it.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Exit after this time, for example 10m. Without the flag, Ctrl-C stops the recording.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Replace the values of these fields, for example spec.template.spec.containers.env.value. The contents
    /// of Secrets are always replaced.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    redact: Vec<Pattern>,
    // The heading of these flags also applies to later flags, so they are the last.
    #[command(flatten)]
    selection: SelectionFlags,
}

/// The time between two lines with the number of events.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Counts the contents of a recording.
#[derive(Debug, Default)]
struct Counts {
    listed: usize,
    events: usize,
    /// Whether the list of a resource is complete.
    has_list: bool,
}

/// The reason for the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The time of `--duration` is over.
    TimeOver,
    /// The file is full, or cannot be written.
    Stopped,
}

/// The formats of `--output` of other commands.
const FORMATS: [&str; 6] = ["table", "wide", "json", "jsonl", "yaml", "name"];

/// Checks that the file is not the name of a format. Such a file is probably a mistake.
fn check_is_no_format(file: &Path) -> Result<(), CliError> {
    let Some(format) = FORMATS.iter().find(|format| file == Path::new(format)) else { return Ok(()) };
    let problem = format!(
        "--output of record is a file, and not a format; use for example pods.recording, or ./{format}"
    );
    Err(CliError::Usage(problem))
}

/// Records until the time is over, or the user presses Ctrl-C. Then completes the file, and prints its
/// contents and the number of removed values.
///
/// # Errors
///
/// Fails if the server cannot be reached or rejects all lists, or if the file cannot be written. The earlier
/// file then remains.
pub(crate) async fn record(session: &Session, flags: &RecordFlags) -> Result<ExitStatus, CliError> {
    check_is_no_format(&flags.output)?;
    let failed = |error| CliError::Command(Box::new(error));
    let redaction = Redaction::new(&flags.redact);
    let (recording, client) = {
        let redaction = redaction.clone();
        let redact = move |_: &str, object: &mut serde_json::Value| redaction.apply(object);
        Recording::start_with_redaction(&flags.output, session.direct_client.clone(), redact)
            .map_err(failed)?
    };
    let started = Instant::now();
    let opened = async {
        // The file also contains the lists of resources, from which `serve` reads the kinds of custom
        // resources.
        let catalog = Catalog::read(&client).await?;
        catalog.print_problem();
        let targets = targets(&catalog, &flags.objects, &flags.selection, &session.namespace)?;
        let feed = Feed::start(client.clone(), &targets)?;
        Ok::<_, CliError>((targets, feed))
    };
    let mut interrupted = std::pin::pin!(interrupted());
    let opened = tokio::select! {
        opened = opened => opened.map(Some),
        () = &mut interrupted => Ok(None),
    };
    let (targets, mut feed) = match opened {
        Ok(Some(opened)) => opened,
        // The recording has no object. An earlier file remains.
        unopened => {
            let discarded = recording.discard().map_err(failed);
            unopened?;
            return discarded.map(|()| ExitStatus::Interrupted);
        }
    };
    let labels: Vec<_> = targets.iter().map(|target| target.label.as_str()).collect();
    let mut counts = Counts::default();
    let end = follow(&mut feed, &labels, flags.duration, &recording, interrupted, &mut counts).await;
    feed.close().await;
    match end {
        Ok(end) if counts.has_list || end == End::Stopped => {}
        // A file without a list is not usable. An earlier file remains.
        unusable => {
            recording.discard().map_err(failed)?;
            return without_list(unusable?, &flags.output);
        }
    }
    let hidden = recording.hidden_values().unwrap_or_default();
    recording.finish().await.map_err(failed)?;
    let size = std::fs::metadata(&flags.output).map(|file| file.len()).unwrap_or_default();
    print_text(&format!(
        "recorded {} of {} and {} in {:.0} s to {} ({})\n{}",
        counted(counts.listed, "object"),
        labels.join(", "),
        counted(counts.events, "event"),
        started.elapsed().as_secs_f64(),
        flags.output.display(),
        bytes(size),
        redaction.summary(hidden),
    ))?;
    Ok(ExitStatus::Success)
}

/// Returns the result of a recording that stopped before the first list was complete.
fn without_list(end: End, file: &Path) -> Result<ExitStatus, CliError> {
    let problem = format!("no list was complete, so {} was not written", file.display());
    if end == End::Interrupted {
        note(&problem);
        return Ok(ExitStatus::Interrupted);
    }
    Err(CliError::Command(format!("{problem}; use a longer --duration").into()))
}

/// The progress of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Listing,
    Listed,
    /// The server has rejected the list.
    Rejected,
}

/// Counts events until the time is over, the recording stops, or `interrupted` is ready. Prints the number of
/// events if it has changed.
///
/// # Errors
///
/// Fails if the server rejects the lists of all resources.
async fn follow(
    feed: &mut Feed,
    labels: &[&str],
    duration: Option<Duration>,
    recording: &Recording,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
    counts: &mut Counts,
) -> Result<End, CliError> {
    let mut progress = vec![Progress::Listing; labels.len()];
    let mut printed = 0;
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    let mut end = std::pin::pin!(end);
    loop {
        let item = tokio::select! {
            item = feed.next() => item,
            () = &mut end => return Ok(End::TimeOver),
            () = &mut interrupted => return Ok(End::Interrupted),
            _ = ticks.tick() => {
                // The recording stops at its maximum size, and after an error of the disk.
                if recording.hidden_values().is_none() {
                    return Ok(End::Stopped);
                }
                if counts.events > printed {
                    printed = counts.events;
                    note(&format!("recorded {}", counted(printed, "event")));
                }
                continue;
            }
        };
        match item {
            None => return Ok(End::Stopped),
            Some((_, FeedItem::Event(kube_informer::Event::Added { initial: true, .. }))) => {
                counts.listed += 1;
            }
            Some((_, FeedItem::Event(_))) => counts.events += 1,
            Some((number, FeedItem::Synced)) => {
                counts.has_list = true;
                advance(&mut progress, number, Progress::Listed, labels, counts.listed);
            }
            Some((number, FeedItem::Notice(notice))) => {
                if let Some(error) = notice.rejection().filter(|_| progress[number] == Progress::Listing) {
                    if progress.iter().filter(|progress| **progress != Progress::Rejected).count() == 1 {
                        let error = format!("cannot record {}: {error}", labels[number]);
                        return Err(CliError::Command(error.into()));
                    }
                    advance(&mut progress, number, Progress::Rejected, labels, counts.listed);
                }
                note(&notice.text(labels[number], labels.len() > 1));
            }
        }
    }
}

/// Changes the progress of a resource. Prints the number of objects when the last list is complete.
fn advance(progress: &mut [Progress], number: usize, new: Progress, labels: &[&str], objects: usize) {
    let was_listing = std::mem::replace(&mut progress[number], new) == Progress::Listing;
    if was_listing && !progress.contains(&Progress::Listing) {
        let listed = labels.iter().zip(&*progress).filter(|(_, progress)| **progress == Progress::Listed);
        let listed: Vec<_> = listed.map(|(label, _)| *label).collect();
        note(&format!("recording {} of {}", counted(objects, "object"), listed.join(", ")));
    }
}
