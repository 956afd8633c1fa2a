//! The permissions that a program needs: declarations, and the roles that grant them.

use std::{collections::BTreeSet, io};

use http::{Request, Response};
use kube_client::{Client, Resource, client::Body};
use kube_informer::Scope;

use super::{
    Manager,
    permissions::{
        self, RbacPermission,
        diff::{self, PermissionCheckError, PermissionDiff},
        roles::RbacRoles,
    },
};

/// The permissions that a program has declared.
#[derive(Debug, Default)]
pub(super) struct DeclaredPermissions {
    pub(super) exact: BTreeSet<RbacPermission>,
    /// Rules without a namespace. They apply to the namespaces of the informers.
    pub(super) of_informers: BTreeSet<RbacPermission>,
}

/// Selects a kind of write, to declare its permissions with [`Manager::require_writes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteKind {
    /// Requests that create an object: `create`.
    Create,
    /// Requests that replace an object: `update`.
    Update,
    /// Requests that patch an object: `patch`.
    Patch,
    /// Requests that delete an object: `delete`.
    Delete,
    /// Applies with an [`Applier`](crate::Applier) or a [`CachedClient`](crate::CachedClient): `create` and
    /// `patch`.
    Apply,
    /// [`create_or_update`](crate::create_or_update): `create` and `update`.
    CreateOrUpdate,
    /// [`update_status`](crate::update_status): `update` of the subresource `status`.
    UpdateStatus,
    /// [`patch_status`](crate::patch_status) and [`Applier::apply_status`](crate::Applier::apply_status):
    /// `patch` of the subresource `status`.
    PatchStatus,
    /// A [`Finalizer`](crate::Finalizer) of these objects: `get` and `patch`.
    Finalizer,
}

impl WriteKind {
    /// Returns the verbs, and the suffix of the resource.
    fn verbs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Create => (&["create"], ""),
            Self::Update => (&["update"], ""),
            Self::Patch => (&["patch"], ""),
            Self::Delete => (&["delete"], ""),
            Self::Apply => (&["create", "patch"], ""),
            Self::CreateOrUpdate => (&["create", "update"], ""),
            Self::UpdateStatus => (&["update"], "/status"),
            Self::PatchStatus => (&["patch"], "/status"),
            Self::Finalizer => (&["get", "patch"], ""),
        }
    }
}

impl Manager {
    /// Declares RBAC permissions that this program needs. At the start, the manager logs a warning
    /// for each missing permission. [`rbac_roles`](Self::rbac_roles) contains the permissions.
    ///
    /// `resource` is a resource in the plural, such as `pods`, or a subresource, such as
    /// `pods/status`. `group` is empty for the core group. `namespace` is `None` for the entire
    /// cluster.
    ///
    /// The permissions of the manager need no declaration. They cover caches, the election, shards, event
    /// recorders, [`reconcile_unselected`](crate::Controller::reconcile_unselected), webhooks and pages.
    /// Declare the writes of your controllers with [`require_writes`](Self::require_writes), and the CRDs
    /// that your program installs with [`require_crd`](Self::require_crd). Declare all other requests with
    /// this method.
    pub fn require_permissions(
        &mut self,
        verbs: &[&str],
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) {
        let rules = permissions::rules_of_verbs(verbs, group, resource, namespace);
        self.permissions.exact.extend(rules);
    }

    /// Declares that this program writes objects of the type `K`. At the start, the manager logs a warning
    /// for each missing permission. [`rbac_roles`](Self::rbac_roles) contains the permissions.
    ///
    /// The permissions apply to the namespaces of the informers of this type. Without such an informer, they
    /// apply to the namespaces of all informers.
    ///
    /// ```
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// # use kube_operator::{Manager, ManagerOptions, WriteKind, offline_client};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    /// let mut manager = Manager::new(offline_client("shop"), options)?;
    /// let maps = manager.factory().informer::<ConfigMap>()?;
    /// manager.require_writes::<ConfigMap>(&[WriteKind::Apply]);
    /// assert!(manager.rbac_roles("web").to_string().contains("verbs: [create, list, patch, watch]"));
    /// # drop(maps);
    /// # Ok(()) }
    /// ```
    pub fn require_writes<K>(&mut self, writes: &[WriteKind])
    where
        K: Resource<DynamicType: Default, Scope: 'static>,
    {
        let dynamic = K::DynamicType::default();
        let (group, resource) = (K::group(&dynamic), K::plural(&dynamic));
        let is_namespaced = Scope::of::<K>() != Some(Scope::Cluster);
        for write in writes {
            let (verbs, suffix) = write.verbs();
            let resource = format!("{resource}{suffix}");
            let rules = permissions::rules_of_verbs(verbs, &group, &resource, None);
            let declared = &mut self.permissions;
            if is_namespaced { &mut declared.of_informers } else { &mut declared.exact }.extend(rules);
        }
    }

    /// Declares that this program calls [`ensure_crd`](crate::ensure_crd) for the CRD with this name, for
    /// example `websites.example.com`.
    pub fn require_crd(&mut self, name: &str) {
        let (verbs, group) = (&["create", "list", "patch", "watch"], "apiextensions.k8s.io");
        let rules = permissions::rules_of_verbs(verbs, group, "customresourcedefinitions", None);
        // An apply that creates an object contains the name, so a rule can limit it.
        let named = rules.map(|rule| RbacPermission { name: Some(name.to_owned()), ..rule });
        self.permissions.exact.extend(named);
    }

    /// Declares that this program writes Events.
    pub(super) fn require_events(&mut self) {
        let rules = permissions::rules_of_verbs(&["create", "patch"], "events.k8s.io", "events", None);
        self.permissions.of_informers.extend(rules);
    }

    /// Returns the roles that grant this program the permissions of the manager and the declared
    /// permissions. All roles have the name `name`. Print the roles with a command of your program, and bind
    /// them to its ServiceAccount:
    ///
    /// ```
    /// # use kube_operator::{Manager, ManagerOptions, offline_client};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    /// let manager = Manager::new(offline_client("shop"), options)?;
    /// // Add informers and controllers, as for `run`.
    /// print!("{}", manager.rbac_roles("web-operator").bind_to_service_account("shop", "web-operator"));
    /// # Ok(()) }
    /// ```
    ///
    /// Call this method after all informers and controllers were created. The roles do not cover informers of
    /// other factories, controllers that are added later, and undeclared requests. A test on
    /// `kube_testserver` finds undeclared requests and superfluous rules.
    pub fn rbac_roles(&self, name: &str) -> RbacRoles {
        RbacRoles::new(name, &self.all_rules())
    }

    /// Compares the permissions of [`rbac_roles`](Self::rbac_roles) with the permissions of the account of
    /// this program. Call this method in a command of your program, for example before an upgrade.
    ///
    /// Sends one SelfSubjectAccessReview for each permission, and one SelfSubjectRulesReview for each
    /// namespace in which the program needs permissions. The result does not contain superfluous permissions
    /// in other namespaces.
    ///
    /// # Errors
    /// Returns a [`PermissionCheckError`] if a review fails.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because reviews are not stored.
    pub async fn check_permissions(&self) -> Result<PermissionDiff, PermissionCheckError> {
        diff::compare(&self.client, &self.all_rules()).await
    }

    fn all_rules(&self) -> BTreeSet<RbacPermission> {
        let mut rules = self.required_rules();
        // An election without these permissions works, so the check at the start omits them.
        let election = self.options.election.iter();
        rules.extend(election.flat_map(|it| permissions::rules_of_lease_watch(&it.namespace, &it.name)));
        rules
    }

    /// Returns the rules that the manager checks at its start.
    pub(super) fn required_rules(&self) -> BTreeSet<RbacPermission> {
        let mut rules = permissions::rules_of_informers(&self.factory.status());
        let DeclaredPermissions { exact, of_informers } = &self.permissions;
        let declared: Vec<_> =
            of_informers.iter().flat_map(|rule| permissions::in_namespaces_of(&rules, rule)).collect();
        rules.extend(declared);
        rules.extend(exact.iter().cloned());
        if let Some(election) = &self.options.election {
            rules.extend(permissions::rules_of_election(&election.namespace, &election.name));
        }
        if let Some(shards) = &self.options.shards {
            rules.extend(permissions::rules_of_shards(&shards.namespace));
        }
        #[cfg(feature = "tls")]
        if self.options.secure_pages().is_some_and(|secure| secure.authorize) {
            rules.extend(permissions::rules_of_authorization());
        }
        rules
    }
}

/// Returns a client without a server, with this default namespace. Use it to create a [`Manager`] that does
/// not run, for example to print its [roles](Manager::rbac_roles). Each request fails.
///
/// # Panics
/// Panics outside of a Tokio runtime, like `Client::new`.
pub fn offline_client(namespace: &str) -> Client {
    let service = tower::service_fn(|_: Request<Body>| async {
        let error = "this client of `offline_client` has no server; connect a client to run the manager";
        Err::<Response<Body>, _>(io::Error::other(error))
    });
    Client::new(service, namespace)
}
