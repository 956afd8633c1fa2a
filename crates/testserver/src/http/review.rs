//! Access reviews. A client creates a review to query its user name or the rights of a user. Reviews
//! are not stored.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::control::Decision;
use crate::access::rule::Rule;
use crate::access::users::User;
use crate::encoding::body::Body;
use crate::encoding::object_encoder::{Requested, negotiate};
use crate::http::service::{self, Call};
use crate::schemas::crd::schema::node::text;
use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::{Cause, Named, Status};
use crate::wire::object::{Object, meta};
use crate::wire::route::ResourcePath;
use crate::write::strict::read_typed;
use crate::write::{Via, WriteOptions, decode};

const AUTHORIZATION: &str = "authorization.k8s.io";

#[derive(Debug)]
pub(crate) struct Review {
    pub kind: Kind,
    query: ReviewQuery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReviewQuery {
    /// The query for the user name and groups of the client.
    UserInfo,
    /// The query for one right of the client.
    SelfAccess,
    /// The query for the rules of the client in a namespace.
    SelfRules,
    /// The query for one right of any user.
    Access,
    /// The query for one right of any user in the namespace of the review.
    LocalAccess,
}

static REVIEWS: LazyLock<Vec<Review>> = LazyLock::new(|| {
    let query = |kind: &Kind| match kind.kind.as_str() {
        "SelfSubjectReview" => ReviewQuery::UserInfo,
        "SelfSubjectAccessReview" => ReviewQuery::SelfAccess,
        "SelfSubjectRulesReview" => ReviewQuery::SelfRules,
        "LocalSubjectAccessReview" => ReviewQuery::LocalAccess,
        _ => ReviewQuery::Access,
    };
    crate::schemas::kinds::builtin::reviews().map(|kind| Review { query: query(&kind), kind }).collect()
});

/// Returns all kinds of reviews. Discovery lists them.
pub(crate) fn all() -> impl Iterator<Item = &'static Review> {
    REVIEWS.iter()
}

/// Returns the kind of review that a path addresses, with or without a namespace.
pub(crate) fn find(path: &ResourcePath) -> Option<&'static Review> {
    all().find(|review| {
        let kind = &review.kind;
        kind.group == path.group && kind.version == path.version && kind.plural == path.resource
    })
}

impl Review {
    pub(crate) fn respond(
        &self,
        shared: &Shared,
        path: &ResourcePath,
        call: &Call,
        body: &Bytes,
    ) -> Result<Response<Body>, Status> {
        if path.name.is_some() || path.namespace.is_some() != self.kind.rules.namespaced {
            return Err(Status::no_such_resource());
        }
        if call.parts.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        negotiate(&call.parts.headers, Requested::Object)?;
        decode::check_json(&call.parts.headers)?;
        let mut object = decode::object(body, &self.kind)?;
        read_typed(&self.kind, Via::Put, &mut object, &WriteOptions::default())?;
        let user = call.user.clone()?;
        let namespace = path.namespace.as_deref().unwrap_or("");
        let metadata = match self.query {
            ReviewQuery::UserInfo => json!({"creationTimestamp": shared.config.clock.timestamp(0)}),
            ReviewQuery::LocalAccess => json!({"namespace": namespace}),
            _ => json!({}),
        };
        let status = self.status(shared, &user, namespace, &object)?;
        let mut response = json!({
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata, "status": status,
        });
        match self.query {
            ReviewQuery::UserInfo => {}
            // Like the real server, returns an empty spec.
            ReviewQuery::SelfRules => response["spec"] = json!({}),
            _ => response["spec"] = object.remove("spec").unwrap_or_default(),
        }
        Ok(service::json(201, response.to_string().as_bytes()))
    }

    fn status(
        &self,
        shared: &Shared,
        user: &User,
        namespace: &str,
        object: &Object,
    ) -> Result<Value, Status> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        match self.query {
            ReviewQuery::UserInfo => return Ok(user_info(user)),
            ReviewQuery::SelfRules => return rules(shared, user, &spec["namespace"]),
            ReviewQuery::LocalAccess if !["", namespace].contains(&meta(object, "namespace")) => {
                return Err(Status::bad_request("the namespaces of the object and of the path differ"));
            }
            ReviewQuery::SelfAccess | ReviewQuery::Access | ReviewQuery::LocalAccess => {}
        }
        let mut causes = attribute_causes(spec);
        if self.query != ReviewQuery::SelfAccess
            && texts(&spec["groups"]).is_empty()
            && text(spec, "user").is_empty()
        {
            let text = "at least one of user or group must be specified";
            causes.push(Cause::invalid_text("spec.user", "", text));
        }
        if self.query == ReviewQuery::LocalAccess {
            let resource = &spec["resourceAttributes"];
            if resource.is_object() && text(resource, "namespace") != namespace {
                let field = "spec.resourceAttributes.namespace";
                let shown = text(resource, "namespace");
                causes.push(Cause::invalid_text(field, shown, "must match metadata.namespace"));
            }
        }
        if !causes.is_empty() {
            return Err(Status::invalid(Named { group: AUTHORIZATION, resource: "" }, "", causes));
        }
        let subject =
            User { name: text(spec, "user").into(), groups: texts(&spec["groups"]), ..User::default() };
        let subject = if self.query == ReviewQuery::SelfAccess { user } else { &subject };
        Ok(match shared.access.decide(subject, &attributes(spec)) {
            Decision::Allowed(reason) if reason.is_empty() => json!({"allowed": true}),
            Decision::Allowed(reason) => json!({"allowed": true, "reason": reason}),
            Decision::Denied => json!({"allowed": false, "denied": true}),
            Decision::NoOpinion => json!({"allowed": false}),
        })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn user_info(user: &User) -> Value {
    let User { name, uid, groups, extra } = user;
    let mut info = json!({"username": name, "groups": groups});
    if !uid.is_empty() {
        info["uid"] = uid.as_str().into();
    }
    if !extra.is_empty() {
        info["extra"] = json!(extra);
    }
    json!({"userInfo": info})
}

fn rules(shared: &Shared, user: &User, namespace: &Value) -> Result<Value, Status> {
    let namespace = namespace.as_str().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or_else(|| Status::bad_request("no namespace on request"))?;
    let permitted = shared.access.permitted(user, namespace);
    let or_all = |list: &[String]| if list.is_empty() { json!(["*"]) } else { json!(list) };
    let resources = permitted.rules.iter().filter(|rule| rule.is_for_resources()).map(|rule| {
        let Rule { verbs, api_groups, resources, names, .. } = rule;
        let mut allowed =
            json!({"verbs": or_all(verbs), "apiGroups": or_all(api_groups), "resources": or_all(resources)});
        if !names.is_empty() {
            allowed["resourceNames"] = json!(names);
        }
        allowed
    });
    let paths = permitted.rules.iter().filter(|rule| rule.is_for_paths());
    let paths =
        paths.map(|rule| json!({"verbs": or_all(&rule.verbs), "nonResourceURLs": or_all(&rule.paths)}));
    Ok(json!({
        "resourceRules": resources.collect::<Value>(), "nonResourceRules": paths.collect::<Value>(),
        "incomplete": permitted.restricted,
    }))
}

fn attributes(spec: &Value) -> Attributes {
    let owned = |of: &Value, key: &str| text(of, key).to_owned();
    let (path, resource) = (&spec["nonResourceAttributes"], &spec["resourceAttributes"]);
    if path.is_object() {
        return Attributes::Path { verb: owned(path, "verb"), path: owned(path, "path") };
    }
    Attributes::Resource(ResourceAttributes {
        verb: owned(resource, "verb"),
        group: owned(resource, "group"),
        resource: owned(resource, "resource"),
        subresource: owned(resource, "subresource"),
        namespace: owned(resource, "namespace"),
        name: owned(resource, "name"),
    })
}

fn attribute_causes(spec: &Value) -> Vec<Cause> {
    let (path, resource) = (&spec["nonResourceAttributes"], &spec["resourceAttributes"]);
    if resource.is_object() != path.is_object() {
        return Vec::new();
    }
    let (field, shown) = match path {
        Value::Object(_) => ("spec.nonResourceAttributes", path),
        _ => ("spec.resourceAttributes", &Value::Null),
    };
    let text = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![Cause::invalid(field, &shown.to_string(), text)]
}
