//! The Pods of a Deployment.

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube_client::{Api, api::ListParams};

use super::{address::AddressFlags, error::WhyError};
use crate::{connection::Session, error::CliError};

/// The maximum number of Pods that are read.
const MAX_PODS: usize = 50;

/// Returns the names of the running Pods of a Deployment, in the order of their names.
///
/// # Errors
///
/// Fails if the Deployment or its Pods cannot be read, or if no Pod is running.
pub(super) async fn running_pods(
    session: &Session,
    flags: &AddressFlags,
    name: &str,
) -> Result<Vec<String>, CliError> {
    let namespace = flags.namespace(session);
    let deployments: Api<Deployment> = Api::namespaced(session.client.clone(), namespace);
    let failed = |operation: String| move |error| CliError::request(operation, error);
    let deployment = deployments.get(name).await;
    let deployment = deployment.map_err(failed(format!("read the Deployment {namespace}/{name}")))?;
    let selector = selector_text(&deployment.spec.unwrap_or_default().selector);
    let pods: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(&selector)).await;
    let pods = pods.map_err(failed(format!("list the Pods of the Deployment {namespace}/{name}")))?;
    let mut names: Vec<_> =
        pods.items.into_iter().filter(is_running).filter_map(|pod| pod.metadata.name).collect();
    names.sort();
    names.truncate(MAX_PODS);
    if names.is_empty() {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        return Err(WhyError::NoRunningPod { namespace, name }.into());
    }
    Ok(names)
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}

/// Returns a label selector as the text of a request.
fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().filter_map(|expression| {
        let (key, values) = (&expression.key, expression.values.clone().unwrap_or_default().join(","));
        match expression.operator.as_str() {
            "In" => Some(format!("{key} in ({values})")),
            "NotIn" => Some(format!("{key} notin ({values})")),
            "Exists" => Some(key.clone()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_contains_labels_and_expressions() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        assert_eq!(selector_text(&selector), "app=web,tier in (a,b),!old");
    }
}
