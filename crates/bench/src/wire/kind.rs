//! `Kind`: the kinds of objects that a recording can contain.

use serde::{Deserialize, Serialize};

use super::json;

/// Selects the kind of all objects of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `v1` Pods.
    #[default]
    Pod,
    /// `v1` ConfigMaps.
    ConfigMap,
    /// `v1` Secrets.
    Secret,
    /// `v1` Nodes.
    Node,
    /// `apps/v1` Deployments.
    Deployment,
    /// `apps/v1` ReplicaSets.
    ReplicaSet,
    /// `example.com/v1` Databases, a custom resource. kube-apiserver has no protobuf for such a kind.
    Database,
}

/// The constant texts of a kind.
pub(crate) struct KindTexts {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) list_kind: &'static str,
    /// The path of the objects of all namespaces.
    pub(crate) path: &'static str,
    pub(super) json: json::Prefixes,
}

/// Creates the texts of a kind. `empty` is the JSON of an object without fields, after its metadata.
macro_rules! texts {
    ($api_version:literal, $kind:literal, $path:literal, $empty:literal) => {
        &KindTexts {
            api_version: $api_version,
            kind: $kind,
            list_kind: concat!($kind, "List"),
            path: $path,
            json: json::Prefixes {
                list: concat!(
                    r#"{"kind":""#,
                    $kind,
                    r#"List","apiVersion":""#,
                    $api_version,
                    r#"","metadata":"#
                ),
                in_event: concat!(r#"{"kind":""#, $kind, r#"","apiVersion":""#, $api_version, r#"","#),
                in_list: "{",
                empty: $empty,
            },
        }
    };
}

impl Kind {
    /// Returns the texts of the kind.
    pub(crate) fn texts(self) -> &'static KindTexts {
        match self {
            Self::Pod => texts!("v1", "Pod", "/api/v1/pods", r#","spec":{"containers":null},"status":{}"#),
            Self::ConfigMap => texts!("v1", "ConfigMap", "/api/v1/configmaps", ""),
            Self::Secret => texts!("v1", "Secret", "/api/v1/secrets", ""),
            Self::Node => texts!("v1", "Node", "/api/v1/nodes", ""),
            Self::Deployment => texts!("apps/v1", "Deployment", "/apis/apps/v1/deployments", ""),
            Self::ReplicaSet => texts!("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets", ""),
            Self::Database => texts!("example.com/v1", "Database", "/apis/example.com/v1/databases", ""),
        }
    }

    /// Returns the name of the resource, for example `pods`.
    pub(crate) fn plural(self) -> &'static str {
        let path = self.texts().path;
        path.rsplit_once('/').map_or(path, |(_, plural)| plural)
    }

    /// Returns the kind with this name of its resource.
    pub(crate) fn of_plural(plural: &str) -> Option<Self> {
        const ALL: [Kind; 7] = [
            Kind::Pod,
            Kind::ConfigMap,
            Kind::Secret,
            Kind::Node,
            Kind::Deployment,
            Kind::ReplicaSet,
            Kind::Database,
        ];
        ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// Returns whether kube-apiserver can send the objects in protobuf.
    pub(crate) fn has_protobuf(self) -> bool {
        self != Self::Database
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_found_by_its_resource() {
        assert_eq!(Kind::of_plural("replicasets"), Some(Kind::ReplicaSet));
        assert_eq!(Kind::of_plural("pod"), None);
        let texts = Kind::Deployment.texts();
        assert_eq!(texts.json.list, r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":"#);
        assert_eq!(texts.list_kind, "DeploymentList");
    }
}
