//! The invariants of the Website operator. Users of the operator rely on these statements.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use kube_informer_examples::website::DIRECTORY;
use kube_testserver::{Chaos, Server};
use serde_json::Value;

use crate::{CHILDREN, NAMESPACE, SITE};

/// The label that the operator sets on each child.
const LABEL: &str = "app.kubernetes.io/name";

pub(crate) fn add(chaos: Chaos) -> Chaos {
    let generations = Mutex::default();
    chaos
        .always("the directory lists only sites that exist", directory_lists_only_sites)
        .always("a new report describes the page of its generation", move |server| {
            reports_describe_pages(server, &mut generations.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .eventually("a site without a name conflict has its children", sites_have_children)
        .eventually("each child belongs to a site", children_have_sites)
        .eventually("a site with children is in the directory", sites_are_listed)
        .eventually("a status describes the latest generation", statuses_are_current)
}

fn list(server: &Server, (api_version, kind): (&str, &str)) -> Vec<Value> {
    server.list_untyped(api_version, kind, Some(NAMESPACE)).unwrap_or_default()
}

fn child(server: &Server, (api_version, kind): (&str, &str), name: &str) -> Option<Value> {
    server.get_untyped(api_version, kind, Some(NAMESPACE), name).ok()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_owned(object: &Value, site: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == site["metadata"]["uid"]))
}

/// Returns the first kind whose name another owner uses.
fn taken(server: &Server, site: &Value) -> Option<&'static str> {
    let is_taken = |kind| child(server, kind, name(site)).is_some_and(|object| !is_owned(&object, site));
    CHILDREN.into_iter().find(|kind| is_taken(*kind)).map(|kind| kind.1)
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn entries(server: &Server) -> BTreeSet<String> {
    let directory = server.get_untyped("v1", "ConfigMap", Some("default"), DIRECTORY).unwrap_or_default();
    directory["data"].as_object().map(|data| data.keys().cloned().collect()).unwrap_or_default()
}

fn directory_lists_only_sites(server: &Server) -> Result<(), String> {
    let sites: BTreeSet<String> =
        list(server, SITE).iter().map(|site| format!("{NAMESPACE}.{}", name(site))).collect();
    let unknown: Vec<String> = entries(server).difference(&sites).cloned().collect();
    check(unknown.is_empty(), || format!("no site has the entries {unknown:?}"))
}

/// Checks each status that reports another generation than before. `reported` contains the last generations
/// by uid.
fn reports_describe_pages(server: &Server, reported: &mut BTreeMap<String, i64>) -> Result<(), String> {
    for site in &list(server, SITE) {
        let Some(generation) = site["status"]["observedGeneration"].as_i64() else { continue };
        let uid = site["metadata"]["uid"].as_str().unwrap_or_default();
        if reported.insert(uid.to_owned(), generation) == Some(generation) {
            continue;
        }
        let Some(page) = child(server, CHILDREN[0], name(site)).filter(|page| is_owned(page, site)) else {
            continue;
        };
        let (published, html) = (&page["data"]["index.html"], &site["spec"]["html"]);
        let is_latest = site["metadata"]["generation"] == generation;
        check(!is_latest || published == html, || {
            format!(
                "the status of {} reports generation {generation} with {html}, published is {published}",
                name(site)
            )
        })?;
    }
    Ok(())
}

fn sites_have_children(server: &Server) -> Result<(), String> {
    for site in list(server, SITE).iter().filter(|site| taken(server, site).is_none()) {
        let [page, deployment, service] =
            CHILDREN.map(|kind| child(server, kind, name(site)).unwrap_or_default());
        let site_name = name(site);
        check(page["data"]["index.html"] == site["spec"]["html"], || format!("{site_name} has an old page"))?;
        let replicas = &deployment["spec"]["replicas"];
        check(*replicas == site["spec"]["replicas"], || format!("{site_name} has {replicas} replicas"))?;
        check(service.is_object(), || format!("{site_name} has no Service"))?;
    }
    Ok(())
}

fn children_have_sites(server: &Server) -> Result<(), String> {
    let sites: Vec<Value> = list(server, SITE);
    for kind in CHILDREN {
        let children =
            list(server, kind).into_iter().filter(|child| child["metadata"]["labels"][LABEL].is_string());
        for child in children {
            let has_site = sites.iter().any(|site| name(site) == name(&child));
            check(has_site, || format!("the site of {} {} does not exist", kind.1, name(&child)))?;
        }
    }
    Ok(())
}

fn sites_are_listed(server: &Server) -> Result<(), String> {
    let entries = entries(server);
    for site in list(server, SITE).iter().filter(|site| taken(server, site).is_none()) {
        let is_listed = entries.contains(&format!("{NAMESPACE}.{}", name(site)));
        check(is_listed, || format!("{} has no entry", name(site)))?;
    }
    Ok(())
}

fn statuses_are_current(server: &Server) -> Result<(), String> {
    for site in &list(server, SITE) {
        let (status, deployment) =
            (&site["status"], child(server, CHILDREN[1], name(site)).unwrap_or_default());
        let reported = &deployment["status"];
        let is_observed =
            reported["observedGeneration"].as_i64() >= deployment["metadata"]["generation"].as_i64();
        let is_available = reported["availableReplicas"].as_i64() >= site["spec"]["replicas"].as_i64();
        let expected = match taken(server, site) {
            Some(_) => "NameTaken",
            None if is_observed && is_available => "Serving",
            None => "Starting",
        };
        let reason = &status["conditions"][0]["reason"];
        let is_current = status["observedGeneration"] == site["metadata"]["generation"] && reason == expected;
        check(is_current, || format!("{} is {expected}, and its status is {status}", name(site)))?;
    }
    Ok(())
}
