//! A program of the comparison: told and heard by lines of JSON, measured from outside.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::time::ClockId;
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Nothing that is waited for takes longer than this.
const PATIENCE: Duration = Duration::from_secs(900);
/// The system counts in ticks of so many a second where it tells user time from system time.
const TICKS: u64 = 100;
/// A program that was told to stop is killed after this.
const STOP: Duration = Duration::from_secs(30);

/// A running program. It ends when its input is closed, and is killed when this is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    pid: Pid,
}

/// What a process has in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Now.
    pub(crate) resident: u64,
    /// The most since it was reset.
    pub(crate) peak: u64,
}

impl Process {
    /// Starts a program; what it complains of goes to `NAME.log` in a folder.
    pub(crate) fn spawn(name: &str, mut command: Command, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs)?;
        let log = fs::File::create(logs.join(format!("{}.log", name.replace(' ', "-"))))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let pid = child.id().context("it has ended at once")?;
        let input = child.stdin.take().context("no input")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Self { name: name.to_owned(), child, input, lines, pid: Pid::from_raw(i32::try_from(pid)?) })
    }

    /// Writes a line.
    pub(crate) async fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        let line = format!("{}\n", serde_json::to_string(what)?);
        self.input.write_all(line.as_bytes()).await.with_context(|| format!("{} has ended", self.name))
    }

    /// Reads a line.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{} has said nothing for {PATIENCE:?}", self.name))??;
        let Some(line) = line else { bail!("{} has ended; its log says why", self.name) };
        serde_json::from_str(&line).with_context(|| format!("{} has said {line:?}", self.name))
    }

    /// The processor time of all its threads, those that have ended included.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let clock =
            ClockId::pid_cpu_clock_id(self.pid).with_context(|| format!("{} has ended", self.name))?;
        Ok(clock.now()?.into())
    }

    /// What of it was spent in the program and not in the system, to a tick.
    pub(crate) fn user(&self) -> Result<Duration> {
        user(&fs::read_to_string(self.proc("stat"))?)
    }

    /// What it has in memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(self.proc("status"))?;
        Ok(Memory { resident: kibibytes(&status, "VmRSS:")?, peak: kibibytes(&status, "VmHWM:")? })
    }

    /// Lets the peak begin again with what it has in memory now.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(self.proc("clear_refs"), "5")?)
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.pid)
    }

    /// Closes its input and waits for its end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.input);
        match timeout(STOP, self.child.wait()).await {
            Ok(ended) => drop(ended?),
            Err(_) => self.child.kill().await?,
        }
        Ok(())
    }
}

/// The user time in `/proc/PID/stat`. A program's name may hold anything, so fields are counted from behind it.
fn user(stat: &str) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(") ").context("no name")?;
    let ticks: u64 = fields.split(' ').nth(11).context("no user time")?.parse()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// A line of `/proc/PID/status`, in bytes.
fn kibibytes(status: &str, name: &str) -> Result<u64> {
    let line =
        status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    let number = line.trim().strip_suffix(" kB").with_context(|| format!("{name}{line}"))?;
    Ok(number.trim().parse::<u64>()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() -> Result<()> {
        let status = "Name:\tx\nVmHWM:\t    1796 kB\nVmRSS:\t      12 kB\n";
        assert_eq!((kibibytes(status, "VmHWM:")?, kibibytes(status, "VmRSS:")?), (1796 << 10, 12 << 10));
        assert!(kibibytes(status, "VmSwap:").is_err());
        Ok(())
    }

    #[test]
    fn user_time_is_found_behind_any_name() -> Result<()> {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 126 0 0 0 250 99 0 0 20 0";
        assert_eq!(user(stat)?, Duration::from_millis(2500));
        assert!(user("7 (a").is_err());
        Ok(())
    }

    #[tokio::test]
    async fn a_program_is_told_heard_and_measured_from_outside() -> Result<()> {
        let logs = tempfile::tempdir()?;
        let mut process = Process::spawn("an echo", Command::new("cat"), logs.path())?;
        process.tell(&"hello").await?;
        assert_eq!(process.hear::<String>().await?, "hello");
        process.reset_peak()?;
        let memory = process.memory()?;
        assert!(memory.resident > 0 && memory.peak >= memory.resident, "{memory:?}");
        assert!(process.cpu()? > Duration::ZERO);
        assert!(process.user()? < Duration::from_secs(1));
        process.stop().await
    }
}
