//! `Target`: a resource in the scope of an informer.

use kube_informer::Scope;

use crate::{flags::SelectionFlags, resources::ServerResource};

/// A resource with the scope and the selectors of an informer.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) resource: &'a ServerResource,
    /// `None` for all namespaces, and for cluster-scoped resources.
    pub(super) namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

impl<'a> Target<'a> {
    /// Creates a target. `current` is the namespace of the context.
    pub(super) fn new(resource: &'a ServerResource, selection: &SelectionFlags, current: &str) -> Self {
        Self {
            resource,
            namespace: match resource.scope {
                Scope::Namespaced => selection.namespace(current),
                Scope::Cluster => None,
            },
            labels: selection.selector.clone(),
            fields: selection.field_selector.clone(),
        }
    }

    /// Returns the name of the resource, for example `deployments.apps`.
    pub(super) fn name(&self) -> String {
        self.resource.name()
    }

    /// Returns the place of the objects for messages.
    pub(super) fn place(&self) -> String {
        match (&self.namespace, self.resource.scope) {
            (Some(namespace), _) => format!(" in the namespace {namespace}"),
            (None, Scope::Namespaced) => " in all namespaces".to_owned(),
            (None, Scope::Cluster) => String::new(),
        }
    }

    /// Returns the name that the field selector selects. RBAC then compares this name with `resourceNames`.
    pub(super) fn selected_name(&self) -> Option<&str> {
        let terms = self.fields.as_deref()?.split(',');
        terms
            .filter_map(|term| term.split_once('='))
            .find_map(|(field, name)| (field == "metadata.name").then(|| name.trim_start_matches('=')))
    }

    /// Returns the path and the query of a request for the objects.
    pub(super) fn uri(&self, parameters: &[(&str, &str)]) -> String {
        let resource = &self.resource.resource;
        let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
        let namespace =
            self.namespace.as_ref().map_or_else(String::new, |name| format!("namespaces/{name}/"));
        let mut query = form_urlencoded::Serializer::new(String::new());
        let selectors = [("labelSelector", &self.labels), ("fieldSelector", &self.fields)];
        for (name, selector) in selectors {
            if let Some(selector) = selector {
                query.append_pair(name, selector);
            }
        }
        query.extend_pairs(parameters);
        format!("{prefix}/{}/{namespace}{}?{}", resource.api_version, resource.plural, query.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(fields: &str) -> SelectionFlags {
        SelectionFlags {
            selector: Some("app in (a,b)".to_owned()),
            field_selector: Some(fields.to_owned()),
            ..SelectionFlags::default()
        }
    }

    #[test]
    fn uri_contains_scope_and_encoded_selectors() {
        let pods = ServerResource::assumed("pods");
        let target = Target::new(&pods, &selection("metadata.name=a&b"), "shop");
        assert_eq!(
            target.uri(&[("limit", "1")]),
            "/api/v1/namespaces/shop/pods?labelSelector=app+in+%28a%2Cb%29&fieldSelector=metadata.name%3Da%26b&limit=1"
        );
        let deployments = ServerResource::assumed("deployments.v1.apps");
        let all = SelectionFlags { all_namespaces: true, ..SelectionFlags::default() };
        assert_eq!(Target::new(&deployments, &all, "shop").uri(&[]), "/apis/apps/v1/deployments?");
    }

    #[test]
    fn selected_name_comes_from_field_selector() {
        let pods = ServerResource::assumed("pods");
        for (fields, name) in [
            ("metadata.name=web", Some("web")),
            ("status.phase!=Failed,metadata.name==web", Some("web")),
            ("metadata.name!=web", None),
            ("spec.nodeName=web", None),
        ] {
            assert_eq!(Target::new(&pods, &selection(fields), "shop").selected_name(), name, "{fields}");
        }
    }
}
