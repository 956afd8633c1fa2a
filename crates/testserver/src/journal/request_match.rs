//! The selection of requests, for a fault or in the journal.

use std::fmt;
use std::sync::Arc;

use crate::journal::{Request, Verb};

#[derive(Clone)]
struct Predicate(Arc<dyn Fn(&Request) -> bool + Send + Sync>);

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

/// Selects requests. A request must match every condition that is set.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RequestMatch {
    verb: Option<Verb>,
    group: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// Query parameters with their values. `None` matches every value.
    parameters: Vec<(String, Option<String>)>,
    predicates: Vec<Predicate>,
}

impl RequestMatch {
    /// Selects every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Selects requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Adds the condition that the request is for this API group. The core group is the empty text.
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds the condition that the request is for this resource, by its plural name such as `pods`.
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Adds the condition that the request is for this subresource, such as `status`. An empty name
    /// selects requests for the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Adds the condition that the path of the request contains this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Adds the condition that the path of the request contains this object name. The path of a create
    /// contains no name. A create matches only if the server
    /// [records bodies](crate::ServerBuilder::record_bodies) and the body contains the name.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds the condition that a query parameter has this value, for example `resourceVersion` = `7`.
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.into(), Some(value.into())));
        self
    }

    /// Adds the condition that the request has this query parameter, with any value. For example,
    /// `continue` selects the pages after the first page.
    pub fn with_parameter(mut self, name: &str) -> Self {
        self.parameters.push((name.into(), None));
        self
    }

    /// Adds the condition that the request is for the resource of this type, such as `ConfigMap`.
    #[cfg(feature = "kube")]
    pub fn kind<K: kube_core::Resource<DynamicType: Default>>(self) -> Self {
        let dynamic = K::DynamicType::default();
        self.group(&K::group(&dynamic)).resource(&K::plural(&dynamic))
    }

    /// Adds the condition that the authenticated user has this name.
    pub fn user(self, name: &str) -> Self {
        let name = name.to_owned();
        self.when(move |request| request.user.as_ref() == Some(&name))
    }

    /// Adds the condition that the header `User-Agent` contains this text.
    pub fn user_agent(self, text: &str) -> Self {
        let text = text.to_owned();
        self.when(move |request| request.user_agent.as_ref().is_some_and(|agent| agent.contains(&text)))
    }

    /// Adds the condition that this function returns true for the request.
    ///
    /// The function must be fast. It may read the server, its faults and its journal. If it captures the
    /// `Server` that holds the fault, that server stays in memory until the fault is removed.
    pub fn when(mut self, predicate: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Predicate(Arc::new(predicate)));
        self
    }

    pub(crate) fn selects(&self, request: &Request) -> bool {
        let info = &request.info;
        let equals =
            |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        let contains =
            |wanted: &Option<String>, actual: &Option<String>| wanted.is_none() || wanted == actual;
        self.verb.is_none_or(|verb| verb == info.verb)
            && equals(&self.group, &info.group)
            && equals(&self.resource, &info.resource)
            && equals(&self.subresource, info.subresource.as_deref().unwrap_or(""))
            && contains(&self.namespace, &info.namespace)
            && self.name.as_deref().is_none_or(|name| request.is_named(name))
            && self.parameters.iter().all(|(name, value)| {
                request
                    .parameter(name)
                    .is_some_and(|actual| value.as_ref().is_none_or(|value| *value == actual))
            })
            && self.predicates.iter().all(|predicate| predicate.0(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::RequestInfo;

    fn page() -> Request {
        let info = RequestInfo {
            verb: Verb::List,
            resource: "deployments".into(),
            group: "apps".into(),
            namespace: Some("shop".into()),
            ..RequestInfo::default()
        };
        Request { query: "limit=5&continue=x%3D".into(), info, ..Request::default() }
    }

    #[test]
    fn request_must_match_every_part() {
        let all = RequestMatch::verb(Verb::List)
            .group("apps")
            .resource("deployments")
            .subresource("")
            .namespace("shop");
        assert!(all.clone().parameter("continue", "x=").with_parameter("limit").selects(&page()));
        assert!(RequestMatch::any().when(|request| request.number == 0).selects(&page()));
        for wrong in [
            RequestMatch::verb(Verb::Watch),
            all.clone().group(""),
            all.clone().resource("pods"),
            all.clone().subresource("status"),
            all.clone().namespace("ops"),
            all.clone().name("web"),
            all.clone().parameter("limit", "6"),
            all.clone().with_parameter("resourceVersion"),
            all.when(|request| request.number == 1),
        ] {
            assert!(!wrong.selects(&page()), "{wrong:?}");
        }
    }
}
