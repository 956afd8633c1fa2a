//! A server with controllers, a kubelet and an observer.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube_informer_e2e::real::{Controllers, Options, RealServer};
use kube_testserver::{Listening, Server};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::objects::{Objects, observe};
use crate::step::Step;
use crate::{DEADLINE, kubelet};

/// All controllers run, except for the one that watches for heartbeats of nodes.
const FLAGS: [&str; 3] =
    ["--controllers=*,-node-lifecycle-controller", "--kube-api-qps=500", "--kube-api-burst=500"];

enum Api {
    Embedded(Listening),
    Real(Box<RealServer>),
}

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    objects: watch::Sender<Objects>,
    controllers: Controllers,
    api: Api,
    pub(crate) dir: TempDir,
}

impl Cluster {
    /// Starts kube-testserver with controllers, or returns `None` if no controllers were built.
    pub(crate) async fn embedded() -> Result<Option<Self>> {
        let dir = tempfile::tempdir()?;
        let listening = Server::new().listen_tls((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, listening.kubeconfig())?;
        Self::start(Api::Embedded(listening), kubeconfig, dir).await
    }

    /// Starts kube-apiserver with controllers, or returns `None` if there is no server.
    pub(crate) async fn real() -> Result<Option<Self>> {
        let Some(server) = RealServer::start_or_skip("released programs", 1, Options::default()).await?
        else {
            return Ok(None);
        };
        let kubeconfig = server.kubeconfig().to_owned();
        Self::start(Api::Real(Box::new(server)), kubeconfig, tempfile::tempdir()?).await
    }

    async fn start(api: Api, kubeconfig: PathBuf, dir: TempDir) -> Result<Option<Self>> {
        let Some(controllers) = Controllers::start_or_skip(&kubeconfig, dir.path(), &FLAGS)? else {
            return Ok(None);
        };
        let config = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let (client, objects) = (Client::try_from(config)?, watch::Sender::default());
        Ok(Some(Self { client, kubeconfig, objects, controllers, api, dir }))
    }

    /// Runs the kubelet and the observer, until one of them fails.
    pub(crate) async fn run(&self) -> Result<Infallible> {
        tokio::select! {
            failed = kubelet::run(&self.client) => failed,
            failed = observe(&self.client, &self.objects) => failed,
        }
    }

    pub(crate) fn objects(&self) -> watch::Receiver<Objects> {
        self.objects.subscribe()
    }

    /// Runs the actions of a step and waits until the step is done. Returns the output of programs.
    pub(crate) async fn step(&self, namespace: &str, step: &Step) -> Result<Vec<String>> {
        let side = match self.api {
            Api::Embedded(_) => "kube-testserver",
            Api::Real(_) => "kube-apiserver",
        };
        let mut output = Vec::new();
        for action in &step.actions {
            output.extend(action.run(self, namespace).await.context(side)?);
        }
        let mut objects = self.objects();
        let done = timeout(DEADLINE, objects.wait_for(|objects| (step.is_done)(objects, namespace))).await;
        let tail = || format!("{side}: the step is not done\n{}", self.controllers.log_tail());
        done.with_context(tail)??;
        Ok(output)
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.controllers.stop().await?;
        match self.api {
            Api::Embedded(listening) => listening.shutdown().await,
            Api::Real(server) => server.stop().await?,
        }
        Ok(())
    }
}
