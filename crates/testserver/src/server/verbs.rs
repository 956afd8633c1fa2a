//! The verbs of `Server`. Calls execute the same code as requests, but without sockets, faults, rules and
//! the journal.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::encoding::object_encoder::{ObjectEncoder, Representation};
use crate::journal::Verb;
use crate::read::conversion;
use crate::read::list::prefix;
use crate::server::Server;
use crate::state::State;
use crate::status::Status;
use crate::wire::object::{meta, metadata_mut};
use crate::wire::query::Query;
use crate::write::decode;
use crate::write::delete::Deleted;
use crate::write::delete_options::DeleteOptions;
use crate::write::patch::PatchRequest;
use crate::write::{self, Mode, Object, Part, Target, Via, WriteOptions, Written};

#[cfg(feature = "kube")]
mod typed;

/// # Writes
///
/// An object is a type of `k8s-openapi`, a custom resource that is derived with `kube`, or a
/// [`serde_json::Value`] that contains `apiVersion` and `kind`. The default namespace is `default`. Each
/// method returns the object as stored.
///
/// If the server would reject the request, the methods return the [`Status`] of its response. They also
/// return a status if the stored object does not match the type `K`.
impl Server {
    /// Creates an object, like a POST to its collection.
    ///
    /// Like kube-apiserver, this ignores the status of an object. [`Server::create_or_replace`] also
    /// writes the status.
    ///
    /// # Errors
    /// Returns a status, for example with the reason AlreadyExists, if the server rejects the object.
    pub fn create<K: Serialize + DeserializeOwned>(&self, object: &K) -> Result<K, Status> {
        let (target, object) = self.place(to_object(object)?)?;
        self.stored(
            &target,
            &write::now(write::create(&self.shared, &target, object, &WriteOptions::default()))?,
        )
    }

    /// Replaces an object, like a PUT.
    ///
    /// If `object` contains a resourceVersion, the stored object must have the same resourceVersion. Like
    /// with kube-apiserver, custom resources must contain a resourceVersion.
    /// [`Server::create_or_replace`] does not need it.
    ///
    /// # Errors
    /// Returns a status, for example with the reason Conflict, if the server rejects the object.
    pub fn update<K: Serialize + DeserializeOwned>(&self, object: &K) -> Result<K, Status> {
        self.put(object, Part::Main)
    }

    /// Replaces the status of an object, like a PUT to `/status`. The rules about the resourceVersion are
    /// those of [`Server::update`].
    ///
    /// # Errors
    /// Returns a status, for example with the reason Conflict, if the server rejects the object.
    pub fn update_status<K: Serialize + DeserializeOwned>(&self, object: &K) -> Result<K, Status> {
        self.put(object, Part::Status)
    }

    /// Creates an object, or replaces the stored object with this name. If `object` contains a status,
    /// also replaces the status. Ignores the resourceVersion of `object`.
    ///
    /// Use this method to set up a state. It has no field manager, so it causes no conflicts.
    ///
    /// # Errors
    /// Returns a status if the server rejects a write. If only the write of the status fails, the other
    /// fields were written.
    pub fn create_or_replace<K: Serialize + DeserializeOwned>(&self, object: &K) -> Result<K, Status> {
        let mut object = to_object(object)?;
        metadata_mut(&mut object).remove("resourceVersion");
        let status = object.get("status").cloned();
        let (mut target, object) = self.place(object)?;
        let mode = |part| Mode { via: Via::Put, part, options: WriteOptions::default() };
        let mut written =
            match write::now(write::create(&self.shared, &target, object.clone(), &mode(Part::Main).options))
            {
                Err(status) if status.reason() == "AlreadyExists" => {
                    write::now(write::update(&self.shared, &target, &mode(Part::Main), |_, live| {
                        let mut object = object.clone();
                        metadata_mut(&mut object)
                            .insert("resourceVersion".into(), meta(live, "resourceVersion").into());
                        Ok(object)
                    }))
                }
                created => created,
            }?;
        if let (Some(status), true) = (status, target.kind().rules.status) {
            target.name = written.entry().essentials.name.to_string();
            written = write::now(write::update(&self.shared, &target, &mode(Part::Status), |_, live| {
                let mut object = live.clone();
                object.insert("status".into(), status.clone());
                Ok(object)
            }))?;
        }
        self.stored(&target, &written)
    }

    /// Applies an object with server-side apply, as this field manager. Creates the object if it does not
    /// exist.
    ///
    /// # Errors
    /// Returns a status with the reason Conflict if another manager owns a field and has set another
    /// value. Also returns a status if the server rejects the object or the name of the manager.
    pub fn apply<K: Serialize + DeserializeOwned>(&self, object: &K, manager: &str) -> Result<K, Status> {
        self.apply_as(object, manager, false)
    }

    /// Applies an object like [`Server::apply`], but takes conflicting fields from their managers.
    ///
    /// # Errors
    /// Returns a status if the server rejects the object or the name of the manager.
    pub fn force_apply<K: Serialize + DeserializeOwned>(
        &self,
        object: &K,
        manager: &str,
    ) -> Result<K, Status> {
        self.apply_as(object, manager, true)
    }

    fn apply_as<K>(&self, object: &K, manager: &str, force: bool) -> Result<K, Status>
    where
        K: Serialize + DeserializeOwned,
    {
        let object = to_object(object)?;
        let target = self.target_of(&object)?;
        let apply = crate::write::apply::options::APPLY;
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("fieldManager", manager).finish();
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(apply))]);
        crate::write::apply::options::check(Verb::Patch, &Query::parse(&query), &headers)?;
        let options = WriteOptions { manager: manager.into(), ..WriteOptions::default() };
        self.send_patch(&target, apply, options, &Value::Object(object), force)
    }

    fn put<K: Serialize + DeserializeOwned>(&self, object: &K, part: Part) -> Result<K, Status> {
        let (target, object) = self.place(to_object(object)?)?;
        let mode = Mode { via: Via::Put, part, options: WriteOptions::default() };
        self.stored(&target, &write::now(write::replace(&self.shared, &target, &object, &mode))?)
    }

    fn send_patch<K: DeserializeOwned>(
        &self,
        target: &Target,
        media_type: &str,
        options: WriteOptions,
        patch: &Value,
        force: bool,
    ) -> Result<K, Status> {
        let body = Bytes::from(patch.to_string());
        let mode = Mode { via: Via::Patch, part: Part::Main, options };
        let sent = PatchRequest { media_type, body: &body, force, caller: None };
        self.stored(target, &write::now(write::patch::patch(&self.shared, target, mode, sent))?)
    }

    fn target_of(&self, object: &Object) -> Result<Target, Status> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
        let namespace = Some(meta(object, "namespace")).filter(|namespace| !namespace.is_empty());
        self.target(text("apiVersion"), text("kind"), namespace, meta(object, "name"))
    }

    /// Assigns a Pod to a node, like a scheduler. [`kubelet`](Self::kubelet) assigns all Pods.
    ///
    /// # Errors
    /// Returns 404 if the Pod does not exist, and 409 if it has a node or is being deleted.
    pub fn bind_pod(&self, namespace: &str, name: &str, node: &str) -> Result<(), Status> {
        let target = self.target("v1", "Pod", Some(namespace), name)?;
        write::now(write::binding::assign(&self.shared, &target, node, WriteOptions::default()))
    }

    fn place(&self, mut object: Object) -> Result<(Target, Object), Status> {
        let target = self.target_of(&object)?;
        decode::read_metadata(&mut object, target.kind())?;
        Ok((target, object))
    }

    pub(crate) fn target(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Target, Status> {
        self.shared.read(|state| find_target(state, api_version, kind, namespace, name)).ok_or_else(|| {
            let text = format!(
                "the server does not serve the kind {kind:?} of {api_version:?}; create its CRD first"
            );
            Status::new(404, "NotFound", text)
        })
    }
}

/// Returns the target, or `None` if the kind is not served.
pub(crate) fn find_target(
    state: &State,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Target> {
    let served = state.registry.find_kind(api_version, kind)?.clone();
    let namespace = served.kind.rules.namespaced.then(|| namespace.unwrap_or("default").to_owned());
    Some(Target { served, namespace, name: name.into() })
}

/// # Access by the name of a kind
///
/// These methods need no Rust type for the kind. The default namespace is `default`.
impl Server {
    /// Returns an object of a kind, which is named by `api_version` and `kind`.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the object or its kind does not exist.
    pub fn get_untyped(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Status> {
        self.read_object(&self.target(api_version, kind, namespace, name)?)
    }

    /// Lists the objects of a kind, ordered by namespace and name. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the kind does not exist.
    pub fn list_untyped(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Value>, Status> {
        self.read_list(&self.target(api_version, kind, None, "")?, namespace)
    }

    /// Counts the objects of a kind. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the kind does not exist.
    pub fn count_untyped(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<usize, Status> {
        Ok(self.count_objects(&self.target(api_version, kind, None, "")?, namespace))
    }

    /// Applies a merge patch to an object, like a PATCH. Returns the object as stored.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn patch_untyped(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        self.merge_patch(&self.target(api_version, kind, namespace, name)?, patch)
    }

    /// Deletes an object immediately (grace period 0), like a DELETE.
    ///
    /// An object with finalizers remains, with a `deletionTimestamp`, until its finalizers are removed.
    /// Returns the object if it remains, and `None` if it was removed.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn delete_untyped(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Status> {
        self.delete_object(&self.target(api_version, kind, namespace, name)?)
    }

    fn read_object<K: DeserializeOwned>(&self, target: &Target) -> Result<K, Status> {
        let entry =
            self.shared.read(|state| state.store.table(target.served.table).get(&target.key()).cloned());
        let entry = entry.ok_or_else(|| target.not_found())?;
        write::now(conversion::prepare(&self.shared, target.kind(), [&entry]))?;
        decoded(&target.name, &encoder(target).object(&entry))
    }

    fn read_list<K: DeserializeOwned>(
        &self,
        target: &Target,
        namespace: Option<&str>,
    ) -> Result<Vec<K>, Status> {
        let (prefix, encoder, table) = (prefix(namespace), encoder(target), target.served.table);
        let entries: Vec<_> = self
            .shared
            .read(|state| state.store.table(table).under(&prefix).map(|(_, e)| e.clone()).collect());
        write::now(conversion::prepare(&self.shared, target.kind(), &entries))?;
        entries.iter().map(|entry| decoded(&target.name, &encoder.object(entry))).collect()
    }

    fn count_objects(&self, target: &Target, namespace: Option<&str>) -> usize {
        let prefix = prefix(namespace);
        self.shared.read(|state| state.store.table(target.served.table).under(&prefix).count())
    }

    fn merge_patch<K: DeserializeOwned>(&self, target: &Target, patch: &Value) -> Result<K, Status> {
        self.send_patch(target, "application/merge-patch+json", WriteOptions::default(), patch, false)
    }

    fn stored<K: DeserializeOwned>(&self, target: &Target, written: &Written) -> Result<K, Status> {
        write::now(conversion::prepare(&self.shared, target.kind(), [written.entry()]))?;
        decoded(&target.name, &written.bytes(&encoder(target)))
    }

    fn delete_object<K: DeserializeOwned>(&self, target: &Target) -> Result<Option<K>, Status> {
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        match write::now(write::delete::delete(&self.shared, target, &options, None))? {
            Deleted::Kept(entry) => self.stored(target, &Written::Updated(entry)).map(Some),
            Deleted::Object(_) | Deleted::Gone { .. } => Ok(None),
        }
    }
}

/// Returns the view that contains all fields.
pub(crate) fn encoder(target: &Target) -> ObjectEncoder {
    ObjectEncoder::new(target.served.kind.clone(), Representation::Full)
}

fn to_object<K: Serialize>(object: &K) -> Result<Map<String, Value>, Status> {
    match serde_json::to_value(object) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Status::bad_request("an object must be a JSON map")),
        Err(error) => Err(Status::bad_request(format!("the object cannot be serialized as JSON: {error}"))),
    }
}

/// Decodes a stored object. A [`Value`] can represent each object.
pub(crate) fn decoded<K: DeserializeOwned>(name: &str, json: &[u8]) -> Result<K, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::internal(format!(
            "the stored object {name:?} does not match the requested Rust type: {error}"
        ))
    })
}
