//! The check that a write of a role or binding grants only rights of its author.

use serde_json::Value;

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::control::Access;
use crate::access::rbac::{self, GROUP};
use crate::access::rule::Rule;
use crate::access::users::{MASTERS, User};
use crate::status::{Named, Status};

use crate::wire::object::{Object, meta, metadata_mut};
use crate::write::options::ObjectCheck;

/// Returns the check for a request that writes roles or bindings. Other requests need none.
pub(crate) fn check(access: &Access, user: &User, request: &Attributes) -> Option<ObjectCheck> {
    let Attributes::Resource(request) = request else { return None };
    if request.group != GROUP || !access.uses_rbac() || user.is_in(MASTERS) {
        return None;
    }
    let (access, user, request) = (access.clone(), user.clone(), request.clone());
    Some(ObjectCheck::new(move |object, before| {
        if before.is_some_and(|before| without_links(before) == without_links(object)) {
            return Ok(());
        }
        let grant = match request.resource.as_str() {
            "roles" | "clusterroles" => role_grant(&request, object, before),
            _ => binding_grant(&access, &request, object),
        };
        grant.check(&access, &user, &request, object)
    }))
}

/// Returns the object without the fields that a garbage collector may change.
fn without_links(object: &Object) -> Object {
    let mut object = object.clone();
    let metadata = metadata_mut(&mut object);
    metadata.retain(|key, _| !["finalizers", "managedFields", "ownerReferences"].contains(&key.as_str()));
    object
}

struct Grant {
    /// The right to grant all rights.
    sufficient: Attributes,
    /// The granted rules, or the error for a missing role.
    rules: Result<Vec<Rule>, Status>,
}

fn role_grant(request: &ResourceAttributes, object: &Object, before: Option<&Object>) -> Grant {
    let escalate = ResourceAttributes { verb: "escalate".into(), ..request.clone() };
    let mut rules = rbac::rules(object);
    // An aggregated role can collect any rights.
    let aggregates = |role: &Object| rbac::aggregates(role).is_some_and(|selectors| !selectors.is_empty());
    if aggregates(object) || before.is_some_and(aggregates) {
        rules.push(Rule::allow().verbs(&["*"]).api_groups(&["*"]).resources(&["*"]));
        rules.push(Rule::allow().verbs(&["*"]).paths(&["*"]));
    }
    Grant { sufficient: Attributes::Resource(escalate), rules: Ok(rules) }
}

fn binding_grant(access: &Access, request: &ResourceAttributes, object: &Object) -> Grant {
    let reference = object.get("roleRef").unwrap_or(&Value::Null);
    let text = |field: &str| reference[field].as_str().unwrap_or("");
    let resource = if text("kind") == "Role" { "roles" } else { "clusterroles" };
    let bind = Attributes::Resource(ResourceAttributes {
        verb: "bind".into(),
        resource: resource.into(),
        name: text("name").into(),
        ..request.clone()
    });
    let rules = access.referenced_rules(reference, &request.namespace);
    let not_found = || Status::not_found(Named { group: GROUP, resource }, text("name"));
    Grant { sufficient: bind, rules: rules.ok_or_else(not_found) }
}

impl Grant {
    /// Rejects a grant of rights that the user does not hold in the namespace of the request.
    fn check(
        self,
        access: &Access,
        user: &User,
        request: &ResourceAttributes,
        object: &Object,
    ) -> Result<(), Status> {
        if access.uses(user, &self.sufficient) {
            return Ok(());
        }
        let held = access.permitted(user, &request.namespace).rules;
        let rules = self.rules?;
        let granted = rules.iter().flat_map(Rule::rights).map(|mut granted| {
            if let Attributes::Resource(right) = &mut granted.right {
                right.namespace.clone_from(&request.namespace);
            }
            granted.right
        });
        let missing = granted.filter(|right| !held.iter().any(|rule| rule.matches(right)));
        let lines: Vec<String> = missing.map(|right| format!("\n{right}")).collect();
        if lines.is_empty() {
            return Ok(());
        }
        // Records the missing right. The error below contains more details.
        let _ = access.authorize(user, &self.sufficient);
        let detail = format!(
            "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:{}",
            user.name,
            user.groups,
            lines.concat()
        );
        let what = Named { group: GROUP, resource: &request.resource };
        Err(Status::forbidden(what, meta(object, "name"), &detail))
    }
}
