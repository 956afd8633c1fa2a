//! A server with parts that a test can start, stop and restart.

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

/// The deadline for the start of a part, and for one kubectl command.
pub const READY_DEADLINE: Duration = Duration::from_secs(60);

/// The interval between readiness checks. A start takes seconds.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Options of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Additional flags for kube-apiserver, for example `--watch-cache=false`.
    pub apiserver_flags: Vec<String>,
}

/// A real Kubernetes API server.
///
/// Its parts are child processes of this process. They listen only on loopback, keep their ports across
/// restarts, and store their data and logs in a directory that is removed with this value. They are
/// killed when this value is dropped. Prefer [`stop`](Self::stop), which stops them in order. Do not
/// pause tokio's time, because the parts run in real time.
#[derive(Debug)]
pub struct RealServer {
    kubeconfig: PathBuf,
    /// `None` for an existing cluster.
    own: Option<Own>,
    // Declared last, because the parts in `own` write into it until they end.
    dir: TempDir,
}

/// The parts of a server that this process started. A part is `None` while it is stopped.
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
    /// Fails if there is no server (the error explains how to get one), if it exits, and if it is not
    /// ready within [`READY_DEADLINE`]. The error contains the last lines of the log.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all started processes are killed.
    pub async fn start(options: Options) -> Result<Self> {
        let source = Source::find()?.ok_or_else(|| anyhow!("no server; {HOW_TO_GET_A_SERVER}"))?;
        Self::start_from(source, options).await
    }

    /// Does the same as [`start`](Self::start). If there is no server, calls [`skip_or_fail`].
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as `start`, and if there is no server and tests must not be skipped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all started processes are killed.
    pub async fn start_or_skip(name: &str, checks: usize, options: Options) -> Result<Option<Self>> {
        match Source::find()? {
            Some(source) => Self::start_from(source, options).await.map(Some),
            None => skip_or_fail(name, checks).map(|()| None),
        }
    }

    /// Starts a server from `source`, like [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as `start`, and if `source` is an existing cluster and `options` are not
    /// the defaults.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all started processes are killed.
    pub async fn start_from(source: Source, options: Options) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let programs = match source {
            Source::Binary(binary) => Programs::One(binary),
            Source::Assets(assets) => Programs::Separate(assets),
            Source::Cluster(kubeconfig) => {
                ensure!(
                    options == Options::default(),
                    "an existing cluster does not support options: {options:?}"
                );
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

    /// Returns the path of the kubeconfig. Its current context belongs to an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns whether this value started the server. Only such a server can be stopped and restarted.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Returns a client with all permissions. The client remains valid across restarts.
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig is invalid.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It only reads the kubeconfig.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Returns the configuration of the [administrator's client](Self::client).
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig is invalid.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It only reads the kubeconfig.
    pub async fn config(&self) -> Result<Config> {
        read(&self.kubeconfig, KubeConfigOptions::default()).await
    }

    /// Returns the address of the apiserver, also while it is stopped, or `None` for an existing
    /// cluster.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.own.as_ref().map(|own| own.apiserver_port.address())
    }

    /// Returns a client without permissions. For an existing cluster, the client has no credentials.
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig is invalid.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It only reads the kubeconfig.
    pub async fn client_as_nobody(&self) -> Result<Client> {
        Ok(Client::try_from(self.config_of_nobody().await?)?)
    }

    /// Returns the configuration of a [client without permissions](Self::client_as_nobody). The name of
    /// the user is `nobody`.
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig is invalid.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It only reads the kubeconfig.
    pub async fn config_of_nobody(&self) -> Result<Config> {
        if self.own.is_none() {
            let mut config = self.config().await?;
            config.auth_info = AuthInfo::default();
            return Ok(config);
        }
        let nobody = KubeConfigOptions { context: Some(NOBODY.to_owned()), ..KubeConfigOptions::default() };
        read(&self.kubeconfig, nobody).await
    }

    /// Starts etcd if it does not run, and waits until it accepts connections. A running apiserver
    /// reconnects with growing intervals. This takes about as long as etcd was stopped, unless the
    /// apiserver is restarted.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`start`](Self::start), and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, etcd may be running.
    pub async fn start_etcd(&mut self) -> Result<()> {
        let dir = self.dir.path();
        let own = self.own.as_mut().ok_or_else(existing_cluster_error)?;
        if own.etcd.is_none() {
            let command = own.programs.etcd(dir, own.etcd_port.address());
            own.etcd = Some(Part::spawn("etcd", command, dir, own.programs.stop())?);
        }
        own.wait_for_etcd().await
    }

    /// Stops etcd. The apiserver continues. Its watches stay open without events, and lists are served
    /// from its cache. Other requests hang until they time out after 30 seconds or more.
    ///
    /// # Errors
    ///
    /// Fails if etcd cannot be stopped, and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, etcd is killed.
    pub async fn stop_etcd(&mut self) -> Result<()> {
        stop(self.own.as_mut().ok_or_else(existing_cluster_error)?.etcd.take()).await
    }

    /// Starts the apiserver if it does not run, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`start`](Self::start), and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the apiserver may be running.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        let dir = self.dir.path();
        let own = self.own.as_mut().ok_or_else(existing_cluster_error)?;
        if own.apiserver.is_none() {
            let (etcd, address) = (own.etcd_port.address(), own.apiserver_port.address());
            let command = own.programs.apiserver(dir, etcd, address, &own.apiserver_flags)?;
            own.apiserver = Some(Part::spawn("apiserver", command, dir, own.programs.stop())?);
        }
        self.wait_ready().await
    }

    /// Stops the apiserver. Connections fail until the apiserver starts again.
    ///
    /// # Errors
    ///
    /// Fails if the apiserver cannot be stopped, and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the apiserver is killed.
    pub async fn stop_apiserver(&mut self) -> Result<()> {
        stop(self.own.as_mut().ok_or_else(existing_cluster_error)?.apiserver.take()).await
    }

    /// Kills the apiserver. This resets its watches, while [`stop_apiserver`](Self::stop_apiserver)
    /// closes them gracefully.
    ///
    /// # Errors
    ///
    /// Fails if the apiserver cannot be killed, and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the apiserver is also killed.
    pub async fn kill_apiserver(&mut self) -> Result<()> {
        match self.own.as_mut().ok_or_else(existing_cluster_error)?.apiserver.take() {
            Some(part) => part.kill().await,
            None => Ok(()),
        }
    }

    /// Stops the apiserver and starts it again, on the same port and with the same credentials.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`start_apiserver`](Self::start_apiserver), and if the
    /// apiserver cannot be stopped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the apiserver may be stopped or running.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Restarts the apiserver with other flags, like [`restart_apiserver`](Self::restart_apiserver). Later
    /// restarts use the same flags.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as `restart_apiserver`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the apiserver may be stopped or running.
    pub async fn restart_apiserver_with(&mut self, flags: &[&str]) -> Result<()> {
        let own = self.own.as_mut().ok_or_else(existing_cluster_error)?;
        own.apiserver_flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.restart_apiserver().await
    }

    /// Starts the controllers of Kubernetes if they do not run. An existing cluster already runs them.
    ///
    /// # Errors
    ///
    /// Fails if the program does not exist or cannot be started.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It does not wait.
    pub async fn start_controllers(&mut self) -> Result<()> {
        let Some(own) = self.own.as_mut() else { return Ok(()) };
        if own.controllers.is_none() {
            let (command, stop) = own.programs.controllers(self.dir.path(), &self.kubeconfig)?;
            own.controllers = Some(Part::spawn("controllers", command, self.dir.path(), stop)?);
        }
        Ok(())
    }

    /// Compacts etcd, except the latest version. The watch cache of the apiserver keeps its history.
    /// Lists of exact versions and continue tokens expire within 15 s, and immediately with
    /// `--watch-cache=false`.
    ///
    /// # Errors
    ///
    /// Fails if the necessary program does not exist or fails, and for an existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, etcd may be compacted or not.
    pub async fn compact(&self) -> Result<()> {
        let own = self.own.as_ref().ok_or_else(existing_cluster_error)?;
        output(own.programs.compact(own.etcd_port.address())?, "compact").await.map(drop)
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    ///
    /// Fails if there is no kubectl, if it fails (the error contains its stderr), and after
    /// [`READY_DEADLINE`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, kubectl is killed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = programs::kubectl(self.own.as_ref().map(|own| &own.programs));
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        // Disables the preferences of the user and the discovery cache of other servers.
        command.env("KUBERC", "off").env("KUBECACHEDIR", self.dir.path().join("kubectl"));
        output(command, &format!("kubectl {}", args.join(" "))).await
    }

    /// Waits until the apiserver is ready and has created the namespace `default`.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. It only sends read requests.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            if let Some(own) = self.own.as_mut() {
                own.check_alive()?;
            }
            let Err(error) = look(&self.kubeconfig).await else { return Ok(()) };
            if Instant::now() >= deadline {
                bail!("apiserver is not ready within {READY_DEADLINE:?}: {error:#}\n{}", self.log_tails());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Stops all parts in order and removes their directory. Does not stop an existing cluster.
    ///
    /// # Errors
    ///
    /// Fails if a part cannot be stopped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the remaining parts are killed.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(own) = self.own.as_mut() {
            // An apiserver without etcd cannot shut down quickly.
            stop(own.controllers.take()).await?;
            stop(own.apiserver.take()).await?;
            stop(own.etcd.take()).await?;
        }
        self.dir.close().context("remove the directory of the server")
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
                bail!("etcd is not ready within {READY_DEADLINE:?}: {error}\n{tail}");
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn check_alive(&mut self) -> Result<()> {
        [&mut self.etcd, &mut self.apiserver].into_iter().flatten().try_for_each(Part::check_alive)
    }
}

fn existing_cluster_error() -> anyhow::Error {
    anyhow!("an existing cluster cannot be started, stopped or restarted")
}

async fn stop(part: Option<Part>) -> Result<()> {
    match part {
        Some(part) => part.stop().await,
        None => Ok(()),
    }
}
