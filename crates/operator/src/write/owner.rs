//! Owner references: an owned object is deleted with its owner, and its events lead to its owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::{Resource, core::ObjectMeta};
use kube_informer::{Escaped, ObjectKey};

/// Describes the reason why a child object cannot have this owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no name or no uid, because it was not read from the server.
    #[error("owner {0} has no name or no uid; use an object that was read from the server")]
    MissingIdentity(ObjectKey),
    /// Another owner is already the controller of the child. An object has at most one controller.
    ///
    /// If the current controller has the name of the new owner but another uid, it no longer exists. The
    /// garbage collector then deletes the child.
    #[error(
        "{child} is already controlled by {} {} (uid {}); delete {child} or use another name",
        Escaped(kind),
        Escaped(name),
        Escaped(uid)
    )]
    AlreadyOwned {
        /// The key of the child.
        child: ObjectKey,
        /// The kind of the current controller.
        kind: String,
        /// The name of the current controller.
        name: String,
        /// The uid of the current controller.
        uid: String,
    },
    /// The child exists, and does not have the owner as its controller. Another client may have created
    /// it.
    #[error("{child} exists and is not controlled by {owner}; delete {child} or use another name")]
    NotControlled {
        /// The key of the child.
        child: ObjectKey,
        /// The key of the owner.
        owner: ObjectKey,
    },
    /// The owner is in another namespace than the child. The garbage collector deletes a child whose
    /// owner does not exist in its namespace.
    #[error(
        "{child} cannot have the owner {owner}, which is in another namespace; create {child} in the namespace of its owner"
    )]
    CrossNamespace {
        /// The key of the child.
        child: ObjectKey,
        /// The key of the owner.
        owner: ObjectKey,
    },
    /// The child has no namespace, but the owner has a namespace. A cluster-scoped object cannot have a
    /// namespaced owner.
    #[error(
        "{child} has no namespace and cannot have the namespaced owner {owner}; if {child} is namespaced, set its namespace first"
    )]
    ClusterScoped {
        /// The key of the child.
        child: ObjectKey,
        /// The key of the owner.
        owner: ObjectKey,
    },
}

/// Makes `owner` the controller of `child`, as controller-runtime's `SetControllerReference` does.
/// The function changes `child` in memory, and sends no request.
///
/// The garbage collector deletes the child after its owner. With
/// [`Controller::owns`](crate::Controller::owns), a change of the child reconciles the owner.
///
/// The reference sets `blockOwnerDeletion`: a foreground deletion of the owner waits for the child.
/// If the admission plugin OwnerReferencesPermissionEnforcement is enabled, a write of this
/// reference requires permission to update the `finalizers` of the owner.
///
/// `resource` is `&()` for a compiled type, as in kube's [`owner_ref`](Resource::owner_ref). If the
/// child already has a reference with the uid of the owner, the function updates this reference.
///
/// ```
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// # use kube_operator::{OwnerError, set_controller_reference};
/// # fn example(deployment: &Deployment) -> Result<Pod, OwnerError> {
/// let mut pod = Pod::default();
/// pod.metadata.namespace = deployment.metadata.namespace.clone();
/// set_controller_reference(deployment, &(), &mut pod)?;
/// # Ok(pod) }
/// ```
///
/// # Errors
/// Returns an [`OwnerError`] if `child` cannot have this owner. The function then does not change
/// `child`.
pub fn set_controller_reference<O: Resource, C: Resource>(
    owner: &O,
    resource: &O::DynamicType,
    child: &mut C,
) -> Result<(), OwnerError> {
    let reference = owner.controller_owner_ref(resource);
    let reference = reference.map(|new| OwnerReference { block_owner_deletion: Some(true), ..new });
    set(owner.meta(), reference, child.meta_mut())
}

/// Adds `owner` to the owners of `child`, as controller-runtime's `SetOwnerReference` does. The
/// function changes `child` in memory, and sends no request.
///
/// The garbage collector deletes the child after its last owner. If the owner is already the
/// controller of the child, it remains the controller.
///
/// # Errors
/// Returns an [`OwnerError`] if `child` cannot have this owner. The function then does not change
/// `child`.
pub fn set_owner_reference<O: Resource, C: Resource>(
    owner: &O,
    resource: &O::DynamicType,
    child: &mut C,
) -> Result<(), OwnerError> {
    set(owner.meta(), owner.owner_ref(resource), child.meta_mut())
}

/// Returns whether the controller reference of `child` has the uid of `owner`, as `IsControlledBy` of
/// apimachinery does. Returns false if `owner` has no uid.
pub fn is_controlled_by<O: Resource, C: Resource>(child: &C, owner: &O) -> bool {
    let uid = owner.meta().uid.as_ref().filter(|uid| !uid.is_empty());
    controller(child.meta()).is_some_and(|controller| Some(&controller.uid) == uid)
}

/// Returns whether `child` has a controller reference to any owner, as controller-runtime's
/// `HasControllerReference` does.
pub fn has_controller_reference<C: Resource>(child: &C) -> bool {
    controller(child.meta()).is_some()
}

/// Removes the references to `owner` from `child`, also a controller reference. Returns false if `child`
/// had no such reference. The function changes `child` in memory, and sends no request.
///
/// The references are compared by the uid of `owner`. `RemoveOwnerReference` of controller-runtime
/// compares group, kind and name.
pub fn remove_owner_reference<O: Resource, C: Resource>(child: &mut C, owner: &O) -> bool {
    let references = &mut child.meta_mut().owner_references;
    let Some(list) = references else { return false };
    let before = list.len();
    list.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    let is_removed = list.len() < before;
    if list.is_empty() {
        *references = None;
    }
    is_removed
}

/// Returns an error if `owner` is not the controller of the existing child.
pub(crate) fn check_controller<O: Resource, C: Resource>(child: &C, owner: &O) -> Result<(), OwnerError> {
    if is_controlled_by(child, owner) {
        return Ok(());
    }
    Err(match controller(child.meta()) {
        Some(OwnerReference { kind, name, uid, .. }) => {
            OwnerError::AlreadyOwned { child: key(child.meta()), kind, name, uid }
        }
        None => OwnerError::NotControlled { child: key(child.meta()), owner: key(owner.meta()) },
    })
}

fn controller(child: &ObjectMeta) -> Option<OwnerReference> {
    let mut references = child.owner_references.iter().flatten();
    references.find(|reference| reference.controller == Some(true)).cloned()
}

fn set(
    owner: &ObjectMeta,
    reference: Option<OwnerReference>,
    child: &mut ObjectMeta,
) -> Result<(), OwnerError> {
    let is_complete = |reference: &OwnerReference| !reference.name.is_empty() && !reference.uid.is_empty();
    let reference = reference.filter(is_complete).ok_or_else(|| OwnerError::MissingIdentity(key(owner)))?;
    check_namespaces(owner, child)?;
    let references = child.owner_references.as_deref().unwrap_or_default();
    let current_controller =
        references.iter().find(|other| other.controller == Some(true) && other.uid != reference.uid);
    if let (Some(true), Some(other)) = (reference.controller, current_controller) {
        let OwnerReference { kind, name, uid, .. } = other.clone();
        return Err(OwnerError::AlreadyOwned { child: key(child), kind, name, uid });
    }
    let references = child.owner_references.get_or_insert_default();
    match references.iter_mut().find(|other| other.uid == reference.uid) {
        Some(before) => {
            let controller = reference.controller.or(before.controller);
            let block_owner_deletion = reference.block_owner_deletion.or(before.block_owner_deletion);
            *before = OwnerReference { controller, block_owner_deletion, ..reference };
        }
        None => references.push(reference),
    }
    Ok(())
}

fn check_namespaces(owner: &ObjectMeta, child: &ObjectMeta) -> Result<(), OwnerError> {
    let keys = || (key(owner), key(child));
    match (key(owner).namespace(), key(child).namespace()) {
        (None, _) => Ok(()),
        (Some(_), None) => {
            let (owner, child) = keys();
            Err(OwnerError::ClusterScoped { child, owner })
        }
        (Some(owner), Some(child)) if owner == child => Ok(()),
        (Some(_), Some(_)) => {
            let (owner, child) = keys();
            Err(OwnerError::CrossNamespace { child, owner })
        }
    }
}

/// Returns the key. If the server generates the name, the key contains the prefix.
fn key(object: &ObjectMeta) -> ObjectKey {
    let name = object.name.as_deref().or(object.generate_name.as_deref());
    ObjectKey::new(object.namespace.as_deref(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Node, Pod},
    };
    use kube_client::{api::DynamicObject, core::ApiResource};
    use serde_json::json;

    use super::*;

    fn owner(namespace: &str, uid: &str) -> Deployment {
        let metadata = json!({"name": "web", "namespace": namespace, "uid": uid});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn child() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web-0", "namespace": "shop"}})).unwrap()
    }

    fn references(child: &Pod) -> serde_json::Value {
        serde_json::to_value(&child.metadata.owner_references).unwrap()
    }

    #[test]
    fn controller_reference_is_set_once_and_refreshed() {
        let mut pod = child();
        let owner = owner("shop", "u1");
        set_controller_reference(&owner, &(), &mut pod).unwrap();
        let expected = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(references(&pod), expected);

        let list = pod.metadata.owner_references.as_mut().unwrap();
        (list[0].api_version, list[0].block_owner_deletion) = ("apps/v1beta1".to_owned(), None);
        set_controller_reference(&owner, &(), &mut pod).unwrap();
        assert_eq!(references(&pod), expected);
        set_owner_reference(&owner, &(), &mut pod).unwrap();
        assert_eq!(references(&pod), expected, "the owner stays the controller");
    }

    #[test]
    fn plain_owners_coexist_with_controller() {
        let mut pod = child();
        set_owner_reference(&owner("shop", "u1"), &(), &mut pod).unwrap();
        set_controller_reference(&owner("shop", "u2"), &(), &mut pod).unwrap();
        set_owner_reference(&owner("shop", "u3"), &(), &mut pod).unwrap();
        let controls: Vec<_> =
            pod.metadata.owner_references.unwrap().iter().map(|owner| owner.controller).collect();
        assert_eq!(controls, [None, Some(true), None]);
    }

    #[test]
    fn plain_owner_can_become_controller() {
        let mut pod = child();
        set_owner_reference(&owner("shop", "u1"), &(), &mut pod).unwrap();
        set_controller_reference(&owner("shop", "u1"), &(), &mut pod).unwrap();
        assert_eq!(references(&pod).as_array().unwrap().len(), 1);
        assert_eq!(references(&pod)[0]["controller"], true);
    }

    #[test]
    fn second_controller_is_an_error() {
        let mut pod = child();
        set_controller_reference(&owner("shop", "u1"), &(), &mut pod).unwrap();
        let before = pod.clone();
        let error = set_controller_reference(&owner("shop", "u2"), &(), &mut pod).unwrap_err();
        assert_eq!(
            error.to_string(),
            "shop/web-0 is already controlled by Deployment web (uid u1); delete shop/web-0 or use another name"
        );
        assert_eq!(pod, before);
    }

    #[test]
    fn only_the_controller_controls_and_references_are_removed_by_uid() {
        let mut pod = child();
        let [one, other] = ["u1", "u2"].map(|uid| owner("shop", uid));
        set_controller_reference(&one, &(), &mut pod).unwrap();
        set_owner_reference(&other, &(), &mut pod).unwrap();
        assert!(is_controlled_by(&pod, &one) && !is_controlled_by(&pod, &other));
        assert!(!is_controlled_by(&child(), &one));
        assert!(has_controller_reference(&pod) && !has_controller_reference(&child()));
        let error = check_controller(&pod, &other).unwrap_err().to_string();
        assert!(error.starts_with("shop/web-0 is already controlled by Deployment web (uid u1)"), "{error}");
        assert_eq!(
            check_controller(&child(), &one).unwrap_err().to_string(),
            "shop/web-0 exists and is not controlled by shop/web; delete shop/web-0 or use another name"
        );

        assert!(remove_owner_reference(&mut pod, &one) && !remove_owner_reference(&mut pod, &one));
        assert_eq!(references(&pod)[0]["uid"], "u2");
        assert!(remove_owner_reference(&mut pod, &other));
        assert_eq!(pod, child());
    }

    #[test]
    fn cross_namespace_owner_is_an_error() {
        let (mut pod, mut node) = (child(), Node::default());
        node.metadata.name = Some("n".to_owned());
        for set in [set_controller_reference::<Deployment, Pod>, set_owner_reference] {
            let error = set(&owner("ops", "u1"), &(), &mut pod).unwrap_err();
            assert_eq!(
                error.to_string(),
                "shop/web-0 cannot have the owner ops/web, which is in another namespace; create shop/web-0 in the namespace of its owner"
            );
        }
        let error = set_controller_reference(&owner("shop", "u1"), &(), &mut node).unwrap_err();
        assert!(matches!(error, OwnerError::ClusterScoped { .. }), "{error}");
        assert_eq!((pod, node.metadata.owner_references), (child(), None));
    }

    #[test]
    fn cluster_scoped_owner_can_own_any_object() {
        let metadata = json!({"name": "shop", "uid": "u"});
        let namespace: Namespace = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        set_controller_reference(&namespace, &(), &mut child()).unwrap();
        set_controller_reference(&namespace, &(), &mut Node::default()).unwrap();
    }

    #[test]
    fn owner_without_name_or_uid_is_an_error() {
        for (name, uid) in
            [(None, Some("u")), (Some("a"), None), (Some("a"), Some("")), (Some(""), Some("u"))]
        {
            let map: ConfigMap =
                serde_json::from_value(json!({"metadata": {"name": name, "uid": uid}})).unwrap();
            let error = set_controller_reference(&map, &(), &mut child()).unwrap_err();
            assert!(matches!(error, OwnerError::MissingIdentity(_)), "{error}");
        }
    }

    #[test]
    fn dynamic_owner_yields_the_same_reference() {
        let resource = ApiResource::erase::<Deployment>(&());
        let mut dynamic = DynamicObject::new("web", &resource).within("shop");
        dynamic.metadata.uid = Some("u1".to_owned());
        let (mut one, mut other) = (child(), child());
        set_controller_reference(&dynamic, &resource, &mut one).unwrap();
        set_controller_reference(&owner("shop", "u1"), &(), &mut other).unwrap();
        assert_eq!(one, other);
    }
}
