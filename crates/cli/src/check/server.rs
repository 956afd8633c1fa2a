//! Checks the version and the resources of the server.

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::version::Info};
use kube_client::{Api, Client, Error};

use super::report::{Finding, Verdict};
use crate::{
    discovery::{DiscoveryError, document},
    error::CliError,
    output::counted,
    resources::{Catalog, ServerResource},
};

/// The minor versions of Kubernetes 1 that kube-informer supports.
const SUPPORTED_MINORS: std::ops::RangeInclusive<u32> = 33..=37;

/// Reads the version of the server.
///
/// # Errors
///
/// Fails if the server cannot be reached, or rejects the credentials.
pub(super) async fn version(client: &Client) -> Result<Finding, CliError> {
    match document::<Info>(client, "/version").await {
        Ok(version) => Ok(supported(&version.git_version)),
        Err(DiscoveryError::Request(Error::Api(status))) if status.code != 401 => Ok(Finding::new(
            "server",
            Verdict::Amber,
            format!("the version is unknown: {}", status.message),
            "grant the verb get for the nonResourceURL /version, as in the ClusterRole system:public-info-viewer",
        )),
        Err(error) => Err(error.of("read the version of the server")),
    }
}

fn supported(version: &str) -> Finding {
    let detail = format!("Kubernetes {version} responds");
    if minor(version).is_some_and(|minor| SUPPORTED_MINORS.contains(&minor)) {
        return Finding::green("server", detail);
    }
    Finding::new(
        "server",
        Verdict::Amber,
        detail,
        format!(
            "kube-informer is tested with Kubernetes 1.{} to 1.{}; use one of these versions",
            SUPPORTED_MINORS.start(),
            SUPPORTED_MINORS.end()
        ),
    )
}

/// Returns the minor version, for example 36 of `v1.36.1+k3s1`.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Reads the resources of the server. `None` if the user may not read them.
///
/// # Errors
///
/// Fails if the server cannot be reached.
pub(super) async fn catalog(client: &Client) -> Result<(Option<Catalog>, Finding), CliError> {
    match Catalog::read(client).await {
        Ok(catalog) => {
            let finding = groups(&catalog);
            Ok((Some(catalog), finding))
        }
        Err(CliError::Request { source, operation }) => match *source {
            Error::Api(status) => Ok((
                None,
                Finding::new(
                    "API groups",
                    Verdict::Red,
                    format!("failed to {operation}: {}", status.message),
                    "grant the ClusterRole system:discovery, or write NAME.VERSION.GROUP, for example deployments.v1.apps",
                ),
            )),
            source => Err(CliError::request(operation, source)),
        },
        Err(error) => Err(error),
    }
}

fn groups(catalog: &Catalog) -> Finding {
    let Some((group, error)) = catalog.failures.first() else {
        let detail = format!("all API groups respond, with {}", counted(catalog.resources.len(), "resource"));
        return Finding::green("API groups", detail);
    };
    Finding::new(
        "API groups",
        Verdict::Amber,
        format!(
            "no response from {}, the first is {group}: {error}",
            counted(catalog.failures.len(), "API group")
        ),
        "check the APIService objects: `kubectl get apiservices`",
    )
}

/// Checks that the namespace of the informers exists. `None` if it exists, or if it cannot be read.
///
/// An API server returns an empty list for a namespace that does not exist, so the other checks succeed.
pub(super) async fn namespace(client: &Client, name: &str) -> Option<Finding> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let is_missing = matches!(namespaces.get_metadata_opt(name).await, Ok(None));
    is_missing.then(|| {
        Finding::new(
            "namespace",
            Verdict::Amber,
            format!("the namespace {name} does not exist, so its caches stay empty"),
            format!("correct the name, or create the namespace: `kubectl create namespace {name}`"),
        )
    })
}

/// Checks that the resources can be listed and watched.
pub(super) fn watchable(resources: &[ServerResource]) -> Finding {
    let unwatchable: Vec<_> =
        resources.iter().filter(|resource| !resource.is_watchable()).map(ServerResource::name).collect();
    if unwatchable.is_empty() {
        return Finding::green(
            "verbs",
            format!("{} can be listed and watched", counted(resources.len(), "resource")),
        );
    }
    Finding::new(
        "verbs",
        Verdict::Red,
        format!("the server cannot watch {}", unwatchable.join(", ")),
        "choose resources that support the verbs list and watch: `kubectl api-resources --verbs=list,watch`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_compared_with_supported_versions() {
        for (version, verdict) in [
            ("v1.33.0", Verdict::Green),
            ("v1.37.2+k3s1", Verdict::Green),
            ("v1.32.9", Verdict::Amber),
            ("v1.38.0-alpha.1", Verdict::Amber),
            ("v2.33.0", Verdict::Amber),
            ("unknown", Verdict::Amber),
        ] {
            assert_eq!(supported(version).verdict(), verdict, "{version}");
        }
    }
}
