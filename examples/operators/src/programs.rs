//! The programs of the operators, and their processes.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

/// The time limit for a graceful shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The time limit for an expected line in a log.
const LOG_LIMIT: Duration = Duration::from_secs(60);
/// The interval of the checks of a log.
const LOG_INTERVAL: Duration = Duration::from_millis(20);

/// The library of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The crate kube-operator in this workspace.
    KubeOperator,
    /// The Go module controller-runtime.
    ControllerRuntime,
    /// The crate kube-runtime of kube-rs.
    KubeRs,
}

impl Library {
    /// Returns the name of the library, which is also the name of its folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeOperator => "kube-operator",
            Self::ControllerRuntime => "controller-runtime",
            Self::KubeRs => "kube-rs",
        }
    }

    /// Returns whether the operators on this library elect a leader. kube-rs contains no election, and its
    /// documentation recommends a single replica.
    pub fn elects(self) -> bool {
        self != Self::KubeRs
    }
}

/// A program that can be started.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    log_filter: &'static str,
    shard_group: Option<(&'static str, usize)>,
    /// The library of the program.
    pub library: Library,
}

/// All replicas of a program.
pub struct Replicas(Vec<Running>);

/// A process of a program. It is killed when this value is dropped.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Describes an existing program.
    pub fn new(library: Library, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), log_filter: "info,kube_client=off", shard_group: None, library }
    }

    /// Adds shards: the replicas of a group share the objects. Only programs on kube-operator support shards.
    #[must_use]
    pub fn sharded(self, group: &'static str, replicas: usize) -> Self {
        Self { shard_group: Some((group, replicas)), ..self }
    }

    /// Sets the filter of the log of programs in Rust. By default, it includes the level info.
    #[must_use]
    pub fn log_filter(self, log_filter: &'static str) -> Self {
        Self { log_filter, ..self }
    }

    /// Builds the program of an operator in Go. Returns `None` if Go is missing.
    ///
    /// # Errors
    ///
    /// Fails if the build fails. Also fails if Go is missing while the environment variable `CI` is `true`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the build continues in the background.
    pub async fn controller_runtime(operator: &str) -> Result<Option<Self>> {
        static BUILD: OnceCell<Option<PathBuf>> = OnceCell::const_new();
        let folder = BUILD.get_or_try_init(build_go).await?;
        Ok(folder.as_ref().map(|folder| Self::new(Library::ControllerRuntime, folder.join(operator))))
    }

    /// Returns the group of replicas that share the objects, and the number of its replicas.
    pub fn shards(&self) -> Option<(&'static str, usize)> {
        self.shard_group
    }

    /// Starts the program, and appends its output to a log in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn start(&self, kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> Result<Running> {
        let log = folder.join("operator.log");
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(&self.path);
        command.args(arguments).env("KUBECONFIG", kubeconfig).env("POD_NAMESPACE", "default");
        command.env("RUST_LOG", self.log_filter).env("NO_COLOR", "1");
        if let Some((group, _)) = self.shard_group {
            command.env("SHARD_GROUP", group);
        }
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.path.display()))?;
        Ok(Running { child, log })
    }

    /// Starts all replicas: several with shards, otherwise one. They append to the same log.
    ///
    /// # Errors
    ///
    /// Fails if a replica cannot be started. The others are killed.
    pub fn start_replicas(&self, kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> Result<Replicas> {
        let replicas = self.shard_group.map_or(1, |(_, replicas)| replicas);
        Ok(Replicas((0..replicas).map(|_| self.start(kubeconfig, folder, arguments)).collect::<Result<_>>()?))
    }
}

impl Replicas {
    /// Waits until the log of the replicas contains a text.
    ///
    /// # Errors
    ///
    /// Fails after a minute, or if the log cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for_log(&self, text: &str) -> Result<()> {
        self.0.first().context("no replica runs")?.wait_for_log(text).await
    }

    /// Stops one replica after another with SIGTERM, so the others take its objects.
    ///
    /// # Errors
    ///
    /// Fails if a replica does not exit with code 0 within 30 s. All replicas are then killed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the replicas.
    pub async fn stop(self) -> Result<()> {
        for replica in self.0 {
            replica.stop().await?;
        }
        Ok(())
    }
}

impl Running {
    /// Returns the log of all processes with the same folder.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Returns the id of the process.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the process exits.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be observed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn exited(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Waits until the log contains a text.
    ///
    /// # Errors
    ///
    /// Fails after a minute, or if the log cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for_log(&self, text: &str) -> Result<()> {
        let polling = async {
            while !self.log()?.contains(text) {
                sleep(LOG_INTERVAL).await;
            }
            anyhow::Ok(())
        };
        let found = timeout(LOG_LIMIT, polling).await;
        found.with_context(|| format!("the log does not contain {text:?}"))?
    }

    /// Sends SIGTERM, and waits until the process exits.
    ///
    /// # Errors
    ///
    /// Fails if the process does not exit with code 0 within 30 s. It is then killed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the process.
    pub async fn stop(mut self) -> Result<()> {
        let id = self.child.id().context("the operator has stopped early")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let Ok(status) = timeout(STOP_LIMIT, self.child.wait()).await else {
            self.child.kill().await?;
            bail!("the operator was killed because it did not exit within {STOP_LIMIT:?} after SIGTERM");
        };
        let status = status?;
        ensure!(status.success(), "the operator exited with {status} after SIGTERM");
        Ok(())
    }
}

/// Builds all operators in Go, and returns the folder of the programs. Programs of the same sources are not
/// built again.
async fn build_go() -> Result<Option<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut script = Command::new(folder.join("../../.ci/go-operators"));
    let built = script.stdin(Stdio::null()).output().await.context("cannot start .ci/go-operators")?;
    if built.status.success() {
        return Ok(Some(folder.join("bin")));
    }
    let why = String::from_utf8_lossy(&built.stderr).into_owned();
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    ensure!(!is_ci && why.starts_with("go-operators: needs Go"), "{why}");
    // Not println: the test harness would hide it when the test passes.
    writeln!(std::io::stderr(), "SKIPPED: go-operators: {why}")?;
    Ok(None)
}
