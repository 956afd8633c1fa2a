//! A server whose parts tests start, stop and restart.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kube_client::config::{AuthInfo, KubeConfigOptions};
use kube_client::{Client, Config};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::files::{KUBECONFIG, NOBODY};
use super::part::Part;
use super::port::ReservedPort;
use super::programs::{self, Programs};
use super::source::{HOW_TO_GET_A_SERVER, Source, skip_or_fail};
use super::talk::{look, output, read};

mod backup;

pub use backup::Backup;

/// How long a part may take until it answers, and one command of kubectl until it ends.
pub const READY_DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait between two looks at a starting server. A start takes seconds.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How a server is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Flags for kube-apiserver besides the usual ones, such as `--watch-cache=false`.
    pub apiserver_flags: Vec<String>,
}

/// A real Kubernetes API server.
///
/// Its parts are children of this process, listen on loopback only, keep their ports across restarts, and write
/// their data and logs into a directory that goes away with this. They are killed when this is dropped; prefer
/// [`stop`](Self::stop), which ends them in order. Time must not be paused: the parts live in real time.
#[derive(Debug)]
pub struct RealServer {
    kubeconfig: PathBuf,
    /// None where the cluster was there before us.
    own: Option<Own>,
    // Declared last, because the parts in `own` write into it until they end.
    dir: TempDir,
}

/// The parts of a server that we started. A part is None while it is stopped.
#[derive(Debug)]
struct Own {
    programs: Programs,
    apiserver_flags: Vec<String>,
    controllers: Option<Part>,
    apiserver: Option<Part>,
    etcd: Option<Part>,
    apiserver_port: ReservedPort,
    etcd_port: ReservedPort,
}

impl RealServer {
    /// Finds a server (see [`Source::find`]), starts it and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When there is none (the text says how to get one), when it ends by itself, and when it isn't ready within
    /// [`READY_DEADLINE`]; the text ends with its log's last lines.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, everything that was started is killed.
    pub async fn start(options: Options) -> Result<Self> {
        let source = Source::find()?.ok_or_else(|| anyhow!("no server; {HOW_TO_GET_A_SERVER}"))?;
        Self::start_from(source, options).await
    }

    /// As [`start`](Self::start); where there is no server, [`skip_or_fail`] decides.
    ///
    /// # Errors
    ///
    /// As `start`, and when there is no server where tests must not be skipped.
    ///
    /// # Cancel safety
    ///
    /// As `start`.
    pub async fn start_or_skip(name: &str, checks: usize, options: Options) -> Result<Option<Self>> {
        match Source::find()? {
            Some(source) => Self::start_from(source, options).await.map(Some),
            None => skip_or_fail(name, checks).map(|()| None),
        }
    }

    /// As [`start`](Self::start), from a source of the caller's choice.
    ///
    /// # Errors
    ///
    /// As `start`, and for options that a running cluster can't fulfil.
    ///
    /// # Cancel safety
    ///
    /// As `start`.
    pub async fn start_from(source: Source, options: Options) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let programs = match source {
            Source::Binary(binary) => Programs::One(binary),
            Source::Assets(assets) => Programs::Separate(assets),
            Source::Cluster(kubeconfig) => {
                ensure!(options == Options::default(), "a running cluster takes no flags: {options:?}");
                let mut cluster = Self { kubeconfig, own: None, dir };
                cluster.wait_ready().await?;
                return Ok(cluster);
            }
        };
        let own = Own::new(programs, options)?;
        let mut server = Self { kubeconfig: dir.path().join(KUBECONFIG), own: Some(own), dir };
        server.start_etcd().await?;
        server.start_apiserver().await?;
        Ok(server)
    }

    /// The kubeconfig; its current context is an administrator's.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Whether the parts are ours: only then they can be stopped and restarted.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// A client that may do everything. It stays valid across restarts.
    ///
    /// # Errors
    ///
    /// When the kubeconfig can't be used.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads the kubeconfig.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// What the [administrator's client](Self::client) is made of, for those who need a client of their own.
    ///
    /// # Errors
    ///
    /// When the kubeconfig can't be used.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads the kubeconfig.
    pub async fn config(&self) -> Result<Config> {
        read(&self.kubeconfig, KubeConfigOptions::default()).await
    }

    /// Where the apiserver listens, also while it is stopped; None where the cluster isn't ours.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.own.as_ref().map(|own| own.apiserver_port.address())
    }

    /// A client without rights; on a running cluster, one without credentials.
    ///
    /// # Errors
    ///
    /// When the kubeconfig can't be used.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads the kubeconfig.
    pub async fn client_as_nobody(&self) -> Result<Client> {
        Ok(Client::try_from(self.config_of_nobody().await?)?)
    }

    /// What a [client without rights](Self::client_as_nobody) is made of, for those who need a client of their own. The
    /// user's name is `nobody`.
    ///
    /// # Errors
    ///
    /// When the kubeconfig can't be used.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads the kubeconfig.
    pub async fn config_of_nobody(&self) -> Result<Config> {
        if self.own.is_none() {
            let mut config = self.config().await?;
            config.auth_info = AuthInfo::default();
            return Ok(config);
        }
        let nobody = KubeConfigOptions { context: Some(NOBODY.to_owned()), ..KubeConfigOptions::default() };
        read(&self.kubeconfig, nobody).await
    }

    /// Starts etcd, unless it runs, and waits until it accepts connections. An apiserver that went on without it looks
    /// for it in growing intervals: it takes about as long again as etcd was away, or a restart, until it reconnects.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, etcd may be running.
    pub async fn start_etcd(&mut self) -> Result<()> {
        let dir = self.dir.path();
        let own = self.own.as_mut().ok_or_else(not_ours)?;
        if own.etcd.is_none() {
            let command = own.programs.etcd(dir, own.etcd_port.address());
            own.etcd = Some(Part::spawn("etcd", command, dir, own.programs.stop())?);
        }
        own.wait_for_etcd().await
    }

    /// Stops etcd. The apiserver goes on: its watches stay open and silent, lists from the cache are answered, and all
    /// else hangs until it times out after half a minute or more.
    ///
    /// # Errors
    ///
    /// When etcd can't be stopped, and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, etcd is killed.
    pub async fn stop_etcd(&mut self) -> Result<()> {
        stop(self.own.as_mut().ok_or_else(not_ours)?.etcd.take()).await
    }

    /// Starts the apiserver, unless it runs, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, the apiserver may be running.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        let dir = self.dir.path();
        let own = self.own.as_mut().ok_or_else(not_ours)?;
        if own.apiserver.is_none() {
            let (etcd, address) = (own.etcd_port.address(), own.apiserver_port.address());
            let command = own.programs.apiserver(dir, etcd, address, &own.apiserver_flags)?;
            own.apiserver = Some(Part::spawn("apiserver", command, dir, own.programs.stop())?);
        }
        self.wait_ready().await
    }

    /// Stops the apiserver. Connections to it are refused until it is started again.
    ///
    /// # Errors
    ///
    /// When the apiserver can't be stopped, and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, the apiserver is killed.
    pub async fn stop_apiserver(&mut self) -> Result<()> {
        stop(self.own.as_mut().ok_or_else(not_ours)?.apiserver.take()).await
    }

    /// Kills the apiserver: its watches break off in the middle, where [`stop_apiserver`](Self::stop_apiserver) lets
    /// them end.
    ///
    /// # Errors
    ///
    /// When the apiserver can't be killed, and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, the apiserver is killed, too.
    pub async fn kill_apiserver(&mut self) -> Result<()> {
        match self.own.as_mut().ok_or_else(not_ours)?.apiserver.take() {
            Some(part) => part.kill().await,
            None => Ok(()),
        }
    }

    /// Stops the apiserver and starts it again, on the same port and with the same credentials.
    ///
    /// # Errors
    ///
    /// As [`start_apiserver`](Self::start_apiserver).
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, the apiserver is stopped or running.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// As [`restart_apiserver`](Self::restart_apiserver), with other flags from now on.
    ///
    /// # Errors
    ///
    /// As `restart_apiserver`.
    ///
    /// # Cancel safety
    ///
    /// As `restart_apiserver`.
    pub async fn restart_apiserver_with(&mut self, flags: &[&str]) -> Result<()> {
        let own = self.own.as_mut().ok_or_else(not_ours)?;
        own.apiserver_flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.restart_apiserver().await
    }

    /// Starts Kubernetes' controllers, unless they run. On a running cluster there are some already.
    ///
    /// # Errors
    ///
    /// When there is no such program, or it can't be started.
    ///
    /// # Cancel safety
    ///
    /// Safe: it doesn't wait.
    pub async fn start_controllers(&mut self) -> Result<()> {
        let Some(own) = self.own.as_mut() else { return Ok(()) };
        if own.controllers.is_none() {
            let (command, stop) = own.programs.controllers(self.dir.path(), &self.kubeconfig)?;
            own.controllers = Some(Part::spawn("controllers", command, self.dir.path(), stop)?);
        }
        Ok(())
    }

    /// Makes etcd forget all versions but the newest. The apiserver's watch cache keeps what it has; lists of exact
    /// versions and continue tokens expire within 15 s, and at once with `--watch-cache=false`.
    ///
    /// # Errors
    ///
    /// When the program for it is missing or fails, and on a cluster that isn't ours.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, it may or may not have happened.
    pub async fn compact(&self) -> Result<()> {
        let own = self.own.as_ref().ok_or_else(not_ours)?;
        output(own.programs.compact(own.etcd_port.address())?, "compact").await.map(drop)
    }

    /// Runs kubectl as the administrator and returns what it prints.
    ///
    /// # Errors
    ///
    /// When there is no kubectl, when it fails (the text has its stderr), and after [`READY_DEADLINE`].
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, kubectl is killed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = programs::kubectl(self.own.as_ref().map(|own| &own.programs));
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        // Neither the user's preferences nor a cache of another server's resources.
        command.env("KUBERC", "off").env("KUBECACHEDIR", self.dir.path().join("kubectl"));
        output(command, &format!("kubectl {}", args.join(" "))).await
    }

    /// Waits until the apiserver answers that it is ready and has created the namespace `default`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            if let Some(own) = self.own.as_mut() {
                own.check_alive()?;
            }
            let Err(error) = look(&self.kubeconfig).await else { return Ok(()) };
            if Instant::now() >= deadline {
                bail!("not ready within {READY_DEADLINE:?}: {error:#}\n{}", self.log_tails());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends all parts in order and removes their directory. A running cluster is left alone.
    ///
    /// # Errors
    ///
    /// When a part can't be stopped.
    ///
    /// # Cancel safety
    ///
    /// When this is dropped early, the parts that still run are killed.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(own) = self.own.as_mut() {
            // An apiserver without its etcd can't shut down quickly.
            stop(own.controllers.take()).await?;
            stop(own.apiserver.take()).await?;
            stop(own.etcd.take()).await?;
        }
        self.dir.close().context("removing the server's directory")
    }

    fn log_tails(&self) -> String {
        let own = self.own.iter();
        let tails: Vec<String> =
            own.flat_map(|own| [&own.etcd, &own.apiserver]).flatten().map(Part::log_tail).collect();
        tails.join("\n")
    }
}

impl Own {
    fn new(programs: Programs, options: Options) -> Result<Self> {
        Ok(Self {
            programs,
            apiserver_flags: options.apiserver_flags,
            controllers: None,
            apiserver: None,
            etcd: None,
            apiserver_port: ReservedPort::new()?,
            etcd_port: ReservedPort::new()?,
        })
    }

    async fn wait_for_etcd(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            self.check_alive()?;
            let Err(error) = TcpStream::connect(self.etcd_port.address()).await else { return Ok(()) };
            if Instant::now() >= deadline {
                let tail = self.etcd.as_ref().map(Part::log_tail).unwrap_or_default();
                bail!("etcd not ready within {READY_DEADLINE:?}: {error}\n{tail}");
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn check_alive(&mut self) -> Result<()> {
        [&mut self.etcd, &mut self.apiserver].into_iter().flatten().try_for_each(Part::check_alive)
    }
}

fn not_ours() -> anyhow::Error {
    anyhow!("the parts of a cluster that runs already can't be started or stopped")
}

async fn stop(part: Option<Part>) -> Result<()> {
    match part {
        Some(part) => part.stop().await,
        None => Ok(()),
    }
}
