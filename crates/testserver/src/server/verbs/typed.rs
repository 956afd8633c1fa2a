//! The verbs that take the kind from a Rust type.

use kube_core::{CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::server::Server;
use crate::status::Status;
use crate::write::Target;

/// # Access by type
///
/// The type `K` is a type of `k8s-openapi`, a custom resource that is derived with `kube`, or
/// `PartialObjectMeta` of one of these types. The default namespace is `default`. These methods require
/// the feature `kube`, which is enabled by default.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use kube_testserver::Server;
/// use serde_json::json;
///
/// let server = Server::new();
/// server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))?;
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".into());
/// settings.metadata.namespace = Some("shop".into());
/// let created = server.create(&settings)?;
/// assert!(created.metadata.uid.is_some());
///
/// server.patch::<ConfigMap>(Some("shop"), "settings", &json!({"data": {"colour": "blue"}}))?;
/// let settings: ConfigMap = server.get(Some("shop"), "settings")?;
/// assert_eq!(settings.data.unwrap()["colour"], "blue");
/// assert_eq!(server.list::<ConfigMap>(Some("shop"))?.len(), 1);
/// assert!(server.get::<Namespace>(None, "ship").is_err());
/// server.delete::<ConfigMap>(Some("shop"), "settings")?;
/// # Ok::<(), kube_testserver::Status>(())
/// ```
impl Server {
    /// Returns an object.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the object does not exist, or if the server does not
    /// serve its kind. Also returns a status if the object does not match the type `K`.
    pub fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<K, Status>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned,
    {
        self.read_object(&self.typed_target::<K>(namespace, name)?)
    }

    /// Lists objects, ordered by namespace and name. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the server does not serve the kind. Also returns a
    /// status if an object does not match the type `K`.
    pub fn list<K>(&self, namespace: Option<&str>) -> Result<Vec<K>, Status>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned,
    {
        self.read_list(&self.typed_target::<K>(None, "")?, namespace)
    }

    /// Counts objects. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the server does not serve the kind.
    pub fn count<K: Resource<DynamicType: Default>>(&self, namespace: Option<&str>) -> Result<usize, Status> {
        Ok(self.count_objects(&self.typed_target::<K>(None, "")?, namespace))
    }

    /// Applies a merge patch to an object, like a PATCH. Returns the object as stored.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request. Also returns a status if the
    /// object does not match the type `K`.
    pub fn patch<K>(&self, namespace: Option<&str>, name: &str, patch: &Value) -> Result<K, Status>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned,
    {
        self.merge_patch(&self.typed_target::<K>(namespace, name)?, patch)
    }

    /// Deletes an object immediately (grace period 0), like a DELETE.
    ///
    /// An object with finalizers remains, with a `deletionTimestamp`, until its finalizers are removed.
    /// Returns the object if it remains, and `None` if it was removed.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request. Also returns a status if the
    /// object does not match the type `K`.
    pub fn delete<K>(&self, namespace: Option<&str>, name: &str) -> Result<Option<K>, Status>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned,
    {
        self.delete_object(&self.typed_target::<K>(namespace, name)?)
    }

    /// Creates or replaces the CRD of a custom resource. The server then serves the kind immediately.
    ///
    /// # Errors
    /// Returns a status if the server rejects the CRD.
    pub fn install<K: CustomResourceExt>(&self) -> Result<(), Status> {
        self.create_or_replace(&K::crd()).map(drop)
    }

    pub(crate) fn typed_target<K: Resource<DynamicType: Default>>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Target, Status> {
        let dynamic = K::DynamicType::default();
        self.target(&K::api_version(&dynamic), &K::kind(&dynamic), namespace, name)
    }
}
