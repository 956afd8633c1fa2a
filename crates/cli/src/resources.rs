//! `Catalog`: the resources of a server, and their names in command lines.

use std::{
    collections::HashSet,
    io::{Write as _, stderr},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, APIResource, APIResourceList};
use kube_client::{Client, core::ApiResource};
use kube_informer::Scope;
use tokio::time::Instant;

use crate::{
    discovery::{MAX_BYTES, TIMEOUT, document_before},
    error::CliError,
    output::{counted, printable, shortened},
};

/// The number of API groups that are read at the same time. A group that does not respond occupies one of
/// them for [`GROUP_TIMEOUT`], so 128 such groups delay no other group beyond the total limit.
const CONCURRENT_REQUESTS: usize = 64;
/// The maximum time for one API group.
const GROUP_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of the document of one API group. Many documents are in memory at the same time.
const MAX_GROUP_BYTES: usize = 2 << 20;
/// The maximum number of resources. Real servers have at most some thousand resources.
const MAX_RESOURCES: usize = 50_000;

/// The maximum length of the line about API groups.
const MAX_PROBLEM_CHARS: usize = 2000;

/// A resource of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerResource {
    pub(crate) resource: ApiResource,
    pub(crate) scope: Scope,
    pub(crate) verbs: Vec<String>,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

impl ServerResource {
    /// Returns the name with the API group, for example `deployments.apps`.
    pub(crate) fn name(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// Describes a resource that discovery did not report, from a name in the form `NAME` or
    /// `NAME.VERSION.GROUP`. Assumes that it has namespaces and can be watched.
    pub(crate) fn assumed(name: &str) -> Self {
        let (plural, rest) = name.split_once('.').unwrap_or((name, "v1"));
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = APIResource {
            name: plural.to_owned(),
            namespaced: true,
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..APIResource::default()
        };
        server_resource(&group_version, resource)
    }

    /// Returns whether a cache of the resource is possible.
    pub(crate) fn is_watchable(&self) -> bool {
        ["list", "watch"].iter().all(|verb| self.verbs.iter().any(|own| own == verb))
    }

    /// Returns whether `name` is the plural, the singular, the kind or a short name.
    fn has_name(&self, name: &str) -> bool {
        let names = [&self.resource.plural, &self.resource.kind, &self.singular];
        names.into_iter().chain(&self.short_names).any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns whether `name` has the form `NAME`, `NAME.GROUP` or `NAME.VERSION.GROUP`.
    fn matches(&self, name: &str) -> bool {
        if self.has_name(name) {
            return true;
        }
        let Some((name, rest)) = name.split_once('.') else { return false };
        let resource = &self.resource;
        let is_group = rest.eq_ignore_ascii_case(&resource.group);
        let is_version =
            rest == resource.version || rest == format!("{}.{}", resource.version, resource.group);
        self.has_name(name) && (is_group || is_version)
    }
}

/// The resources of a server in the order of its API groups. The core group is the first.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) resources: Vec<ServerResource>,
    /// The groups that could not be read, for example because an aggregated API server does not respond, with
    /// the errors.
    pub(crate) failures: Vec<(String, String)>,
    /// The group and the plural of each resource.
    known: HashSet<(String, String)>,
}

impl Catalog {
    /// Reads the resources of the server. Each resource has the preferred version of its group that contains
    /// it. This takes at most 30 s.
    ///
    /// # Errors
    ///
    /// Fails if the list of groups cannot be read. A group that cannot be read is in
    /// [`failures`](Self::failures).
    pub(crate) async fn read(client: &Client) -> Result<Self, CliError> {
        let deadline = Instant::now() + TIMEOUT;
        let core: Result<APIResourceList, _> = document_before(client, "/api/v1", deadline, MAX_BYTES).await;
        let core = core.map_err(|error| error.of("list the resources of the API group v1"))?;
        let groups: Result<APIGroupList, _> = document_before(client, "/apis", deadline, MAX_BYTES).await;
        let groups = groups.map_err(|error| error.of("list the API groups"))?;
        let mut catalog = Self::default();
        catalog.add(core);
        let versions = groups.groups.iter().flat_map(versions);
        let lists = stream::iter(versions).map(|version| async move {
            let deadline = deadline.min(Instant::now() + GROUP_TIMEOUT);
            let path = format!("/apis/{version}");
            let list: Result<APIResourceList, _> =
                document_before(client, &path, deadline, MAX_GROUP_BYTES).await;
            (version, list)
        });
        let mut lists = lists.buffered(CONCURRENT_REQUESTS);
        while let Some((version, list)) = lists.next().await {
            match list {
                Ok(list) if catalog.resources.len() + list.resources.len() > MAX_RESOURCES => {
                    let reason = format!("the server has more than {MAX_RESOURCES} resources");
                    catalog.failures.push((version, reason));
                }
                Ok(list) => catalog.add(list),
                Err(error) => catalog.failures.push((version, error.reason())),
            }
        }
        Ok(catalog)
    }

    /// Returns a line about the API groups that could not be read.
    pub(crate) fn problem(&self) -> Option<String> {
        let (_, reason) = self.failures.first()?;
        let groups: Vec<_> = self.failures.iter().map(|(group, _)| group.as_str()).collect();
        let count = counted(groups.len(), "API group");
        Some(format!("cannot read {count}, so their resources are unknown: {}: {reason}", groups.join(", ")))
    }

    /// Prints the line about the API groups that could not be read on standard error.
    pub(crate) fn print_problem(&self) {
        if let Some(problem) = self.problem() {
            // The line is not important enough for an error if standard error is closed.
            let _ = writeln!(stderr(), "{}", printable(&shortened(&problem, MAX_PROBLEM_CHARS)));
        }
    }

    fn add(&mut self, list: APIResourceList) {
        for resource in list.resources.into_iter().filter(|resource| !resource.name.contains('/')) {
            let resource = server_resource(&list.group_version, resource);
            let id = (resource.resource.group.clone(), resource.resource.plural.clone());
            if self.known.insert(id) {
                self.resources.push(resource);
            }
        }
    }

    /// Returns the resources with these names. A name can contain several names that are separated by commas.
    /// A name is a plural, a singular, a kind, a short name or a category, optionally with an API group:
    /// `deployments.apps`.
    ///
    /// # Errors
    ///
    /// Fails if the server has no resource with one of the names, or if all names are empty.
    pub(crate) fn select(&self, names: &[String]) -> Result<Vec<&ServerResource>, CliError> {
        let mut selected: Vec<&ServerResource> = Vec::new();
        for name in names.iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()) {
            for resource in self.find(name)? {
                if !selected.iter().any(|other| other.resource == resource.resource) {
                    selected.push(resource);
                }
            }
        }
        // An empty variable of a script is a mistake, and not a command for zero resources.
        if selected.is_empty() {
            return Err(CliError::no_resource());
        }
        Ok(selected)
    }

    fn find(&self, name: &str) -> Result<Vec<&ServerResource>, CliError> {
        if let Some(resource) = self.resources.iter().find(|resource| resource.matches(name)) {
            return Ok(vec![resource]);
        }
        let is_in_category = |resource: &&ServerResource| resource.categories.iter().any(|own| own == name);
        let resources: Vec<_> = self.resources.iter().filter(is_in_category).collect();
        if resources.is_empty() {
            return Err(CliError::UnknownResource { name: name.to_owned() });
        }
        Ok(resources)
    }

    /// Returns all resources of which a cache is possible.
    pub(crate) fn watchable(&self) -> Vec<&ServerResource> {
        self.resources.iter().filter(|resource| resource.is_watchable()).collect()
    }
}

/// Returns the versions of a group, the preferred version first.
fn versions(group: &APIGroup) -> Vec<String> {
    let preferred = group.preferred_version.iter();
    let mut versions: Vec<String> = Vec::new();
    for version in preferred.chain(&group.versions) {
        if !versions.contains(&version.group_version) {
            versions.push(version.group_version.clone());
        }
    }
    versions
}

fn server_resource(group_version: &str, resource: APIResource) -> ServerResource {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    ServerResource {
        scope: if resource.namespaced { Scope::Namespaced } else { Scope::Cluster },
        verbs: resource.verbs,
        singular: resource.singular_name,
        short_names: resource.short_names.unwrap_or_default(),
        categories: resource.categories.unwrap_or_default(),
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: group_version.to_owned(),
            kind: resource.kind,
            plural: resource.name,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(group_version: &str, resources: &[(&str, &str, &str)]) -> APIResourceList {
        let resources = resources.iter().map(|(plural, kind, short)| APIResource {
            name: (*plural).to_owned(),
            kind: (*kind).to_owned(),
            singular_name: kind.to_lowercase(),
            short_names: Some(vec![(*short).to_owned()]),
            categories: Some(vec!["all".to_owned()]),
            ..APIResource::default()
        });
        APIResourceList { group_version: group_version.to_owned(), resources: resources.collect() }
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog
            .add(list("v1", &[("pods", "Pod", "po"), ("pods/status", "Pod", ""), ("events", "Event", "ev")]));
        catalog.add(list("events.k8s.io/v1", &[("events", "Event", "ev")]));
        catalog.add(list("apps/v1", &[("deployments", "Deployment", "deploy")]));
        catalog
    }

    fn names(names: &[&str]) -> Vec<String> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        catalog().select(&names).unwrap().into_iter().map(ServerResource::name).collect()
    }

    #[test]
    fn resource_has_all_names_of_kubectl() {
        for name in ["po", "pod", "pods", "Pod", "pods.v1"] {
            assert_eq!(names(&[name]), ["pods"], "{name}");
        }
        for name in ["deploy", "deployments.apps", "deployments.v1.apps", "deployment.apps"] {
            assert_eq!(names(&[name]), ["deployments.apps"], "{name}");
        }
        assert_eq!(names(&["events"]), ["events"]);
        assert_eq!(names(&["events.events.k8s.io"]), ["events.events.k8s.io"]);
    }

    #[test]
    fn names_and_categories_select_each_resource_once() {
        assert_eq!(names(&["po,deploy", "pods"]), ["pods", "deployments.apps"]);
        assert_eq!(names(&["all"]).len(), 4);
    }

    #[test]
    fn unknown_name_is_error() {
        let error = catalog().select(&["web".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("no resource \"web\""), "{error}");
        assert!(catalog().select(&["pods.apps".to_owned()]).is_err());
        for empty in ["", ",", ",,"] {
            let error = catalog().select(&[empty.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("no resource is selected"), "{empty:?}: {error}");
        }
    }

    /// A server with `silent` API groups that do not respond, followed by the group `apps`.
    fn client(silent: usize) -> Client {
        let service =
            tower::service_fn(move |request: http::Request<kube_client::client::Body>| async move {
                let groups = (0..silent).map(|number| format!("silent-{number}")).chain(["apps".to_owned()]);
                let group = |name: String| {
                    let version = serde_json::json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
                    serde_json::json!({"name": name, "versions": [version]})
                };
                let body = match request.uri().path() {
                    "/apis" => serde_json::json!({"groups": groups.map(group).collect::<Vec<_>>()}),
                    "/api/v1" => serde_json::to_value(list("v1", &[("pods", "Pod", "po")])).unwrap(),
                    "/apis/apps/v1" => {
                        serde_json::to_value(list("apps/v1", &[("deployments", "Deployment", "deploy")]))
                            .unwrap()
                    }
                    _ => std::future::pending().await,
                };
                Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::from(
                    body.to_string(),
                )))
            });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn memory_of_many_large_groups_is_bounded() {
        let service = tower::service_fn(|request: http::Request<kube_client::client::Body>| {
            let prefix = request.uri().path().replace('/', "-");
            let resources = |count| {
                let resource = |number| {
                    let name = format!("{prefix}-{number}");
                    serde_json::json!({
                        "name": name, "kind": "A", "namespaced": true, "singularName": "", "verbs": [],
                    })
                };
                let resources: Vec<_> = (0..count).map(resource).collect();
                serde_json::json!({"groupVersion": "g/v1", "resources": resources})
            };
            let group = |name: String| {
                let version = serde_json::json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
                serde_json::json!({"name": name, "versions": [version]})
            };
            let body = match request.uri().path() {
                "/apis" => {
                    let groups = (0..8).map(|number| format!("many-{number}")).chain(["large".to_owned()]);
                    serde_json::json!({"groups": groups.map(group).collect::<Vec<_>>()})
                }
                "/api/v1" => resources(1),
                "/apis/large/v1" => serde_json::json!({"padding": "x".repeat(MAX_GROUP_BYTES)}),
                _ => resources(10_000),
            };
            let body = http_body_util::Full::from(body.to_string());
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
        });
        let catalog = Catalog::read(&Client::new(service, "default")).await.unwrap();
        assert_eq!(catalog.resources.len(), 40_001);
        let failed: Vec<_> = catalog.failures.iter().map(|(group, _)| group.as_str()).collect();
        assert_eq!(failed, ["many-4/v1", "many-5/v1", "many-6/v1", "many-7/v1", "large/v1"]);
        assert!(catalog.failures[0].1.contains("more than 50000 resources"));
        assert!(catalog.failures[4].1.contains("more than 2 MiB"), "{:?}", catalog.failures[4]);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_groups_are_named_within_the_limit() {
        for silent in [1, 100, 400] {
            let started = Instant::now();
            let catalog = Catalog::read(&client(silent)).await.unwrap();
            assert!(started.elapsed() <= TIMEOUT, "{silent} groups took {:?}", started.elapsed());
            assert_eq!(catalog.failures.len() + catalog.resources.len(), silent + 2);
            assert_eq!(catalog.select(&["deploy".to_owned()]).is_ok(), silent <= 128, "{silent}");
            let problem = catalog.problem().unwrap();
            assert!(
                problem.contains("silent-0/v1") && problem.contains("no response within 15 s"),
                "{problem}"
            );
        }
        assert_eq!(Catalog::read(&client(0)).await.unwrap().problem(), None);
    }
}
