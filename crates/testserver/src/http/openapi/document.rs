//! The content of documents.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hmac_sha256::Hash;
use serde_json::{Map, Value, json};

use super::custom;
use super::models::{Models, Version};
use super::paths::{self, Schemas};
use crate::http::discovery::catalog::is_stored;
use crate::http::service::upper_hex;
use crate::schemas::kinds::builtin;
use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;

#[derive(Debug)]
pub(super) struct Part {
    /// `api/v1` or `apis/GROUP/VERSION`.
    pub path: String,
    pub kinds: Vec<Arc<Kind>>,
}

pub(super) fn parts(shared: &Shared) -> Vec<Part> {
    static REVIEWS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| builtin::reviews().map(Arc::new).collect());
    let stored: Vec<Arc<Kind>> =
        shared.read(|state| state.registry.served().map(|served| served.kind.clone()).collect());
    let mut parts: BTreeMap<String, Vec<Arc<Kind>>> = BTreeMap::new();
    for kind in stored.iter().chain(REVIEWS.iter()) {
        let root = if kind.group.is_empty() { "api" } else { "apis" };
        parts.entry(format!("{root}/{}", kind.api_version())).or_default().push(kind.clone());
    }
    parts.into_iter().map(|(path, kinds)| Part { path, kinds }).collect()
}

/// Returns the hash of all data that determines the documents of these kinds.
pub(super) fn hash(parts: &[Part]) -> String {
    let mut context = Hash::new();
    context.update(env!("CARGO_PKG_VERSION"));
    for kind in parts.iter().flat_map(|part| &part.kinds) {
        let Kind { plural, list_kind, rules, scale, schemas, .. } = &**kind;
        let root = schemas.as_ref().map(|schemas| schemas.own.root());
        let names = json!([kind.api_version(), kind.kind, plural, list_kind]);
        let facts = json!([names, rules.namespaced, rules.status, scale.is_some(), root]);
        context.update(facts.to_string());
    }
    upper_hex(&context.finalize())
}

pub(super) fn version_2(parts: &[Part]) -> Value {
    let kinds = parts.iter().flat_map(|part| &part.kinds);
    let (paths, definitions) = content(Version::V2, kinds);
    json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions})
}

pub(super) fn version_3(part: &Part) -> Value {
    let (paths, schemas) = content(Version::V3, part.kinds.iter());
    json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

fn content<'a>(
    version: Version,
    kinds: impl Iterator<Item = &'a Arc<Kind>>,
) -> (Map<String, Value>, Map<String, Value>) {
    let (mut paths, mut models) = (Map::new(), Models::new(version));
    for kind in kinds {
        let object = if kind.rules.custom {
            custom::reference(&mut models, kind)
        } else {
            models.built_in(&kind.api_version(), &kind.kind)
        };
        let list = if is_stored(kind) { models.list(kind, &object) } else { Value::Null };
        paths::add(&mut paths, &mut models, kind, &Schemas { object, list });
    }
    (paths, models.into_schemas())
}
