//! The `Manager` of the operator, with its controller.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube_client::{Api, Client};
use kube_informer::CachedApi;
use kube_operator::{Applier, Controller, ElectionOptions, Finalizer, Manager, ManagerOptions, WriteKind};

use super::{FIELD_MANAGER, Website, directory::Directory, reconcile::Websites};

/// Configures the operator for one process and cluster.
#[derive(Clone, Debug)]
pub struct OperatorOptions {
    /// The namespace of the Lease and of the directory.
    pub namespace: String,
    /// The identity of this process in the leader election. The default is unique.
    pub identity: Option<String>,
    /// The address of the metrics, health and debug pages.
    pub address: Option<SocketAddr>,
}

/// Creates the operator without starting it. [`Manager::run`] starts it.
///
/// # Errors
///
/// Fails if the address is in use or the identity is empty.
pub fn operator(client: Client, options: OperatorOptions) -> anyhow::Result<Manager> {
    let OperatorOptions { namespace, identity, address } = options;
    let mut election = ElectionOptions::new(&namespace, "website-operator");
    election.identity = identity.unwrap_or(election.identity);
    let identity = election.identity.clone();
    let mut manager = Manager::new(
        client,
        ManagerOptions {
            bind_address: address,
            election: Some(election),
            cache_sync_timeout: Duration::from_secs(60),
            ..ManagerOptions::default()
        },
    )?;
    let writer = manager.client();
    let recorder = manager.event_recorder("website-operator")?;
    let sites = manager.factory().informer::<Website>()?;
    let pages = manager.factory().informer::<ConfigMap>()?;
    let deployments = manager.factory().informer::<Deployment>()?;
    let services = manager.factory().informer::<Service>()?;
    let cached_pages = CachedApi::new(Api::all(writer.clone()), &pages);
    manager.require_writes::<Website>(&[WriteKind::Finalizer, WriteKind::UpdateStatus]);
    manager.require_writes::<ConfigMap>(&[WriteKind::Apply]); // also of the directory
    manager.require_writes::<Deployment>(&[WriteKind::Apply]);
    manager.require_writes::<Service>(&[WriteKind::Apply]);
    let websites = Websites {
        sites: CachedApi::new(Api::all(writer.clone()), &sites),
        deployments: CachedApi::new(Api::all(writer.clone()), &deployments),
        services: CachedApi::new(Api::all(writer), &services),
        directory: Directory::new(cached_pages.namespace(&namespace)),
        pages: cached_pages,
        applier: Applier::new(FIELD_MANAGER).force(),
        finalizer: Finalizer::new("examples.kube-informer.dev/directory"),
        recorder,
        identity,
    };
    let controller = Controller::new(&sites)
        .owns(&pages)
        .owns(&deployments)
        .owns(&services)
        .concurrency(4)
        .reconcile_timeout(Duration::from_secs(30));
    manager.add_controller(controller, websites);
    Ok(manager)
}
