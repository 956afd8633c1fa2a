//! One run: from what a site asks for to what is there.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube_informer::CachedApi;
use kube_operator::{
    Action, Applier, EventRecorder, EventType, Failure, Finalizer, FinalizerEvent, Reconciler, Request,
    condition, is_condition_true, set_condition, update_status,
};

use super::{Website, children::Children, directory::Directory};

/// All that a run needs. What it reads comes from caches that show what it has written; what it writes is sent only while this
/// process leads.
pub(super) struct Websites {
    pub(super) sites: CachedApi<Website>,
    pub(super) pages: CachedApi<ConfigMap>,
    pub(super) deployments: CachedApi<Deployment>,
    pub(super) services: CachedApi<Service>,
    pub(super) applier: Applier,
    pub(super) finalizer: Finalizer,
    pub(super) directory: Directory,
    pub(super) recorder: EventRecorder,
    /// The name of this process.
    pub(super) identity: String,
}

impl Reconciler<Website> for Websites {
    async fn reconcile(&self, request: Request<Website>) -> Result<Action, Failure> {
        let Some(site) = request.object else {
            // It is gone, and what it owned goes with it: the garbage collector sees to that.
            self.finalizer.forget(&request.key);
            self.forget_children(request.key.namespace().unwrap_or_default(), request.key.name());
            return Ok(Action::AwaitChange);
        };
        let sites = self.sites.namespace(request.key.namespace().unwrap_or_default());
        let run = async |event| match event {
            FinalizerEvent::Apply(site) => self.apply(&sites, site).await,
            FinalizerEvent::Cleanup(site) => {
                self.directory.remove(&site).await?;
                Ok(Action::Done)
            }
        };
        self.finalizer.reconcile(&sites, site, run).await
    }
}

impl Websites {
    async fn apply(&self, sites: &CachedApi<Website>, site: Arc<Website>) -> Result<Action, Failure> {
        let Children { page, deployment, service } = Children::of(&site)?;
        let namespace = site.metadata.namespace.as_deref().unwrap_or_default();
        self.applier.apply(&self.pages.namespace(namespace), &page).await?;
        let deployment = self.applier.apply(&self.deployments.namespace(namespace), &deployment).await?;
        self.applier.apply(&self.services.namespace(namespace), &service).await?;
        self.directory.add(&site).await?;
        self.tell(sites, site, available(&deployment.object)).await?;
        Ok(Action::Done)
    }

    /// Says in the status how the site is, and in an event that it is up.
    async fn tell(
        &self,
        sites: &CachedApi<Website>,
        site: Arc<Website>,
        available: i32,
    ) -> Result<(), Failure> {
        let wanted = site.spec.replicas;
        let is_ready = available >= wanted;
        let mut ready = match is_ready {
            true => condition("Ready", "True", "Serving", ""),
            false => {
                condition("Ready", "False", "Starting", format!("{available} of {wanted} replicas serve"))
            }
        };
        ready.observed_generation = site.metadata.generation;
        let was_ready =
            site.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Ready"));
        update_status(sites, Arc::clone(&site), |site| {
            let status = site.status.get_or_insert_default();
            status.observed_generation = site.metadata.generation;
            if set_condition(&mut status.conditions, ready) || status.written_by.is_none() {
                status.written_by = Some(self.identity.clone());
            }
            Ok(())
        })
        .await?;
        if is_ready && !was_ready {
            let note = format!("{wanted} replicas serve");
            self.recorder.event(&*site, EventType::Normal, "Published", "Publish", note);
        }
        Ok(())
    }

    fn forget_children(&self, namespace: &str, name: &str) {
        self.applier.forget(&self.pages.namespace(namespace), name);
        self.applier.forget(&self.deployments.namespace(namespace), name);
        self.applier.forget(&self.services.namespace(namespace), name);
    }
}

/// How many Pods serve; none while the Deployment's own controller has not seen what it is to be.
fn available(deployment: &Deployment) -> i32 {
    let Some(status) = &deployment.status else { return 0 };
    match status.observed_generation >= deployment.metadata.generation {
        true => status.available_replicas.unwrap_or(0),
        false => 0,
    }
}
