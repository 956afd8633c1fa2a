//! Reviews: a client asks, by creating one, who it is and what somebody may do. Nothing of it is stored.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::control::Decision;
use crate::access::rule::Rule;
use crate::access::users::User;
use crate::http::body::Body;
use crate::http::object_encoder::{Requested, negotiate};
use crate::http::route::ResourcePath;
use crate::http::service::{Call, json};
use crate::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::{Cause, Named, Status};
use crate::write::decode::{self, meta};

const AUTHORIZATION: &str = "authorization.k8s.io";

/// A kind of review.
#[derive(Debug)]
pub(crate) struct Review {
    pub kind: Kind,
    question: Question,
}

/// Who or what a review asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Who the client is.
    Self_,
    /// Whether the client may do something.
    SelfAccess,
    /// What the client may do in a namespace.
    SelfRules,
    /// Whether somebody may do something.
    Access,
    /// Whether somebody may do something in the review's namespace.
    LocalAccess,
}

static REVIEWS: LazyLock<Vec<Review>> = LazyLock::new(|| {
    let question = |kind: &Kind| match kind.kind.as_str() {
        "SelfSubjectReview" => Question::Self_,
        "SelfSubjectAccessReview" => Question::SelfAccess,
        "SelfSubjectRulesReview" => Question::SelfRules,
        "LocalSubjectAccessReview" => Question::LocalAccess,
        _ => Question::Access,
    };
    crate::kinds::builtin::reviews().map(|kind| Review { question: question(&kind), kind }).collect()
});

/// All kinds of reviews, which discovery lists.
pub(crate) fn all() -> impl Iterator<Item = &'static Review> {
    REVIEWS.iter()
}

/// The review that a path names, whatever its scope.
pub(crate) fn find(path: &ResourcePath) -> Option<&'static Review> {
    all().find(|review| {
        let kind = &review.kind;
        kind.group == path.group && kind.version == path.version && kind.plural == path.resource
    })
}

/// What an access review is about.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<Path>,
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
struct Resource {
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
struct Path {
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    verb: String,
}

#[derive(Serialize)]
struct Answer<'a, S, T> {
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
struct Known<'a> {
    user_info: UserInfo<'a>,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    username: &'a str,
    groups: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rules {
    resource_rules: Vec<Allowed>,
    non_resource_rules: Vec<Allowed>,
    incomplete: bool,
}

/// A rule that allows something: about resources, or about paths.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Allowed {
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
    /// Answers a request about this kind of review.
    pub(crate) fn answer(
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
        let user = shared.access.authenticate(&call.parts.headers)?;
        let answer = match self.question {
            Question::Self_ => self.who(shared, &user),
            Question::SelfRules => self.rules(shared, &user, &object)?,
            Question::SelfAccess => self.own_access(shared, &user, &object)?,
            Question::Access => self.access(shared, &object)?,
            Question::LocalAccess => self.local_access(shared, &object, path.namespace.as_deref())?,
        };
        Ok(json(201, answer.as_bytes()))
    }

    fn who(&self, shared: &Shared, user: &User) -> String {
        let metadata = json!({"creationTimestamp": shared.config.clock.timestamp(0)});
        let user_info = UserInfo { username: &user.name, groups: &user.groups };
        self.show(metadata, None::<Spec>, Known { user_info })
    }

    fn rules(&self, shared: &Shared, user: &User, object: &Map<String, Value>) -> Result<String, Status> {
        let namespace = object.get("spec").and_then(|spec| spec.get("namespace")).and_then(Value::as_str);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.ok_or_else(|| Status::bad_request("no namespace on request"))?;
        let permitted = shared.access.permitted(user, namespace);
        let of = |wanted: fn(&Rule) -> bool, show: fn(&Rule) -> Allowed| -> Vec<Allowed> {
            permitted.rules.iter().filter(|rule| wanted(rule)).map(show).collect()
        };
        let status = Rules {
            resource_rules: of(Rule::is_for_resources, allowed_resources),
            non_resource_rules: of(Rule::is_for_paths, allowed_paths),
            incomplete: permitted.restricted,
        };
        // The real server shows an empty spec, too.
        Ok(self.show(json!({}), Some(json!({})), status))
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
        refuse(causes)?;
        let status = decided(&shared.access.decide(user, &spec.asked()));
        Ok(self.show(json!({}), Some(spec), status))
    }

    fn access(&self, shared: &Shared, object: &Map<String, Value>) -> Result<String, Status> {
        let spec = spec(object, &self.kind)?;
        let mut causes = subject_causes(&spec);
        causes.extend(metadata_cause(object, ""));
        refuse(causes)?;
        let status = decided(&shared.access.decide(&spec.subject(), &spec.asked()));
        Ok(self.show(json!({}), Some(spec), status))
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
        if let Some(asked) = spec.resource_attributes.as_ref().filter(|asked| asked.namespace != namespace) {
            let field = "spec.resourceAttributes.namespace";
            causes.push(Cause::invalid(
                field,
                &format!("{:?}", asked.namespace),
                "must match metadata.namespace",
            ));
        }
        if let Some(path) = &spec.non_resource_attributes {
            let text = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", &path.shown(), text));
        }
        refuse(causes)?;
        let status = decided(&shared.access.decide(&spec.subject(), &spec.asked()));
        Ok(self.show(json!({"namespace": namespace}), Some(spec), status))
    }

    fn show(&self, metadata: Value, spec: Option<impl Serialize>, status: impl Serialize) -> String {
        let kind = &self.kind;
        let answer = Answer { kind: &kind.kind, api_version: kind.api_version(), metadata, spec, status };
        // Maps with texts as keys always serialise; the fallback keeps the function total.
        serde_json::to_string(&answer).unwrap_or_else(|_| "{}".into())
    }
}

impl Spec {
    fn asked(&self) -> Attributes {
        if let Some(path) = &self.non_resource_attributes {
            return Attributes::Path { verb: path.verb.clone(), path: path.path.clone() };
        }
        let asked = self.resource_attributes.as_ref().map(|asked| ResourceAttributes {
            verb: asked.verb.clone(),
            group: asked.group.clone(),
            resource: asked.resource.clone(),
            subresource: asked.subresource.clone(),
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
        });
        Attributes::Resource(asked.unwrap_or_default())
    }

    fn subject(&self) -> User {
        User { name: self.user.clone(), groups: self.groups.clone() }
    }
}

impl Path {
    /// As Go prints it.
    fn shown(&self) -> String {
        format!("{{\"Path\":{:?},\"Verb\":{:?}}}", self.path, self.verb)
    }
}

fn spec(object: &Map<String, Value>, kind: &Kind) -> Result<Spec, Status> {
    let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec).map_err(|error| {
        let (kind, version) = (&kind.kind, &kind.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: json: {error}"
        ))
    })
}

/// Null is the same as absent.
fn without_nulls(object: Map<String, Value>) -> Map<String, Value> {
    let kept = object.into_iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| match value {
        Value::Object(inner) => (key, Value::Object(without_nulls(inner))),
        other => (key, other),
    })
    .collect()
}

fn attribute_causes(spec: &Spec) -> Vec<Cause> {
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(path)) => {
            let text = "cannot be specified in combination with resourceAttributes";
            vec![Cause::invalid("spec.nonResourceAttributes", &path.shown(), text)]
        }
        (None, None) => {
            let text = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![Cause::invalid("spec.resourceAttributes", "null", text)]
        }
        _ => Vec::new(),
    }
}

fn subject_causes(spec: &Spec) -> Vec<Cause> {
    let mut causes = attribute_causes(spec);
    if spec.user.is_empty() && spec.groups.is_empty() {
        causes.push(Cause::invalid("spec.user", "\"\"", "at least one of user or group must be specified"));
    }
    causes
}

/// The metadata of a review is empty, but for the namespace that it is created in.
fn metadata_cause(object: &Map<String, Value>, namespace: &str) -> Option<Cause> {
    let metadata = object.get("metadata")?.as_object()?;
    let more = metadata
        .iter()
        .any(|(key, value)| key != "managedFields" && (key != "namespace" || value != namespace));
    let shown = Value::Object(metadata.clone()).to_string();
    let text = if namespace.is_empty() { "must be empty" } else { "must be empty except for namespace" };
    more.then(|| Cause::invalid("metadata", &shown, text))
}

fn refuse(causes: Vec<Cause>) -> Result<(), Status> {
    let what = Named { group: AUTHORIZATION, resource: "" };
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(what, "", causes)) }
}

fn decided(decision: &Decision) -> Value {
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

fn allowed_resources(rule: &Rule) -> Allowed {
    Allowed {
        verbs: or_all(&rule.verbs),
        api_groups: or_all(&rule.api_groups),
        resources: or_all(&rule.resources),
        resource_names: rule.names.clone(),
        paths: Vec::new(),
    }
}

fn allowed_paths(rule: &Rule) -> Allowed {
    Allowed {
        verbs: or_all(&rule.verbs),
        api_groups: Vec::new(),
        resources: Vec::new(),
        resource_names: Vec::new(),
        paths: or_all(&rule.paths),
    }
}
