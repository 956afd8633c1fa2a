//! A process of the comparison. It exchanges lines of JSON with this program, and is measured
//! through the system.

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
use tokio::time::{sleep, timeout};

/// The timeout for each line of a process.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(900);
/// The number of ticks per second in `/proc/PID/stat`.
const TICKS_PER_SECOND: u64 = 100;
/// A process is killed if it does not stop within this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A process is at rest if it uses less than 1/50 of a CPU.
const REST_CPU_DIVISOR: u32 = 50;
/// The usual interval of the checks whether a process is at rest.
pub(crate) const REST_INTERVAL: Duration = Duration::from_millis(500);
/// The number of checks before the wait for rest fails.
const MAX_REST_CHECKS: usize = 240;

/// A running process. It stops when its input closes, and is killed when this value is dropped.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    statistics: Statistics,
}

/// Reads the statistics of the system about a process.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    name: String,
    pid: Pid,
}

/// The resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The current size.
    pub(crate) resident: u64,
    /// The peak since the last reset.
    pub(crate) peak: u64,
}

impl Process {
    /// Starts a process. Its standard error is written to `NAME.log` in the folder `logs`.
    pub(crate) fn spawn(name: &str, mut command: Command, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs)?;
        let log = fs::File::create(logs.join(format!("{}.log", name.replace(' ', "-"))))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let pid = child.id().context("the process has stopped")?;
        let input = child.stdin.take().context("the process has no standard input")?;
        let lines =
            BufReader::new(child.stdout.take().context("the process has no standard output")?).lines();
        Ok(Self { child, input, lines, statistics: Statistics::new(name, pid)? })
    }

    /// Writes a line.
    pub(crate) async fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let line = format!("{}\n", serde_json::to_string(message)?);
        let name = &self.statistics.name;
        self.input.write_all(line.as_bytes()).await.with_context(|| format!("{name} has stopped"))
    }

    /// Reads a line.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = &self.statistics.name;
        let line = timeout(RECEIVE_TIMEOUT, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{name} printed no line for {RECEIVE_TIMEOUT:?}"))??;
        let Some(line) = line else { bail!("{name} has stopped; see its log") };
        serde_json::from_str(&line).with_context(|| format!("unexpected line from {name}: {line:?}"))
    }

    /// Returns the CPU time of all its threads, including finished threads.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.statistics.cpu()
    }

    /// Waits until the process uses almost no CPU time. `interval` is the time between two checks.
    pub(crate) async fn rest(&self, interval: Duration) -> Result<()> {
        self.statistics.rest(interval).await
    }

    /// Returns the CPU time in user mode, in ticks of 10 ms.
    pub(crate) fn user(&self) -> Result<Duration> {
        user(&fs::read_to_string(self.statistics.proc("stat"))?)
    }

    /// Returns its resident memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        self.statistics.memory()
    }

    /// Returns the number of its open sockets.
    pub(crate) fn sockets(&self) -> Result<usize> {
        self.statistics.sockets()
    }

    /// Resets the peak to the current size.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        self.statistics.reset_peak()
    }

    /// Closes its input and waits until it stops.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.input);
        match timeout(STOP_TIMEOUT, self.child.wait()).await {
            Ok(status) => drop(status?),
            Err(_) => self.child.kill().await?,
        }
        Ok(())
    }
}

impl Statistics {
    /// Creates a reader for a process.
    pub(crate) fn new(name: &str, pid: u32) -> Result<Self> {
        Ok(Self { name: name.to_owned(), pid: Pid::from_raw(i32::try_from(pid)?) })
    }

    /// Returns the CPU time of all its threads, including finished threads.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let clock =
            ClockId::pid_cpu_clock_id(self.pid).with_context(|| format!("{} has stopped", self.name))?;
        Ok(clock.now()?.into())
    }

    /// Waits until the process uses almost no CPU time. `interval` is the time between two checks.
    pub(crate) async fn rest(&self, interval: Duration) -> Result<()> {
        for _ in 0..MAX_REST_CHECKS {
            let before = self.cpu()?;
            sleep(interval).await;
            if self.cpu()? - before <= interval / REST_CPU_DIVISOR {
                return Ok(());
            }
        }
        bail!("{} is still busy after the maximum wait", self.name)
    }

    /// Returns its resident memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(self.proc("status"))?;
        Ok(Memory { resident: kibibytes(&status, "VmRSS:")?, peak: kibibytes(&status, "VmHWM:")? })
    }

    /// Returns the number of its open sockets.
    pub(crate) fn sockets(&self) -> Result<usize> {
        let files = fs::read_dir(self.proc("fd"))?;
        // A file may close in the meantime.
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
    }

    /// Resets the peak to the current size.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(self.proc("clear_refs"), "5")?)
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.pid)
    }
}

/// Parses the user time in `/proc/PID/stat`. The name may contain any characters, so the fields
/// after the name are counted.
fn user(stat: &str) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat has no name")?;
    let ticks: u64 = fields.split(' ').nth(11).context("/proc/PID/stat has no user time")?.parse()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Parses a line of `/proc/PID/status`. Returns bytes.
fn kibibytes(status: &str, name: &str) -> Result<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("/proc/PID/status has no {name}"))?;
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
    fn user_time_is_parsed_after_any_name() -> Result<()> {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 126 0 0 0 250 99 0 0 20 0";
        assert_eq!(user(stat)?, Duration::from_millis(2500));
        assert!(user("7 (a").is_err());
        Ok(())
    }

    #[tokio::test]
    async fn process_exchanges_lines_and_is_measured() -> Result<()> {
        let logs = tempfile::tempdir()?;
        let mut process = Process::spawn("an echo", Command::new("cat"), logs.path())?;
        process.send(&"hello").await?;
        assert_eq!(process.receive::<String>().await?, "hello");
        process.reset_peak()?;
        let memory = process.memory()?;
        assert!(memory.resident > 0 && memory.peak >= memory.resident, "{memory:?}");
        assert!(process.cpu()? > Duration::ZERO);
        assert!(process.user()? < Duration::from_secs(1));
        process.stop().await
    }
}
