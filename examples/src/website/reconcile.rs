//! One run: from what a site asks for to what is there.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Resource, ResourceExt};
use kube_client::api::PostParams;
use kube_informer::CachedApi;
use kube_operator::{
    Action, Applier, EventRecorder, Failure, Finalizer, FinalizerEvent, Reconciler, Request, find_condition,
    set_condition, update_status,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{MANAGER, Website, children::Children, directory::Directory, state::State};

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
        let state = self.make(&site).await?;
        self.tell(sites, site, state).await?;
        Ok(state.action())
    }

    /// Makes what a site asks for, as far as that goes.
    async fn make(&self, site: &Website) -> Result<State, Failure> {
        if !can_name_a_service(&site.name_any()) {
            return Ok(State::InvalidName);
        }
        let Children { page, deployment, service } = Children::of(site)?;
        let namespace = site.metadata.namespace.as_deref().unwrap_or_default();
        if self.own(site, &self.pages.namespace(namespace), page).await?.is_none() {
            return Ok(State::NameTaken("ConfigMap"));
        }
        let Some(deployment) = self.own(site, &self.deployments.namespace(namespace), deployment).await?
        else {
            return Ok(State::NameTaken("Deployment"));
        };
        if self.own(site, &self.services.namespace(namespace), service).await?.is_none() {
            return Ok(State::NameTaken("Service"));
        }
        self.directory.add(site).await?;
        Ok(match available(&deployment) {
            Some(available) if available >= site.spec.replicas => State::Serving,
            available => State::Starting(available.unwrap_or(0)),
        })
    }

    /// Sees to it that a child of this site is there and as it is to be; `None` if what has its name is not the site's. That is
    /// left alone: to apply with force would be to take it from its owner, and to have it deleted with the site.
    async fn own<K>(
        &self,
        site: &Website,
        api: &CachedApi<K>,
        mut child: K,
    ) -> Result<Option<Arc<K>>, Failure>
    where
        K: Resource + Clone + Serialize + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let Some(there) = api.get(&child.name_any()).await? else {
            // Not by an apply, which would not fail where somebody has been faster than the cache.
            let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            return Ok(Some(Arc::new(api.create(&params, &child).await?)));
        };
        if !is_controlled_by(&*there, site) {
            return Ok(None);
        }
        // This object, and none that has come into its place since.
        child.meta_mut().uid = there.uid();
        Ok(Some(self.applier.apply(api, &child).await?.object))
    }

    /// Says in the status how the site is and, where that is news, in an event.
    async fn tell(
        &self,
        sites: &CachedApi<Website>,
        site: Arc<Website>,
        state: State,
    ) -> Result<(), Failure> {
        let wanted = site.spec.replicas;
        let ready = Condition { observed_generation: site.metadata.generation, ..state.ready(wanted) };
        let before = site.status.as_ref().and_then(|status| find_condition(&status.conditions, "Ready"));
        let is_news = before.is_none_or(|before| before.reason != ready.reason);
        update_status(sites, Arc::clone(&site), |site| {
            let status = site.status.get_or_insert_default();
            status.observed_generation = site.metadata.generation;
            if set_condition(&mut status.conditions, ready) || status.written_by.is_none() {
                status.written_by = Some(self.identity.clone());
            }
            Ok(())
        })
        .await?;
        if let Some((type_, reason, note)) = state.event(wanted).filter(|_| is_news) {
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

/// How many Pods serve; unknown while the Deployment's own controller has not seen what it is to be.
fn available(deployment: &Deployment) -> Option<i32> {
    let status = deployment.status.as_ref()?;
    let is_seen = status.observed_generation >= deployment.metadata.generation;
    is_seen.then(|| status.available_replicas.unwrap_or(0))
}

fn is_controlled_by(object: &impl Resource, site: &Website) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == site.metadata.uid.as_ref())
}

/// A Service has a DNS label for a name that begins with a letter. Other objects may have longer names, with dots.
fn can_name_a_service(name: &str) -> bool {
    let is_label = name.len() <= 63 && !name.contains('.');
    is_label && name.starts_with(|first: char| first.is_ascii_lowercase())
}
