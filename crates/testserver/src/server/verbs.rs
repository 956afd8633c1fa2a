//! The verbs of `Server`. Calls execute the same code as requests, but without sockets, faults, rules and
//! the journal.

use bytes::Bytes;
use serde_json::Value;

use crate::encoding::object_encoder::{ObjectEncoder, Representation};
use crate::read::list::prefix;
use crate::server::Server;
use crate::state::Served;
use crate::status::{Named, Status};
use crate::wire::object::meta;
use crate::write::decode;
use crate::write::delete_options::DeleteOptions;
use crate::write::patch::PatchRequest;
use crate::write::{self, Mode, Part, Target, Via, WriteOptions};

impl Server {
    /// Creates an object, like a POST to its collection. `object` must contain `apiVersion` and `kind`.
    /// The default namespace is `default`.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let (target, object) = self.place(object)?;
        let written = write::create(&self.shared, &target, object, &WriteOptions::default())?;
        Ok(parsed(&written.bytes(&encoder(&target))))
    }

    /// Replaces an object, like a PUT. If `object` contains a resourceVersion, the stored object must
    /// have the same resourceVersion. Otherwise, the update fails with 409 (Conflict).
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn update(&self, object: Value) -> Result<Value, Status> {
        self.put(object, Part::Main)
    }

    /// Replaces the status of an object, like a PUT to `/status`.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn update_status(&self, object: Value) -> Result<Value, Status> {
        self.put(object, Part::Status)
    }

    /// Creates or replaces an object. If `object` contains a status, then also replaces the status. This
    /// is not a server-side apply.
    ///
    /// # Errors
    /// If a write fails, returns the status with which the server would reject the request.
    pub fn apply(&self, object: Value) -> Result<Value, Status> {
        let status = object.get("status").cloned();
        let mut stored = match self.create(object.clone()) {
            Err(status) if status.reason() == "AlreadyExists" => self.update(object)?,
            created => created?,
        };
        if let (Some(status), Some(map)) = (status, stored.as_object_mut()) {
            map.insert("status".into(), status);
            stored = match self.update_status(stored.clone()) {
                Err(status) if status.code() == 404 => stored,
                updated => updated?,
            };
        }
        Ok(stored)
    }

    /// Applies a merge patch to an object, like a PATCH. The default namespace is `default`.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn patch(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let target = self.target(api_version, kind, namespace, name)?;
        let body = Bytes::from(patch.to_string());
        let mode = Mode { via: Via::Patch, part: Part::Main, options: WriteOptions::default() };
        let sent = PatchRequest { media_type: "application/merge-patch+json", body: &body, force: false };
        let written = write::patch::patch(&self.shared, &target, mode, sent)?;
        Ok(parsed(&written.bytes(&encoder(&target))))
    }

    /// Returns an object. The default namespace is `default`.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the object or its kind does not exist.
    pub fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Status> {
        let target = self.target(api_version, kind, namespace, name)?;
        let entry =
            self.shared.read(|state| state.store.table(target.served.table).get(&target.key()).cloned());
        let entry = entry.ok_or_else(|| target.not_found())?;
        Ok(parsed(&encoder(&target).object(&entry)))
    }

    /// Deletes an object immediately (grace period 0), like a DELETE. An object with finalizers remains,
    /// with a `deletionTimestamp`, until its finalizers are removed. The default namespace is `default`.
    ///
    /// # Errors
    /// Returns the status with which the server would reject the request.
    pub fn delete(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Status> {
        let target = self.target(api_version, kind, namespace, name)?;
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        let deleted = crate::write::delete::delete(&self.shared, &target, &options)?;
        Ok(parsed(&deleted.bytes(target.kind(), &encoder(&target))))
    }

    fn put(&self, object: Value, part: Part) -> Result<Value, Status> {
        let (target, object) = self.place(object)?;
        let mode = Mode { via: Via::Put, part, options: WriteOptions::default() };
        let written = write::replace(&self.shared, &target, &object, &mode)?;
        Ok(parsed(&written.bytes(&encoder(&target))))
    }

    /// Finds the target of a write from the object's own fields.
    fn place(&self, object: Value) -> Result<(Target, write::Object), Status> {
        let Value::Object(mut object) = object else {
            return Err(Status::bad_request("an object must be a JSON map"));
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
        let namespace = Some(meta(&object, "namespace")).filter(|namespace| !namespace.is_empty());
        let target = self.target(text("apiVersion"), text("kind"), namespace, meta(&object, "name"))?;
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
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let served = self.shared.read(|state| {
            let resources = state.registry.resources(group, version)?;
            resources.values().find(|served| served.kind.kind == kind).cloned()
        });
        let served: Served =
            served.ok_or_else(|| Status::not_found(Named { group, resource: kind }, name))?;
        let namespace = served.kind.rules.namespaced.then(|| namespace.unwrap_or("default").to_owned());
        Ok(Target { served, namespace, name: name.into() })
    }

    /// Lists the objects of a kind, ordered by namespace and name. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the kind does not exist.
    pub fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, Status> {
        let target = self.target(api_version, kind, None, "")?;
        let (prefix, encoder, table) = (prefix(namespace), encoder(&target), target.served.table);
        let entries: Vec<_> = self
            .shared
            .read(|state| state.store.table(table).under(&prefix).map(|(_, e)| e.clone()).collect());
        Ok(entries.iter().map(|entry| parsed(&encoder.object(entry))).collect())
    }

    /// Counts the objects of a kind. `None` selects all namespaces.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the kind does not exist.
    pub fn count(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<usize, Status> {
        let target = self.target(api_version, kind, None, "")?;
        let prefix = prefix(namespace);
        Ok(self.shared.read(|state| state.store.table(target.served.table).under(&prefix).count()))
    }
}

/// Returns the view that contains all fields.
fn encoder(target: &Target) -> ObjectEncoder {
    ObjectEncoder::new(target.served.kind.clone(), Representation::Full)
}

fn parsed(json: &[u8]) -> Value {
    // The server's own bytes always parse; null avoids a panic.
    serde_json::from_slice(json).unwrap_or_default()
}
