//! `Database`: a custom resource, as a program with a custom resource declares it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube_client::Resource;
use serde::{Deserialize, Serialize};

/// An object of the kind [`Kind::Database`](crate::wire::Kind::Database). crates/bench/go declares the same
/// type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Database {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    engine: String,
    version: String,
    replicas: i32,
    storage: Storage,
    parameters: BTreeMap<String, String>,
    users: Vec<User>,
    backup: Option<Backup>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Storage {
    size: String,
    class_name: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct User {
    name: String,
    secret_name: String,
    privileges: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Backup {
    schedule: String,
    bucket: String,
    keep: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    ready_replicas: i32,
    conditions: Vec<Condition>,
    members: Vec<Member>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Member {
    name: String,
    address: String,
    role: String,
    lag_bytes: i64,
}

impl Resource for Database {
    type DynamicType = ();
    type Scope = kube_client::core::NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Database".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "databases".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
