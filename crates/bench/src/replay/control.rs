//! The control protocol of the replay server: reads a command per line and writes a reply per line,
//! both in JSON.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Counts, Replay};

/// The first line that the server prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// The URL of the server.
    pub(crate) url: String,
}

/// A command for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Command {
    /// Release this number of events.
    Release(u64),
    /// Release events at a fixed rate.
    Pace {
        /// The number of events.
        events: u64,
        /// The number of events per second.
        per_second: u64,
    },
    /// Expire all events, and apply this number of changes that no watch sends.
    Expire(u64),
    /// Wait until this number of complete lists was sent.
    States(u64),
    /// Report the number of requests and bytes.
    Counts,
}

/// The reply to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// The resourceVersion of the server.
    pub(crate) version: u64,
    /// The number of requests and bytes so far.
    pub(crate) counts: Counts,
}

/// Executes commands until the input closes.
///
/// # Errors
///
/// Fails if a line is not a command, or if I/O fails.
///
/// # Cancel safety
///
/// If the future is dropped, a command may be executed without a reply.
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
