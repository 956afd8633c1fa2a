//! Which requests a fault is for.

use std::fmt;
use std::sync::Arc;

use crate::journal::{Request, Verb};

type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// Picks requests; each part that is set must agree.
#[derive(Clone, Default)]
pub struct RequestMatch {
    verb: Option<Verb>,
    group: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// Query parameters and, where it matters, their values.
    parameters: Vec<(String, Option<String>)>,
    predicates: Vec<Predicate>,
}

impl RequestMatch {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Only this API group; the core group is empty.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only this resource (plural, such as `pods`).
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Only this subresource (such as `status`); the object itself is empty.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Only this namespace in the path.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only this object's name in the path.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only with this query parameter at this value, such as `resourceVersion` at `7`.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.into(), Some(value.into())));
        self
    }

    /// Only with this query parameter, whatever its value: `continue` picks the pages after the first.
    #[must_use]
    pub fn with_parameter(mut self, name: &str) -> Self {
        self.parameters.push((name.into(), None));
        self
    }

    /// Only what this function picks, too. It must be quick, and it may look at the server, its faults and its journal. (Who
    /// captures a `Server` in a fault of that same server keeps it in memory until the fault is gone.)
    #[must_use]
    pub fn when(mut self, picks: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Arc::new(picks));
        self
    }

    pub(crate) fn selects(&self, request: &Request) -> bool {
        let info = &request.info;
        let agrees = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let within = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
        self.verb.is_none_or(|verb| verb == info.verb)
            && agrees(&self.group, &info.group)
            && agrees(&self.resource, &info.resource)
            && agrees(&self.subresource, info.subresource.as_deref().unwrap_or(""))
            && within(&self.namespace, &info.namespace)
            && within(&self.name, &info.name)
            && self.parameters.iter().all(|(name, value)| has_parameter(request, name, value.as_deref()))
            && self.predicates.iter().all(|picks| picks(request))
    }
}

fn has_parameter(request: &Request, name: &str, value: Option<&str>) -> bool {
    request.parameter(name).is_some_and(|is| value.is_none_or(|value| value == is))
}

impl fmt::Debug for RequestMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMatch")
            .field("verb", &self.verb)
            .field("group", &self.group)
            .field("resource", &self.resource)
            .field("subresource", &self.subresource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .field("predicates", &self.predicates.len())
            .finish()
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
            ..RequestInfo::other()
        };
        Request { query: "limit=5&continue=x%3D".into(), ..Request::new(info) }
    }

    #[test]
    fn every_part_must_agree() {
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
