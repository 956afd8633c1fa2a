//! The manager, and the reconciler of Pages.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, Resource};
use kube_operator::{
    Action, CachedClient, Controller, EventRecorder, EventType, Failure, Manager, ManagerOptions,
    OperationResult, Reconciler, Request, WriteKind, informer::InformerFactory,
};

use crate::{NAME, config::Config, page::Page};

/// Creates the operator without starting it.
///
/// # Errors
/// Fails if an address is in use, or if an option is invalid.
pub(crate) fn operator(client: Client, options: ManagerOptions, config: &Config) -> anyhow::Result<Manager> {
    let mut factory = InformerFactory::new(client.clone());
    if let Some(namespace) = &config.watch_namespace {
        factory = factory.namespace(namespace);
    }
    let mut manager = Manager::with_factory(client, factory, options)?;
    // The command `rbac` prints these permissions, and the manager checks them at its start.
    manager.require_writes::<Page>(&[WriteKind::PatchStatus]);
    manager.require_writes::<ConfigMap>(&[WriteKind::Apply]);
    let recorder = manager.event_recorder(NAME)?;
    let client = manager.cached_client(NAME).force(); // reads from caches, and writes only as the leader
    let controller = Controller::new(&client.informer::<Page>()?)
        .owns(&client.informer::<ConfigMap>()?)
        .concurrency(config.concurrency)
        .reconcile_timeout(Duration::from_secs(30));
    manager.add_controller(controller, Pages { client, recorder, key: config.key.clone() });
    Ok(manager)
}

struct Pages {
    client: CachedClient,
    recorder: EventRecorder,
    key: String,
}

impl Reconciler<Page> for Pages {
    async fn reconcile(&self, request: Request<Page>) -> Result<Action, Failure> {
        let Some(page) = request.object.present().filter(|page| page.meta().deletion_timestamp.is_none())
        else {
            return Ok(Action::AwaitChange); // the garbage collector deletes the ConfigMap
        };
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: page.metadata.name.clone(),
                namespace: page.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(self.key.clone(), page.spec.text.clone())])),
            ..ConfigMap::default()
        };
        if self.client.apply_owned(&*page, map).await?.result == OperationResult::Created {
            self.recorder.event(&*page, EventType::Normal, "Published", "Publish", "created the ConfigMap");
        }
        self.client
            .patch_status(page, |page| {
                page.status.get_or_insert_default().observed_generation = page.metadata.generation;
                Ok(())
            })
            .await?;
        Ok(Action::Done)
    }
}
