//! `Chromium`: a process of Chromium without a window.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::timeout,
};

/// The names of the program in Debian and other distributions.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The time limit for the start, and for the exit after the processes are killed.
const LIMIT: Duration = Duration::from_secs(60);

/// The start of the line with the address of the DevTools.
const READY: &str = "DevTools listening on ws://";

/// Contains the flags. The tests may run as root, for which the sandbox of Chromium does not work. The
/// tests open only pages of this project.
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-address=127.0.0.1",
    "--remote-debugging-port=0",
];

/// Runs Chromium without a window. Its processes are killed if the value is dropped.
pub struct Chromium {
    process: Child,
    /// Chromium blocks if its standard error is full or closed.
    errors: Lines<BufReader<ChildStderr>>,
    group: Pid,
    /// The host, the port and the path of the DevTools.
    pub(crate) address: String,
    _profile: TempDir,
}

impl Chromium {
    /// Starts Chromium with a new profile. If Chromium is not installed, prints a line and returns `None`.
    ///
    /// # Errors
    ///
    /// Fails if Chromium does not start. Also fails if it is not installed while the environment variable
    /// `CI` is `true`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the processes are killed.
    pub async fn start_or_skip() -> Result<Option<Self>> {
        let Some(program) = find() else {
            ensure!(
                env::var("CI").as_deref() != Ok("true"),
                "chromium is not installed, and CI=true requires it; run .ci/browser install"
            );
            println!("skipped: chromium is not installed; run .ci/browser install");
            return Ok(None);
        };
        Self::start(&program).await.map(Some)
    }

    async fn start(program: &Path) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        // The processes of Chromium are in one group, which `kill` stops.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let id = process.id().context("chromium has already exited")?;
        let errors = process.stderr.take().context("chromium has no standard error")?;
        let mut chromium = Self {
            process,
            errors: BufReader::new(errors).lines(),
            group: Pid::from_raw(id.try_into()?),
            address: String::new(),
            _profile: profile,
        };
        let read = chromium.read_address();
        chromium.address = timeout(LIMIT, read).await.context("chromium did not start in a minute")??;
        Ok(chromium)
    }

    async fn read_address(&mut self) -> Result<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.errors.next_line().await? {
            if let Some((_, url)) = line.split_once(READY) {
                return Ok(url.to_owned());
            }
            lines.push(line);
        }
        bail!("chromium exited during its start: {}", lines.join("; "))
    }

    /// Kills the processes and waits until they have exited.
    ///
    /// # Errors
    ///
    /// Fails if the processes do not exit.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the processes are killed, but the caller does not wait for their exit.
    pub async fn stop(mut self) -> Result<()> {
        self.kill();
        let exited = async {
            while self.errors.next_line().await?.is_some() {}
            self.process.wait().await
        };
        timeout(LIMIT, exited).await.context("chromium did not exit")??;
        Ok(())
    }

    fn kill(&self) {
        match killpg(self.group, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => eprintln!("cannot kill chromium: {error}"),
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // After the exit of the process, the system may use its number for another process.
        if self.process.id().is_some() {
            self.kill();
        }
    }
}

/// Returns the path of an installed Chromium.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
}
