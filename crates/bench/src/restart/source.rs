//! The server of the measured programs, and what a program costs it.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;
use kube_client::Client;
use kube_testserver::Server;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

use crate::http_server::{RequestCounter, serve};
use crate::pods::Pod;
use crate::record::create as create_pods;
use crate::server::{Cluster, Meter, Relay, ServerCpu};

/// The server of the measured programs.
pub(super) enum Source {
    /// A kube-testserver in this process, which counts the bytes of all connections.
    Embedded { url: String, counter: RequestCounter, serving: JoinHandle<io::Result<()>> },
    /// A real kube-apiserver behind a relay, which counts the bytes of the server.
    Real { cluster: Box<Cluster>, relay: Relay, kubeconfig: PathBuf, idle: ServerCpu },
}

/// The state of the server before a program starts.
pub(super) struct Before {
    bytes: u64,
    meter: Option<Meter>,
}

/// The cost of a program for the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCost {
    pub(super) bytes: u64,
    /// The seconds of CPU time of kube-apiserver, without the time that an idle server needs.
    pub(super) cpu: Option<f64>,
}

impl Source {
    pub(super) async fn embedded(pods: usize) -> Result<Self> {
        let server = Server::builder().field_ownership(true).build();
        let pods: Vec<Pod> = (0..pods).map(Pod::new).collect();
        create_pods(&Client::new(server.service(), "default"), &pods).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let counter = RequestCounter::default();
        let serving = tokio::spawn(serve(listener, server.service(), counter.clone()));
        Ok(Self::Embedded { url, counter, serving })
    }

    pub(super) async fn real(pods: usize) -> Result<Self> {
        let cluster = Box::new(Cluster::start(pods).await?);
        let original = cluster.real().kubeconfig();
        let relay = Relay::start(original, None).await?;
        let kubeconfig = original.with_extension("relay");
        relay.write_kubeconfig(original, &kubeconfig)?;
        let idle = cluster.idle().await?;
        Ok(Self::Real { cluster, relay, kubeconfig, idle })
    }

    /// Adds the arguments with which a program finds the server.
    pub(super) fn add_arguments(&self, command: &mut Command) {
        match self {
            Self::Embedded { url, .. } => command.arg("--server").arg(url),
            Self::Real { kubeconfig, .. } => command.arg("--kubeconfig").arg(kubeconfig),
        };
    }

    pub(super) async fn begin(&self) -> Result<Before> {
        let meter = match self {
            Self::Embedded { .. } => None,
            Self::Real { cluster, .. } => Some(cluster.begin().await?),
        };
        Ok(Before { bytes: self.bytes(), meter })
    }

    pub(super) fn end(&self, Before { bytes, meter }: Before) -> Result<ServerCost> {
        let cpu = match (self, meter) {
            (Self::Real { cluster, idle, .. }, Some(meter)) => {
                Some(cluster.end(meter)?.without(*idle).apiserver)
            }
            _ => None,
        };
        Ok(ServerCost { bytes: self.bytes() - bytes, cpu })
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Embedded { counter, .. } => counter.total().bytes,
            Self::Real { relay, .. } => relay.received(),
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Embedded { serving, .. } => {
                serving.abort();
                Ok(())
            }
            Self::Real { cluster, .. } => cluster.stop().await,
        }
    }
}
