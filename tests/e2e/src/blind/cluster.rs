//! The API server of one case, with the account of the operator.

use std::{fs, net::Ipv4Addr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::CustomResourceExt as _;
use kube_client::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
    config::Kubeconfig,
};
use kube_operator::ensure_crd;
use kube_testserver::{
    Fault as ServerFault, FaultGuard, Listening, RequestMatch, Rights, Rule, Server, Status, Verb,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    NAMESPACE, ServerKind, WEBHOOK, WEBHOOK_MESSAGE,
    account::{self, ACCOUNT},
    admission,
    operator::Website,
    plan::Fault,
};
use crate::{
    real::{Options, RealServer},
    webhook::Webhook,
};

/// The time limit for the creation of the CRD.
const CRD_LIMIT: Duration = Duration::from_secs(30);
const ADMIN_TOKEN: &str = "token-of-the-administrator";
const OPERATOR_TOKEN: &str = "token-of-the-operator";

/// A running API server, and its faults. Dropping this value stops the server.
pub(super) struct Cluster {
    /// A client with all permissions.
    pub(super) admin: Client,
    server: RunningServer,
    webhook: Option<Webhook>,
    /// The active faults of an embedded server.
    faults: Vec<FaultGuard>,
    folder: TempDir,
}

enum RunningServer {
    Embedded { server: Server, listening: Listening },
    Real(Box<RealServer>),
}

impl Cluster {
    /// Starts a server with the CRD and two Websites, unless the fault is the missing CRD.
    pub(super) async fn start(kind: ServerKind, fault: Fault) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut cluster = match kind {
            ServerKind::Embedded => Self::embedded(folder).await?,
            ServerKind::Real => Self::real(folder).await?,
        };
        cluster.create("v1", "Namespace", None, NAMESPACE, json!({})).await?;
        let token = cluster.create_account(fault).await?;
        fs::write(cluster.kubeconfig(), cluster.kubeconfig_of_operator(&token)?.to_string())?;
        if fault == Fault::RefusingWebhook {
            cluster.refuse_deployments().await?;
        }
        if fault != Fault::MissingCrd {
            ensure_crd(&cluster.admin, &Website::crd(), "admin", CRD_LIMIT).await?;
            for name in ["home", "docs"] {
                let spec = json!({"image": "web:1", "replicas": 2, "html": format!("welcome to {name}")});
                let rest = json!({"spec": spec});
                cluster.create("example.com/v1", "Website", Some(NAMESPACE), name, rest).await?;
            }
        }
        Ok(cluster)
    }

    async fn embedded(folder: TempDir) -> Result<Self> {
        let server = Server::builder()
            .garbage_collector(true)
            .user(ADMIN_TOKEN, "admin", Rights::All)
            .user(OPERATOR_TOKEN, ACCOUNT, Rights::All)
            .build();
        let listening = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let mut config = Config::new(listening.url().parse()?);
        config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
        let server = RunningServer::Embedded { server, listening };
        Ok(Self { admin: Client::try_from(config)?, server, webhook: None, faults: Vec::new(), folder })
    }

    async fn real(folder: TempDir) -> Result<Self> {
        let server = RealServer::start(Options::default()).await?;
        ensure!(
            server.is_own(),
            "the program cannot use an existing cluster; {}",
            crate::real::HOW_TO_GET_A_SERVER
        );
        let admin = server.client().await?;
        let server = RunningServer::Real(Box::new(server));
        Ok(Self { admin, server, webhook: None, faults: Vec::new(), folder })
    }

    /// Creates the account of the operator, and returns its token.
    async fn create_account(&self, fault: Fault) -> Result<String> {
        let may_patch = fault != Fault::MissingRight;
        match &self.server {
            RunningServer::Embedded { server, .. } => {
                if !may_patch {
                    let patches =
                        Rule::deny().users(&[ACCOUNT]).verbs(&["patch"]).resources(&["deployments"]);
                    server.access().add_rule(patches);
                }
                Ok(OPERATOR_TOKEN.to_owned())
            }
            RunningServer::Real(_) => account::create(self, may_patch).await,
        }
    }

    /// Returns the path of the kubeconfig of the operator.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the path of the log of the operator.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn kubeconfig_of_operator(&self, token: &str) -> Result<Value> {
        let config = match &self.server {
            RunningServer::Embedded { listening, .. } => Kubeconfig::from_yaml(&listening.kubeconfig())?,
            RunningServer::Real(server) => Kubeconfig::read_from(server.kubeconfig())?,
        };
        let cluster = config.clusters.first().and_then(|named| named.cluster.as_ref());
        let cluster = cluster.context("the kubeconfig of the server contains no cluster")?;
        Ok(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "operator",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "operator", "user": {"token": token}}],
            "contexts": [{
                "name": "operator",
                "context": {"cluster": "cluster", "user": "operator", "namespace": NAMESPACE},
            }],
        }))
    }

    /// Creates an object with all permissions.
    pub(super) async fn create(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        mut object: Value,
    ) -> Result<()> {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name, "namespace": namespace});
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        };
        let object = serde_json::from_value(object)?;
        let created = api.create(&PostParams::default(), &object).await;
        created.map(drop).with_context(|| format!("cannot create the {kind} {name}"))
    }

    /// Denies the Deployments of the operator, with a webhook or with the same response.
    async fn refuse_deployments(&mut self) -> Result<()> {
        match &self.server {
            RunningServer::Embedded { server, .. } => {
                let message =
                    format!("admission webhook \"{WEBHOOK}\" denied the request: {WEBHOOK_MESSAGE}");
                let denied = ServerFault::Status(Status::new(400, "", message));
                let applies = RequestMatch::verb(Verb::Patch).resource("deployments");
                self.faults.push(server.faults().always(applies, denied));
            }
            RunningServer::Real(_) => {
                let running = Webhook::start(WEBHOOK_MESSAGE).await?;
                admission::register(&self.admin, &running).await?;
                self.webhook = Some(running);
            }
        }
        Ok(())
    }

    /// Rejects all writes of Leases.
    pub(super) async fn reject_lease_writes(&mut self) -> Result<()> {
        match &mut self.server {
            RunningServer::Embedded { server, .. } => {
                let renewals = RequestMatch::verb(Verb::Update).resource("leases");
                let failed = ServerFault::internal_error("etcdserver: request timed out");
                self.faults.push(server.faults().always(renewals, failed));
                Ok(())
            }
            RunningServer::Real(server) => server.stop_etcd().await,
        }
    }

    /// Stops the server, and waits until it has stopped.
    pub(super) async fn stop(self) -> Result<()> {
        drop((self.faults, self.webhook));
        match self.server {
            RunningServer::Embedded { listening, .. } => {
                listening.abort().await;
                Ok(())
            }
            RunningServer::Real(server) => server.stop().await,
        }
    }
}
