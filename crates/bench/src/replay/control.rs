//! How the comparison drives the server: a command a line on one side, an answer a line on the other, both in JSON.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Counts, Replay};

/// The first line that the server prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// Where it is.
    pub(crate) url: String,
}

/// What the server is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Command {
    /// Release so many events.
    Release(u64),
    /// Release so many events, so many a second.
    Pace {
        /// How many.
        events: u64,
        /// How fast.
        per_second: u64,
    },
    /// Forget history, and change so many objects where nobody sees it.
    Expire(u64),
    /// Wait until the whole state was sent so often.
    States(u64),
    /// Say what was asked for.
    Counts,
}

/// What it answers once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// Its version.
    pub(crate) version: u64,
    /// What was asked for so far.
    pub(crate) counts: Counts,
}

/// Carries out commands until there are no more.
///
/// # Errors
/// A line that is no command; and what reading and writing fails with.
///
/// # Cancel safety
/// Dropped early, a command may be carried out and not answered.
pub(crate) async fn control(
    replay: &Replay,
    input: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut lines = input.lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::Release(events) => replay.release(events),
            Command::Pace { events, per_second } => replay.pace(events, per_second).await,
            Command::Expire(changes) => replay.expire(changes),
            Command::States(states) => replay.wait_for_states(states).await,
            Command::Counts => {}
        }
        let reply = Reply { version: replay.version(), counts: replay.counts() };
        output.write_all(format!("{}\n", serde_json::to_string(&reply)?).as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}
