//! Checks the version and the resources of the server.

use kube_client::Client;

use super::report::{Finding, Verdict};
use crate::{
    error::CliError,
    resources::{Catalog, ServerResource},
};

/// Reads the version of the server.
pub(super) async fn version(client: &Client) -> Result<Finding, CliError> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| CliError::request("read the version of the server", error))?;
    Ok(green("server", format!("responds, Kubernetes {}", version.git_version)))
}

/// Checks that each API group could be read.
pub(super) fn resources(catalog: &Catalog) -> Finding {
    let Some((group, error)) = catalog.failures.first() else {
        return green("API groups", format!("{} resources", catalog.resources.len()));
    };
    Finding {
        check: "API groups",
        verdict: Verdict::Amber,
        detail: format!(
            "{} API groups do not respond, the first is {group}: {error}",
            catalog.failures.len()
        ),
        remedy: "check the APIService objects: `kubectl get apiservices`".to_owned(),
    }
}

/// Checks that the resources can be listed and watched.
pub(super) fn watchable(resources: &[&ServerResource]) -> Finding {
    let unwatchable: Vec<_> = resources
        .iter()
        .filter(|resource| !resource.is_watchable())
        .map(|resource| resource.name())
        .collect();
    if unwatchable.is_empty() {
        return green("verbs", format!("{} resources can be listed and watched", resources.len()));
    }
    Finding {
        check: "verbs",
        verdict: Verdict::Red,
        detail: format!("the server cannot watch {}", unwatchable.join(", ")),
        remedy: "choose resources that support the verbs list and watch: `kubectl api-resources --verbs=list,watch`"
            .to_owned(),
    }
}

fn green(check: &'static str, detail: String) -> Finding {
    Finding { check, verdict: Verdict::Green, detail, remedy: String::new() }
}
