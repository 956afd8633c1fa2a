//! One program of a server: a child process that writes its output to a log file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The time limit for a graceful shutdown. The program is killed afterwards.
const STOP_GRACE: Duration = Duration::from_secs(15);

/// The number of log lines in an error.
const TAIL: usize = 25;

/// The way to stop a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The program shuts down when its stdin closes.
    ClosedStdin,
    /// The program does not support a graceful shutdown and is killed.
    Kill,
}

/// A running program. It is killed when this value is dropped. A program that watches its stdin also
/// exits if this process is killed.
#[derive(Debug)]
pub(super) struct Part {
    name: &'static str,
    child: Child,
    stop: Stop,
    log: PathBuf,
}

impl Part {
    /// Starts `command` and appends its output to `NAME.log` in `dir`.
    pub(super) fn spawn(name: &'static str, mut command: Command, dir: &Path, stop: Stop) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output: File = OpenOptions::new().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { name, child, stop, log })
    }

    /// Stops the program and waits until it exits.
    pub(super) async fn stop(mut self) -> Result<()> {
        if self.stop == Stop::ClosedStdin {
            drop(self.child.stdin.take());
            if let Ok(ended) = timeout(STOP_GRACE, self.child.wait()).await {
                ended?;
                return Ok(());
            }
        }
        self.kill().await
    }

    /// Kills the program and waits until it exits.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("kill {}", self.name))
    }

    /// Fails if the program exited unexpectedly.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} exited with {status}\n{}", self.name, self.log_tail());
        }
        Ok(())
    }

    /// Returns the last lines of the log, or the error of reading the log.
    pub(super) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log)
            .map_or_else(|error| error.to_string(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        format!("--- last lines of the log of {}:\n{}", self.name, tail(&text))
    }
}

fn tail(text: &str) -> &str {
    let start = text.trim_end().rmatch_indices('\n').nth(TAIL - 1).map_or(0, |(at, _)| at + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tail_contains_last_lines() {
        let lines: Vec<String> = (1..=100).map(|line| format!("line {line}")).collect();
        let text = lines.join("\n") + "\n";
        assert_eq!(tail(&text), lines[100 - TAIL..].join("\n") + "\n");
        assert_eq!(tail("one\ntwo\n"), "one\ntwo\n");
        assert_eq!(tail(""), "");
    }

    #[tokio::test]
    async fn part_with_watched_stdin_stops_gracefully() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let script = shell("cat >/dev/null; echo stopped gently");
        let part = Part::spawn("gentle", script, dir.path(), Stop::ClosedStdin)?;
        part.stop().await?;
        assert_eq!(std::fs::read_to_string(dir.path().join("gentle.log"))?, "stopped gently\n");
        Ok(())
    }

    #[tokio::test]
    async fn error_of_exited_part_contains_its_log() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut part = Part::spawn("brief", shell("echo no such flag; exit 3"), dir.path(), Stop::Kill)?;
        part.child.wait().await?;
        let error = part.check_alive().map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("exit status: 3") && text.contains("no such flag")));
        Ok(())
    }
}
