//! Stores objects as another server has sent them.

use serde_json::{Map, Value};

use crate::server::Server;
use crate::status::Status;
use crate::storage::entry::Parsed;
use crate::write::Target;

/// # Recorded objects
impl Server {
    /// Stores an object as another server has sent it: without defaults, checks and webhooks, and with its uid,
    /// timestamps and field managers. Replaces an object with the same name.
    ///
    /// The stored object has the resourceVersion of `object` if this version is higher than all versions of this
    /// server. Otherwise, it has the next version. Returns the version.
    ///
    /// # Errors
    /// Returns a status if the object has no name, or if the server does not serve its kind.
    pub fn store_recorded(&self, object: &Value) -> Result<u64, Status> {
        let (target, object) = self.recorded(object)?;
        let version = recorded_version(&object);
        let Parsed { object, managers } = Parsed::new(object);
        let draft = crate::write::custom::admit::draft(target.kind(), &object, &managers);
        let entry = self.shared.write(|state| {
            state.store.advance_to(version.saturating_sub(1));
            let before = state.store.table(target.served.table).get(&target.key()).cloned();
            let entry = state.store.put(target.served.table, draft);
            crate::write::custom::serve::stored(state, &target.served, before.as_ref(), &entry, &self.shared);
            entry
        });
        Ok(entry.revision)
    }

    /// Removes an object as another server has removed it: without finalizers and a grace period. `object` is the
    /// last state, with the resourceVersion of the deletion. The version follows the rule of
    /// [`store_recorded`](Self::store_recorded). Returns false if the object does not exist.
    ///
    /// # Errors
    /// Returns a status if the object has no name, or if the server does not serve its kind.
    pub fn remove_recorded(&self, object: &Value) -> Result<bool, Status> {
        let (target, object) = self.recorded(object)?;
        let version = recorded_version(&object);
        Ok(self.shared.write(|state| {
            if state.store.table(target.served.table).get(&target.key()).is_none() {
                return false;
            }
            state.store.advance_to(version.saturating_sub(1));
            state.store.remove(target.served.table, &target.key()).is_some()
        }))
    }

    fn recorded(&self, object: &Value) -> Result<(Target, Map<String, Value>), Status> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind, metadata) =
            (text(&object["apiVersion"]), text(&object["kind"]), &object["metadata"]);
        let name = text(&metadata["name"]);
        let map = object.as_object().filter(|_| !name.is_empty());
        let map = map.ok_or_else(|| Status::bad_request("a recorded object needs a name"))?;
        Ok((self.target(&api_version, &kind, metadata["namespace"].as_str(), &name)?, map.clone()))
    }
}

fn recorded_version(object: &Map<String, Value>) -> u64 {
    let version = object.get("metadata").and_then(|metadata| metadata["resourceVersion"].as_str());
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(version: &str) -> Value {
        let managers = json!([{
            "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}},
        }]);
        json!({
            "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
            "metadata": {
                "name": "a", "namespace": "gone", "uid": "u-1", "resourceVersion": version, "managedFields": managers,
            },
        })
    }

    #[test]
    fn recorded_object_is_stored_unchanged() {
        let server = Server::new();
        assert_eq!(server.store_recorded(&pod("7000")).unwrap(), 7000);
        assert_eq!(server.get_untyped("v1", "Pod", Some("gone"), "a").unwrap(), pod("7000"));
        assert_eq!(server.store_recorded(&pod("12")).unwrap(), 7001, "an older version cannot be used again");
        assert!(server.remove_recorded(&pod("7010")).unwrap());
        assert_eq!(server.resource_version(), 7010);
        assert!(!server.remove_recorded(&pod("7011")).unwrap());
    }

    #[test]
    fn incomplete_object_is_rejected() {
        let server = Server::new();
        for object in [json!(1), json!({}), json!({"kind": "Pod", "metadata": {"name": "a"}})] {
            assert!(server.store_recorded(&object).is_err(), "{object}");
        }
    }
}
