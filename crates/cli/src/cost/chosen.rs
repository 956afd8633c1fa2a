//! `Chosen`: the caches that the command line selects.

use kube_informer::Scope;

use super::{
    CostFlags,
    listing::Target,
    rights::{Reach, Rights},
};
use crate::{
    connection::Session,
    error::CliError,
    resources::{Catalog, ServerResource},
};

/// The caches that the command line selects.
pub(super) struct Chosen {
    pub(super) targets: Vec<Target>,
    /// The workload and its service account, with `--of-workload`.
    pub(super) account: Option<String>,
    /// The replicas of the workload.
    pub(super) replicas: Option<u64>,
}

impl Chosen {
    /// Reads the rights of the workload, if the command line contains one.
    ///
    /// # Errors
    ///
    /// Fails if the server has no such resource, or if the rights of the workload cannot be read.
    pub(super) async fn new(
        session: &Session,
        flags: &CostFlags,
        catalog: &Catalog,
    ) -> Result<Self, CliError> {
        if let Some(workload) = &flags.of_workload {
            if flags.selection.all_namespaces {
                let text = "--of-workload needs the namespace of the workload; use --namespace instead of --all-namespaces";
                return Err(CliError::Usage(text.to_owned()));
            }
            let namespace = flags.selection.namespace.as_deref().unwrap_or(&session.namespace);
            let rights = Rights::read(&session.client, workload, namespace).await?;
            return Ok(Self::of_rights(&rights, catalog));
        }
        let resources = if flags.resources.is_empty() {
            catalog.watchable()
        } else {
            catalog.select(&flags.resources)?
        };
        let target = |resource: &ServerResource| Target {
            namespace: flags.selection.namespace.clone().filter(|_| resource.scope == Scope::Namespaced),
            resource: resource.clone(),
        };
        let mut targets = resources.into_iter().map(target).collect();
        if flags.resources.is_empty() {
            remove_copies(&mut targets);
        }
        Ok(Self { targets, account: None, replicas: None })
    }

    fn of_rights(rights: &Rights, catalog: &Catalog) -> Self {
        let mut targets = Vec::new();
        for resource in catalog.watchable() {
            let target = |namespace| Target { resource: resource.clone(), namespace };
            match rights.reach(resource) {
                Reach::Everywhere => targets.push(target(None)),
                Reach::Namespaces(namespaces) => {
                    targets.extend(namespaces.into_iter().map(|namespace| target(Some(namespace))));
                }
            }
        }
        remove_copies(&mut targets);
        Self { targets, account: Some(rights.account.clone()), replicas: rights.replicas }
    }
}

/// Removes `events.events.k8s.io` if the targets also contain the `events` of the same namespaces. The server
/// returns the same objects for both, so the report would count them twice.
fn remove_copies(targets: &mut Vec<Target>) {
    let is_event_of = |target: &Target, group: &str| {
        target.resource.resource.plural == "events" && target.resource.resource.group == group
    };
    let core = targets.iter().filter(|target| is_event_of(target, ""));
    let namespaces: Vec<_> = core.map(|target| target.namespace.clone()).collect();
    let is_counted = |target: &Target| namespaces.contains(&None) || namespaces.contains(&target.namespace);
    targets.retain(|target| !(is_event_of(target, "events.k8s.io") && is_counted(target)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_groups_are_counted_once() {
        let names = |targets: &[(&str, Option<&str>)]| {
            let target = |(name, namespace): &(&str, Option<&str>)| Target {
                resource: ServerResource::assumed(name),
                namespace: namespace.map(str::to_owned),
            };
            let mut targets = targets.iter().map(target).collect();
            remove_copies(&mut targets);
            targets.iter().map(Target::name).collect::<Vec<_>>()
        };
        let (core, copy) = ("events", "events.v1.events.k8s.io");
        assert_eq!(names(&[(core, None), ("pods", None), (copy, None)]), ["events", "pods"]);
        assert_eq!(names(&[(copy, None), ("pods", None)]), ["events.events.k8s.io", "pods"]);
        assert_eq!(names(&[(core, None), (copy, Some("a"))]), ["events"]);
        let partly = names(&[(core, Some("a")), (copy, Some("a")), (copy, Some("b"))]);
        assert_eq!(partly, ["events in a", "events.events.k8s.io in b"]);
    }
}
