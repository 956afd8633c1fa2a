//! The server, its load and its faults, and the informers.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_client::config::AuthInfo;
use kube_client::{Api, Client};
use kube_informer::{Informer, ListWatch, ReflectorOptions};
use tempfile::TempDir;
use tokio::time::Instant;

use super::certificates::{Certificates, SERVER_NAME};
use super::credentials::Credentials;
use super::subject::Subject;
use super::{Settings, next_step, pause};
use crate::load::cluster;
use crate::load::truth::Scope;
use crate::load::writer::{NAMESPACES, Writer};
use crate::real::{Options, RealServer};

/// The tokens rotate in two of three cycles. In the third cycle, they expire first.
const CYCLES_PER_EXPIRY: u32 = 3;

pub(super) struct Environment {
    server: RealServer,
    admin: Client,
    writer: Writer,
    certificates: Certificates,
    credentials: Credentials,
    subjects: Vec<Subject>,
    _folder: TempDir,
}

impl Environment {
    /// Starts a server with ten thousand objects, four writing workers, and the informers.
    pub(super) async fn start(settings: &Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let certificates = Certificates::create(folder.path())?;
        let server = RealServer::start(Options { apiserver_flags: vec![certificates.flag()] }).await?;
        let mut config = server.config().await?;
        config.default_retry = false;
        let admin = Client::try_from(config)?;
        cluster::prepare(&admin).await?;
        let (config_maps, gadgets) = (ApiResource::erase::<ConfigMap>(&()), cluster::gadgets());
        let credentials = Credentials::create(&admin, folder.path(), settings.program.clone()).await?;
        let writer = Writer::start(&admin, &config_maps, &gadgets).await?;
        let mut environment =
            Self { server, admin, writer, certificates, credentials, subjects: Vec::new(), _folder: folder };
        environment.add_subjects(&config_maps, &gadgets).await?;
        environment.writer.go();
        Ok(environment)
    }

    async fn add_subjects(&mut self, config_maps: &ApiResource, gadgets: &ApiResource) -> Result<()> {
        let all = || Scope::all(config_maps.clone());
        let options = || ReflectorOptions { streaming_lists: true, ..ReflectorOptions::default() };

        let client = self.connect(self.credentials.of_file()).await?;
        let typed = Informer::<ConfigMap>::builder(Api::all(client)).reflector_options(options()).build();
        self.subjects.push(Subject::start("typed, token file", all(), typed));

        let client = self.connect(self.credentials.of_exec_plugin()).await?;
        let metadata = Informer::<PartialObjectMeta<ConfigMap>>::builder(Api::all(client));
        let metadata = metadata.reflector_options(options()).build();
        self.subjects.push(Subject::start("metadata, exec plugin", all(), metadata));

        let client = self.connect(self.credentials.of_exec_plugin()).await?;
        let paged = ReflectorOptions { page_size: Some(400), streaming_lists: false, ..options() };
        let second = Informer::<ConfigMap>::builder(Api::namespaced(client, NAMESPACES[1]));
        let scope = Scope { namespace: Some(NAMESPACES[1]), ..all() };
        let second = second.reflector_options(paged).build();
        self.subjects.push(Subject::start("one namespace, pages, exec plugin", scope, second));

        let client = self.connect(self.credentials.of_file()).await?;
        let dynamic = ListWatch::<DynamicObject>::dynamic(Api::all_with(client, gadgets), gadgets);
        let dynamic = Informer::from_source(dynamic).reflector_options(options()).build();
        self.subjects.push(Subject::start(
            "custom resource, token file",
            Scope::all(gadgets.clone()),
            dynamic,
        ));
        Ok(())
    }

    /// Creates a client that accepts only certificates of the replaced authority.
    async fn connect(&self, auth_info: AuthInfo) -> Result<Client> {
        let mut config = self.server.config().await?;
        config.auth_info = auth_info;
        config.root_cert = Some(vec![self.certificates.authority()]);
        config.root_cert_file = None;
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Runs the faults of one cycle, with this time between them.
    pub(super) async fn run_cycle(&mut self, cycle: u32, step: Duration) -> Result<()> {
        let mut at = Instant::now();
        let expires = cycle % CYCLES_PER_EXPIRY == CYCLES_PER_EXPIRY - 1;
        self.certificates.replace()?;
        if !expires {
            self.credentials.rotate().await?;
        }
        next_step(&mut at, step).await;
        self.server.compact().await?;
        next_step(&mut at, step).await;
        if cycle.is_multiple_of(2) {
            self.server.restart_apiserver().await?;
        } else {
            self.server.kill_apiserver().await?;
            pause(10).await;
            self.server.start_apiserver().await?;
        }
        next_step(&mut at, step).await;
        if cycle % 2 == 1 {
            self.server.stop_etcd().await?;
            pause(2).await;
            self.server.start_etcd().await?;
        }
        next_step(&mut at, step).await;
        if expires {
            // The connections of before the expiry are closed, so the informers get 401.
            self.server.restart_apiserver().await?;
            pause(20).await;
            self.credentials.rotate().await?;
        }
        Ok(())
    }

    /// Pauses the writers, and waits until each cache and each handler has the state of the server.
    pub(super) async fn settle(&mut self, within: Duration) -> Result<()> {
        self.writer.pause().await?;
        let deadline = Instant::now() + within;
        loop {
            let behind = match self.behind().await {
                Ok(None) => return Ok(()),
                Ok(Some(behind)) => behind,
                Err(error) => format!("cannot list the state of the server: {error:#}"),
            };
            if Instant::now() >= deadline {
                bail!("after {within:?}, {behind}");
            }
            pause(2).await;
        }
    }

    /// Returns an informer that does not have the state of the server.
    async fn behind(&self) -> Result<Option<String>> {
        for subject in &self.subjects {
            let truth = subject.scope.list(&self.admin).await.context(subject.name)?;
            if let Some(difference) = subject.difference(&truth) {
                return Ok(Some(format!("{}: {difference}\n{}", subject.name, subject.status())));
            }
        }
        Ok(None)
    }

    /// Lets the writers continue.
    pub(super) fn resume(&mut self) {
        self.writer.go();
    }

    /// Returns the work so far on one line.
    pub(super) fn summary(&self) -> String {
        let sum = |count: fn(&Subject) -> u64| self.subjects.iter().map(count).sum::<u64>();
        let lists = sum(|subject| subject.status().reflector.lists);
        let errors = sum(|subject| subject.status().reflector.errors);
        format!("{} writes, {lists} lists, {errors} errors", self.writer.succeeded())
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.writer.stop().await;
        for subject in self.subjects {
            subject.stop().await?;
        }
        self.server.stop().await
    }
}
