//! The reconciler of the example, in which each [`Bug`] changes a few lines.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::ResourceExt;
use kube_client::api::PostParams;
use kube_informer::{ApiObject, CachedApi};
use kube_operator::{
    Action, Applier, Cleanup, EventRecorder, Failure, Finalizer, OwnerError, Reconciler, Request,
    find_condition, set_condition, set_controller_reference, update_status,
};
use tokio::time::sleep;

use super::{BUG, Bug, Website, children::Children, directory::Directory, state::SiteState};

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
        let Some(site) = request.object.present() else {
            return Ok(Action::AwaitChange); // The garbage collector deletes the children.
        };
        let sites = self.sites.namespace(request.key.namespace().unwrap_or_default());
        let clean_up = async |site: Arc<Website>| {
            self.directory.remove(&site).await?;
            Ok(Cleanup::Done)
        };
        self.finalizer.reconcile(&sites, site, |site| self.apply(&sites, site), clean_up).await
    }
}

impl Websites {
    async fn apply(&self, sites: &CachedApi<Website>, site: Arc<Website>) -> Result<Action, Failure> {
        let state = self.reconcile_children(&site).await?;
        self.report(sites, site, state).await?;
        if has(Bug::LostRequeue) {
            return Ok(Action::Done);
        }
        Ok(state.action())
    }

    /// Creates and updates the children of a site and its directory entry.
    async fn reconcile_children(&self, site: &Website) -> Result<SiteState, Failure> {
        if !can_name_a_service(&site.name_any()) {
            return Ok(SiteState::InvalidName);
        }
        let Children { page, deployment, service } = Children::of(site);
        let namespace = site.metadata.namespace.as_deref().unwrap_or_default();
        let pages = self.pages.namespace(namespace);
        let is_foreign = |page: Arc<ConfigMap>| page.metadata.owner_references.is_none();
        let creates = has(Bug::NonIdempotentCreate) && site.status.is_none();
        if creates && !pages.get(&site.name_any()).await?.is_some_and(is_foreign) {
            let mut page = page;
            set_controller_reference(site, &(), &mut page)?;
            pages.create(&PostParams::default(), &page).await?;
        } else if self.reconcile_child(site, &pages, page).await?.is_none() {
            return Ok(SiteState::NameTaken("ConfigMap"));
        }
        let Some(deployment) =
            self.reconcile_child(site, &self.deployments.namespace(namespace), deployment).await?
        else {
            return Ok(SiteState::NameTaken("Deployment"));
        };
        let services = self.services.namespace(namespace);
        if has(Bug::ForgottenOwnerReference) {
            self.applier.apply(&services, &service).await?;
        } else if self.reconcile_child(site, &services, service).await?.is_none() {
            return Ok(SiteState::NameTaken("Service"));
        }
        if has(Bug::WriteAfterCleanup) {
            let (directory, site) = (Directory::new(self.pages.namespace("default")), site.clone());
            drop(tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                directory.add(&site).await
            }));
        } else {
            self.directory.add(site).await?;
        }
        Ok(match available(&deployment) {
            Some(available) if available >= site.spec.replicas => SiteState::Serving,
            available => SiteState::Starting(available.unwrap_or(0)),
        })
    }

    /// Creates or updates a child of a site. Returns `None` if an object with this name exists that
    /// the site does not own. The reconciler does not change this object.
    async fn reconcile_child<K>(
        &self,
        site: &Website,
        api: &CachedApi<K>,
        child: K,
    ) -> Result<Option<Arc<K>>, Failure>
    where
        K: ApiObject,
    {
        match self.applier.apply_owned(api, site, child).await {
            Ok(written) => Ok(Some(written.object)),
            Err(failure) if failure.error().is::<OwnerError>() => Ok(None),
            Err(failure) => Err(failure),
        }
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
        if has(Bug::StaleStatus) {
            let mut latest = sites.api().get(&site.name_any()).await?;
            let status = latest.status.get_or_insert_default();
            status.observed_generation = latest.metadata.generation;
            set_condition(&mut status.conditions, ready);
            sites.api().replace_status(&site.name_any(), &PostParams::default(), &latest).await?;
            return Ok(());
        }
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
}

/// Returns the number of available Pods, or `None` if the Deployment controller has not observed
/// the current spec.
fn available(deployment: &Deployment) -> Option<i32> {
    let status = deployment.status.as_ref()?;
    let is_observed = status.observed_generation >= deployment.metadata.generation;
    is_observed.then(|| status.available_replicas.unwrap_or(0))
}

/// Returns true if `name` is a valid name of a Service: a DNS label that starts with a letter.
/// Names of other objects may be longer and contain dots.
fn can_name_a_service(name: &str) -> bool {
    let is_label = name.len() <= 63 && !name.contains('.');
    is_label && name.starts_with(|first: char| first.is_ascii_lowercase())
}

fn has(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}
