//! Discovery.

use anyhow::{Context as _, Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, Reply};

checks! {
    "Groups are listed by their priority, each with its preferred version first.":
        groups_are_sorted_by_priority, group_describes_itself;
    "A resource is listed with its names, its scope, its verbs and its parts.":
        resources_are_described, reviews_can_be_created_only;
    "Aggregated discovery returns all groups in one document, and an ETag permits 304 Not Modified.":
        aggregated_document_matches_separate_documents, unchanged_document_is_not_sent_again;
    "The format of discovery is negotiated, and an unknown format is rejected with 406.":
        known_form_is_sent, unknown_format_is_rejected;
    "Discovery is read-only, and an unknown version is not found.":
        discovery_is_only_read, unknown_version_of_a_known_group_is_not_found;
    "Each health check has a separate path.":
        each_health_check_has_a_path, all_checks_are_listed_if_wanted;
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const CHANGE: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The element of `list` whose `key` is `name`.
fn find<'a>(list: &'a Value, key: &str, name: &str) -> Result<&'a Value> {
    let all = list.as_array().with_context(|| format!("no list: {list}"))?;
    all.iter().find(|element| element[key] == name).with_context(|| format!("no {name}"))
}

async fn groups_are_sorted_by_priority(place: Place) -> Result<()> {
    let list = place.admin().get("/apis").await?.ok()?;
    ensure!(list["kind"] == "APIGroupList" && list["apiVersion"] == "v1", "{list}");
    let names: Vec<&str> = list["groups"]
        .as_array()
        .context("no groups")?
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    let ranked = [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ];
    let found: Vec<&str> = names.into_iter().filter(|name| ranked.contains(name)).collect();
    ensure!(found == ranked, "{found:?}");
    let scaling = find(&list["groups"], "name", "autoscaling")?;
    ensure!(
        scaling["preferredVersion"] == json!({"groupVersion": "autoscaling/v2", "version": "v2"}),
        "{scaling}"
    );
    ensure!(scaling["versions"][0] == scaling["preferredVersion"], "{scaling}");
    Ok(())
}

async fn group_describes_itself(place: Place) -> Result<()> {
    let group = place.admin().get("/apis/apps").await?.ok()?;
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    let expected = json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version
    });
    ensure!(group == expected, "{group}");
    let core = place.admin().get("/api").await?.ok()?;
    ensure!(core["kind"] == "APIVersions" && core["versions"] == json!(["v1"]), "{core}");
    ensure!(core["serverAddressByClientCIDRs"][0]["clientCIDR"] == "0.0.0.0/0", "{core}");
    Ok(())
}

async fn resources_are_described(place: Place) -> Result<()> {
    let scale = |name: &str| {
        json!({"name": name, "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
               "kind": "Scale", "verbs": ["get", "patch", "update"]})
    };
    for (path, expected) in [
        (
            "/api/v1",
            json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": CHANGE,
                           "shortNames": ["po"], "categories": ["all"], "storageVersionHash": "xPOwRZ+Yhw8="}),
        ),
        (
            "/api/v1",
            json!({"name": "pods/binding", "singularName": "", "namespaced": true, "kind": "Binding",
                           "verbs": ["create"]}),
        ),
        (
            "/api/v1",
            json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy",
                           "version": "v1", "kind": "Eviction", "verbs": ["create"]}),
        ),
        (
            "/api/v1",
            json!({"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
                           "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": ["ns"],
                           "storageVersionHash": "Q3oi5N2YM8M="}),
        ),
        (
            "/api/v1",
            json!({"name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace",
                           "verbs": ["update"]}),
        ),
        ("/api/v1", scale("replicationcontrollers/scale")),
        ("/apis/apps/v1", scale("deployments/scale")),
        (
            "/apis/apps/v1",
            json!({"name": "deployments/status", "singularName": "", "namespaced": true,
                                 "kind": "Deployment", "verbs": ["get", "patch", "update"]}),
        ),
        (
            "/apis/events.k8s.io/v1",
            json!({"name": "events", "singularName": "event", "namespaced": true, "kind": "Event",
                                          "verbs": CHANGE, "shortNames": ["ev"], "storageVersionHash": "r2yiGXH7wu8="}),
        ),
        (
            "/apis/autoscaling/v2",
            json!({"name": "horizontalpodautoscalers", "singularName": "horizontalpodautoscaler",
                                        "namespaced": true, "kind": "HorizontalPodAutoscaler", "verbs": CHANGE,
                                        "shortNames": ["hpa"], "categories": ["all"],
                                        "storageVersionHash": "qwQve8ut294="}),
        ),
    ] {
        let list = place.admin().get(path).await?.ok()?;
        ensure!(list["kind"] == "APIResourceList", "{}", list["kind"]);
        // The list of the core group has no kind and apiVersion in its entries.
        ensure!((list["apiVersion"] == "v1") == path.starts_with("/apis/"), "{}", list["apiVersion"]);
        let name = expected["name"].as_str().unwrap_or("");
        let found = find(&list["resources"], "name", name)?;
        ensure!(*found == expected, "{found}");
    }
    Ok(())
}

async fn reviews_can_be_created_only(place: Place) -> Result<()> {
    let list = place.admin().get("/apis/authorization.k8s.io/v1").await?.ok()?;
    let found = find(&list["resources"], "name", "localsubjectaccessreviews")?;
    let expected = json!({"name": "localsubjectaccessreviews", "singularName": "localsubjectaccessreview",
                          "namespaced": true, "kind": "LocalSubjectAccessReview", "verbs": ["create"]});
    ensure!(*found == expected, "{found}");
    Ok(())
}

async fn aggregated_document_matches_separate_documents(place: Place) -> Result<()> {
    let reply = place.admin().get_as("/apis", AGGREGATED).await?;
    ensure!(reply.header(header::CONTENT_TYPE) == AGGREGATED, "{:?}", reply.headers);
    ensure!(
        reply.header(header::VARY) == "Accept" && reply.header(header::CACHE_CONTROL) == "public",
        "{:?}",
        reply.headers
    );
    let list = reply.ok()?;
    ensure!(
        list["kind"] == "APIGroupDiscoveryList" && list["apiVersion"] == "apidiscovery.k8s.io/v2",
        "{list}"
    );
    let apps =
        list["items"].as_array().context("no items")?.iter().find(|item| item["metadata"]["name"] == "apps");
    let version = &apps.context("no apps")?["versions"][0];
    ensure!(version["version"] == "v1" && version["freshness"] == "Current", "{version}");
    let found = find(&version["resources"], "resource", "deployments")?;
    let own = json!({"group": "", "version": "", "kind": "Deployment"});
    let expected = json!({
        "resource": "deployments", "responseKind": own, "scope": "Namespaced", "singularResource": "deployment",
        "verbs": CHANGE, "shortNames": ["deploy"], "categories": ["all"],
        "subresources": [
            {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
             "verbs": ["get", "patch", "update"]},
            {"subresource": "status", "responseKind": own, "verbs": ["get", "patch", "update"]},
        ],
    });
    ensure!(*found == expected, "{found}");
    let core = place.admin().get_as("/api", AGGREGATED).await?.ok()?;
    ensure!(core["items"][0]["metadata"] == json!({}), "{core}");
    Ok(())
}

async fn unchanged_document_is_not_sent_again(place: Place) -> Result<()> {
    let first = place.admin().get_as("/api", AGGREGATED).await?;
    let tag = first.header(header::ETAG);
    ensure!(tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let request = Request::get("/api").header(header::ACCEPT, AGGREGATED).header(header::IF_NONE_MATCH, tag);
    let second = place.admin().request(request, None).await?;
    ensure!(second.status == 304 && second.text.is_empty() && second.header(header::ETAG) == tag, "{second}");
    Ok(())
}

async fn known_form_is_sent(place: Place) -> Result<()> {
    let beta = AGGREGATED.replace("v=v2", "v=v2beta1");
    for (accept, kind) in [
        (format!("{beta},{AGGREGATED},application/json"), "APIGroupDiscoveryList"),
        (format!("{beta},application/json"), "APIGroupList"),
        (format!("application/json,{AGGREGATED}"), "APIGroupDiscoveryList"),
    ] {
        let document = place.admin().get_as("/apis", &accept).await?.ok()?;
        ensure!(document["kind"] == kind, "{accept}: {}", document["kind"]);
    }
    let yaml = place.admin().get_as("/apis/apps", "application/yaml").await?;
    let text = "apiVersion: v1\nkind: APIGroup\nname: apps\npreferredVersion:\n  groupVersion: apps/v1\n  version: v1\n\
                versions:\n- groupVersion: apps/v1\n  version: v1\n";
    ensure!(yaml.text == text && yaml.header(header::CONTENT_TYPE) == "application/yaml", "{yaml}");
    Ok(())
}

async fn unknown_format_is_rejected(place: Place) -> Result<()> {
    let beta = AGGREGATED.replace("v=v2", "v=v2beta1");
    for (path, accept) in [("/apis", beta.as_str()), ("/apis/apps", AGGREGATED), ("/api/v1", AGGREGATED)] {
        place.admin().get_as(path, accept).await?.refused(406, "NotAcceptable")?;
    }
    let status = place.admin().get_as("/version", "text/html").await?.refused(406, "NotAcceptable")?;
    let message = "406: Not Acceptable\n\nAvailable representations: application/json";
    ensure!(status["message"] == message && status["details"] == json!({}), "{status}");
    Ok(())
}

async fn discovery_is_only_read(place: Place) -> Result<()> {
    for path in ["/api", "/version", "/apis/apps/v1"] {
        let reply = place.admin().send(Method::POST, path, JSON, &json!({})).await?;
        reply.refused(405, "MethodNotAllowed")?;
    }
    Ok(())
}

async fn unknown_version_of_a_known_group_is_not_found(place: Place) -> Result<()> {
    for path in
        ["/api/v2", "/api/v2/pods", "/apis/apps/v9", "/apis/apps/v9/deployments", "/api/v1/pods/a/b/c/d"]
    {
        let status = place.admin().get(path).await?.refused(404, "NotFound")?;
        ensure!(status["message"] == "the server could not find the requested resource", "{status}");
    }
    Ok(())
}

fn is_ok(reply: &Reply) -> Result<()> {
    ensure!(reply.status == 200 && reply.text == "ok", "{reply}");
    ensure!(reply.header(header::CONTENT_TYPE) == "text/plain; charset=utf-8", "{:?}", reply.headers);
    Ok(())
}

async fn each_health_check_has_a_path(place: Place) -> Result<()> {
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/livez/etcd",
        "/readyz/shutdown",
        "/readyz?exclude=ping",
    ] {
        is_ok(&place.admin().get(path).await?)?;
    }
    for path in ["/healthz/nothing", "/healthz/"] {
        let reply = place.admin().get(path).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
    }
    Ok(())
}

async fn all_checks_are_listed_if_wanted(place: Place) -> Result<()> {
    let text = place.admin().get("/readyz?verbose").await?.text;
    ensure!(text.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n"), "{text}");
    ensure!(text.ends_with("readyz check passed\n"), "{text}");
    Ok(())
}
