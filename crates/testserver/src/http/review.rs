//! Access reviews. A client creates a review to query its user name or the rights of a user. Reviews
//! are not stored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::control::Decision;
use crate::access::rule::Rule;
use crate::access::users::User;
use crate::encoding::body::Body;
use crate::encoding::object_encoder::{Requested, negotiate};
use crate::http::service::{Call, json};
use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::{Cause, Named, Status};
use crate::wire::object::meta;
use crate::wire::route::ResourcePath;
use crate::write::decode;

const AUTHORIZATION: &str = "authorization.k8s.io";

/// A kind of review.
#[derive(Debug)]
pub(crate) struct Review {
    pub kind: Kind,
    query: ReviewQuery,
}

/// The query of a review.
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

/// The spec of an access review.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessReviewSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ReviewedResource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<ReviewedPath>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ReviewedResource {
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Value>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ReviewedPath {
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    verb: String,
}

#[derive(Serialize)]
struct ReviewResponse<'a, S, T> {
    kind: &'a str,
    #[serde(rename = "apiVersion")]
    api_version: String,
    metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<S>,
    status: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SelfReviewStatus<'a> {
    user_info: UserInfo<'a>,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RulesReviewStatus {
    resource_rules: Vec<AllowedRule>,
    non_resource_rules: Vec<AllowedRule>,
    incomplete: bool,
}

/// A rule that allows requests for resources or for paths.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AllowedRule {
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
}

impl Review {
    /// Responds to a request for this kind of review.
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
        negotiate(&call.parts.headers, Requested::Object, &self.kind)?;
        decode::check_json(&call.parts.headers)?;
        let object = without_nulls(decode::object(body, &self.kind)?);
        let user = call.user.clone()?;
        let response = match self.query {
            ReviewQuery::UserInfo => self.user_info(shared, &user),
            ReviewQuery::SelfRules => self.rules(shared, &user, &object)?,
            ReviewQuery::SelfAccess => self.own_access(shared, &user, &object)?,
            ReviewQuery::Access => self.access(shared, &object)?,
            ReviewQuery::LocalAccess => self.local_access(shared, &object, path.namespace.as_deref())?,
        };
        Ok(json(201, response.as_bytes()))
    }

    fn user_info(&self, shared: &Shared, user: &User) -> String {
        let metadata = json!({"creationTimestamp": shared.config.clock.timestamp(0)});
        let User { name, uid, groups, extra } = user;
        let user_info = UserInfo { username: name, uid, groups, extra };
        self.serialise(metadata, None::<AccessReviewSpec>, SelfReviewStatus { user_info })
    }

    fn rules(&self, shared: &Shared, user: &User, object: &Map<String, Value>) -> Result<String, Status> {
        let namespace = object.get("spec").and_then(|spec| spec.get("namespace")).and_then(Value::as_str);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.ok_or_else(|| Status::bad_request("no namespace on request"))?;
        let permitted = shared.access.permitted(user, namespace);
        let convert = |selects: fn(&Rule) -> bool, convert: fn(&Rule) -> AllowedRule| -> Vec<AllowedRule> {
            permitted.rules.iter().filter(|rule| selects(rule)).map(convert).collect()
        };
        let status = RulesReviewStatus {
            resource_rules: convert(Rule::is_for_resources, allowed_resources),
            non_resource_rules: convert(Rule::is_for_paths, allowed_paths),
            incomplete: permitted.restricted,
        };
        // Like the real server, returns an empty spec.
        Ok(self.serialise(json!({}), Some(json!({})), status))
    }

    fn own_access(
        &self,
        shared: &Shared,
        user: &User,
        object: &Map<String, Value>,
    ) -> Result<String, Status> {
        let mut spec = spec(object, &self.kind)?;
        (spec.user, spec.groups, spec.extra, spec.uid) = Default::default();
        let mut causes = attribute_causes(&spec);
        causes.extend(metadata_cause(object, ""));
        reject(causes)?;
        let status = decision_status(&shared.access.decide(user, &spec.attributes()));
        Ok(self.serialise(json!({}), Some(spec), status))
    }

    fn access(&self, shared: &Shared, object: &Map<String, Value>) -> Result<String, Status> {
        let spec = spec(object, &self.kind)?;
        let mut causes = subject_causes(&spec);
        causes.extend(metadata_cause(object, ""));
        reject(causes)?;
        let status = decision_status(&shared.access.decide(&spec.subject(), &spec.attributes()));
        Ok(self.serialise(json!({}), Some(spec), status))
    }

    fn local_access(
        &self,
        shared: &Shared,
        object: &Map<String, Value>,
        namespace: Option<&str>,
    ) -> Result<String, Status> {
        let namespace = namespace.unwrap_or("");
        if !["", namespace].contains(&meta(object, "namespace")) {
            let text =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(text));
        }
        let spec = spec(object, &self.kind)?;
        let mut causes = subject_causes(&spec);
        causes.extend(metadata_cause(object, namespace));
        let resource = spec.resource_attributes.as_ref();
        if let Some(resource) = resource.filter(|resource| resource.namespace != namespace) {
            let field = "spec.resourceAttributes.namespace";
            causes.push(Cause::invalid(
                field,
                &format!("{:?}", resource.namespace),
                "must match metadata.namespace",
            ));
        }
        if let Some(path) = &spec.non_resource_attributes {
            let text = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", &path.in_go_syntax(), text));
        }
        reject(causes)?;
        let status = decision_status(&shared.access.decide(&spec.subject(), &spec.attributes()));
        Ok(self.serialise(json!({"namespace": namespace}), Some(spec), status))
    }

    fn serialise(&self, metadata: Value, spec: Option<impl Serialize>, status: impl Serialize) -> String {
        let kind = &self.kind;
        let response =
            ReviewResponse { kind: &kind.kind, api_version: kind.api_version(), metadata, spec, status };
        // Cannot fail, because all map keys are strings.
        serde_json::to_string(&response).unwrap_or_else(|_| "{}".into())
    }
}

impl AccessReviewSpec {
    fn attributes(&self) -> Attributes {
        if let Some(path) = &self.non_resource_attributes {
            return Attributes::Path { verb: path.verb.clone(), path: path.path.clone() };
        }
        let attributes = self.resource_attributes.as_ref().map(|reviewed| ResourceAttributes {
            verb: reviewed.verb.clone(),
            group: reviewed.group.clone(),
            resource: reviewed.resource.clone(),
            subresource: reviewed.subresource.clone(),
            namespace: reviewed.namespace.clone(),
            name: reviewed.name.clone(),
        });
        Attributes::Resource(attributes.unwrap_or_default())
    }

    fn subject(&self) -> User {
        User { name: self.user.clone(), groups: self.groups.clone(), ..User::default() }
    }
}

impl ReviewedPath {
    /// Formats the path like Go's decoder.
    fn in_go_syntax(&self) -> String {
        format!("{{\"Path\":{:?},\"Verb\":{:?}}}", self.path, self.verb)
    }
}

fn spec(object: &Map<String, Value>, kind: &Kind) -> Result<AccessReviewSpec, Status> {
    let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec).map_err(|error| {
        let (kind, version) = (&kind.kind, &kind.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: json: {error}"
        ))
    })
}

/// Removes null values, because null means absent.
fn without_nulls(object: Map<String, Value>) -> Map<String, Value> {
    let kept = object.into_iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| match value {
        Value::Object(inner) => (key, Value::Object(without_nulls(inner))),
        other => (key, other),
    })
    .collect()
}

fn attribute_causes(spec: &AccessReviewSpec) -> Vec<Cause> {
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(path)) => {
            let text = "cannot be specified in combination with resourceAttributes";
            vec![Cause::invalid("spec.nonResourceAttributes", &path.in_go_syntax(), text)]
        }
        (None, None) => {
            let text = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![Cause::invalid("spec.resourceAttributes", "null", text)]
        }
        _ => Vec::new(),
    }
}

fn subject_causes(spec: &AccessReviewSpec) -> Vec<Cause> {
    let mut causes = attribute_causes(spec);
    if spec.user.is_empty() && spec.groups.is_empty() {
        causes.push(Cause::invalid("spec.user", "\"\"", "at least one of user or group must be specified"));
    }
    causes
}

/// Returns the cause for non-empty metadata. Only the namespace of the path may be set.
fn metadata_cause(object: &Map<String, Value>, namespace: &str) -> Option<Cause> {
    let metadata = object.get("metadata")?.as_object()?;
    let more = metadata
        .iter()
        .any(|(key, value)| key != "managedFields" && (key != "namespace" || value != namespace));
    let printed = Value::Object(metadata.clone()).to_string();
    let text = if namespace.is_empty() { "must be empty" } else { "must be empty except for namespace" };
    more.then(|| Cause::invalid("metadata", &printed, text))
}

fn reject(causes: Vec<Cause>) -> Result<(), Status> {
    let review = Named { group: AUTHORIZATION, resource: "" };
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(review, "", causes)) }
}

fn decision_status(decision: &Decision) -> Value {
    match decision {
        Decision::Allowed(reason) if reason.is_empty() => json!({"allowed": true}),
        Decision::Allowed(reason) => json!({"allowed": true, "reason": reason}),
        Decision::Denied => json!({"allowed": false, "denied": true}),
        Decision::NoOpinion => json!({"allowed": false}),
    }
}

fn or_all(list: &[String]) -> Vec<String> {
    if list.is_empty() { vec!["*".into()] } else { list.to_vec() }
}

fn allowed_resources(rule: &Rule) -> AllowedRule {
    AllowedRule {
        verbs: or_all(&rule.verbs),
        api_groups: or_all(&rule.api_groups),
        resources: or_all(&rule.resources),
        resource_names: rule.names.clone(),
        paths: Vec::new(),
    }
}

fn allowed_paths(rule: &Rule) -> AllowedRule {
    AllowedRule {
        verbs: or_all(&rule.verbs),
        api_groups: Vec::new(),
        resources: Vec::new(),
        resource_names: Vec::new(),
        paths: or_all(&rule.paths),
    }
}
