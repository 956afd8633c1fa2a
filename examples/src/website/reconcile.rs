//! The reconciler: creates and updates the children of a site.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Resource, ResourceExt};
use kube_client::api::PostParams;
use kube_informer::{ApiObject, CachedApi};
use kube_operator::{
    Action, Applier, EventRecorder, Failure, Finalizer, FinalizerEvent, Reconciler, Request, find_condition,
    set_condition, update_status,
};

use super::{FIELD_MANAGER, Website, children::Children, directory::Directory, state::SiteState};

/// The reconciler and its dependencies. Reads observe its own writes. Writes are sent only while
/// this process is leader.
pub(super) struct Websites {
    pub(super) sites: CachedApi<Website>,
    pub(super) pages: CachedApi<ConfigMap>,
    pub(super) deployments: CachedApi<Deployment>,
    pub(super) services: CachedApi<Service>,
    pub(super) applier: Applier,
    pub(super) finalizer: Finalizer,
    pub(super) directory: Directory,
    pub(super) recorder: EventRecorder,
    /// The identity of this process.
    pub(super) identity: String,
}

impl Reconciler<Website> for Websites {
    async fn reconcile(&self, request: Request<Website>) -> Result<Action, Failure> {
        let Some(site) = request.object else {
            // The site is deleted. The garbage collector deletes its children.
            self.finalizer.forget(&request.key);
            self.forget_children(request.key.namespace().unwrap_or_default(), request.key.name());
            return Ok(Action::AwaitChange);
        };
        let sites = self.sites.namespace(request.key.namespace().unwrap_or_default());
        let reconcile = async |event| match event {
            FinalizerEvent::Apply(site) => self.apply(&sites, site).await,
            FinalizerEvent::Cleanup(site) => {
                self.directory.remove(&site).await?;
                Ok(Action::Done)
            }
        };
        self.finalizer.reconcile(&sites, site, reconcile).await
    }
}

impl Websites {
    async fn apply(&self, sites: &CachedApi<Website>, site: Arc<Website>) -> Result<Action, Failure> {
        let state = self.reconcile_children(&site).await?;
        self.report(sites, site, state).await?;
        Ok(state.action())
    }

    /// Creates and updates the children of a site and its directory entry.
    async fn reconcile_children(&self, site: &Website) -> Result<SiteState, Failure> {
        if !can_name_a_service(&site.name_any()) {
            return Ok(SiteState::InvalidName);
        }
        let Children { page, deployment, service } = Children::of(site)?;
        let namespace = site.metadata.namespace.as_deref().unwrap_or_default();
        if self.reconcile_child(site, &self.pages.namespace(namespace), page).await?.is_none() {
            return Ok(SiteState::NameTaken("ConfigMap"));
        }
        let Some(deployment) =
            self.reconcile_child(site, &self.deployments.namespace(namespace), deployment).await?
        else {
            return Ok(SiteState::NameTaken("Deployment"));
        };
        if self.reconcile_child(site, &self.services.namespace(namespace), service).await?.is_none() {
            return Ok(SiteState::NameTaken("Service"));
        }
        self.directory.add(site).await?;
        Ok(match available(&deployment) {
            Some(available) if available >= site.spec.replicas => SiteState::Serving,
            available => SiteState::Starting(available.unwrap_or(0)),
        })
    }

    /// Creates or updates a child of a site. Returns `None` if an object with this name exists that
    /// the site does not own.
    ///
    /// The reconciler does not change this object. A forced apply would take over its fields and
    /// its owner, and the garbage collector would delete the object with the site.
    async fn reconcile_child<K>(
        &self,
        site: &Website,
        api: &CachedApi<K>,
        mut child: K,
    ) -> Result<Option<Arc<K>>, Failure>
    where
        K: ApiObject,
    {
        let Some(existing) = api.get(&child.name_any()).await? else {
            // A create fails if another client has created the object first. An apply would change
            // that object.
            let params =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            return Ok(Some(Arc::new(api.create(&params, &child).await?)));
        };
        if !is_controlled_by(&*existing, site) {
            return Ok(None);
        }
        // With the uid, the apply fails if another object has replaced this one.
        child.meta_mut().uid = existing.uid();
        Ok(Some(self.applier.apply(api, &child).await?.object))
    }

    /// Writes the state of a site to its status. If the reason has changed, also creates an event.
    async fn report(
        &self,
        sites: &CachedApi<Website>,
        site: Arc<Website>,
        state: SiteState,
    ) -> Result<(), Failure> {
        let replicas = site.spec.replicas;
        let ready =
            Condition { observed_generation: site.metadata.generation, ..state.ready_condition(replicas) };
        let before = site.status.as_ref().and_then(|status| find_condition(&status.conditions, "Ready"));
        let is_changed = before.is_none_or(|before| before.reason != ready.reason);
        update_status(sites, Arc::clone(&site), |site| {
            let status = site.status.get_or_insert_default();
            status.observed_generation = site.metadata.generation;
            if set_condition(&mut status.conditions, ready) || status.written_by.is_none() {
                status.written_by = Some(self.identity.clone());
            }
            Ok(())
        })
        .await?;
        if let Some((type_, reason, note)) = state.event(replicas).filter(|_| is_changed) {
            self.recorder.event(&*site, type_, reason, "Publish", note);
        }
        Ok(())
    }

    fn forget_children(&self, namespace: &str, name: &str) {
        self.applier.forget(&self.pages.namespace(namespace), name);
        self.applier.forget(&self.deployments.namespace(namespace), name);
        self.applier.forget(&self.services.namespace(namespace), name);
    }
}

/// Returns the number of available Pods, or `None` if the Deployment controller has not observed
/// the current spec.
fn available(deployment: &Deployment) -> Option<i32> {
    let status = deployment.status.as_ref()?;
    let is_observed = status.observed_generation >= deployment.metadata.generation;
    is_observed.then(|| status.available_replicas.unwrap_or(0))
}

fn is_controlled_by(object: &impl Resource, site: &Website) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == site.metadata.uid.as_ref())
}

/// Returns true if `name` is a valid name of a Service: a DNS label that starts with a letter.
/// Names of other objects may be longer and contain dots.
fn can_name_a_service(name: &str) -> bool {
    let is_label = name.len() <= 63 && !name.contains('.');
    is_label && name.starts_with(|first: char| first.is_ascii_lowercase())
}
