//! Encodes objects for a response: complete, only metadata or as tables, in the requested version, as
//! single objects, list items or watch frames.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::clock::RunningClock;
use crate::encoding::scale::Scale;
use crate::schemas::kinds::events;
use crate::schemas::kinds::kind::Kind;
use crate::schemas::tables::{IncludeObject, TableFormat};
use crate::status::Status;
use crate::storage::entry::{Change, Entry, frame_around, type_prefix};
use crate::wire::accept::{self, MediaType};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    Full,
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiated {
    Objects(Representation),
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Object,
    List,
}

/// Selects the representation by the first supported media type of `Accept`. YAML has the same
/// representations.
pub(crate) fn negotiate(headers: &HeaderMap, requested: Requested) -> Result<Negotiated, Status> {
    let accepted = accept::accepted(headers);
    let known = |media: &&MediaType<'_>| media.is_json() || media.is_yaml();
    for media in accepted.iter().filter(known) {
        let wanted = match media.meta_kind() {
            Some("PartialObjectMetadata") => Requested::Object,
            Some("PartialObjectMetadataList") => Requested::List,
            Some("Table") => return Ok(Negotiated::Table),
            None if media.parameter("as").is_none() => return Ok(Negotiated::Objects(Representation::Full)),
            // An unsupported representation.
            _ => continue,
        };
        return if wanted == requested {
            Ok(Negotiated::Objects(Representation::Metadata))
        } else {
            Err(accept::unsupported_representation())
        };
    }
    Err(if accepted.iter().any(|media| known(&media)) {
        accept::unsupported_representation()
    } else {
        accept::not_acceptable(if requested == Requested::List {
            accept::COLLECTION_MEDIA_TYPES
        } else {
            accept::OBJECT_MEDIA_TYPES
        })
    })
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectEncoder {
    kind: Arc<Kind>,
    representation: Representation,
    /// The kind and apiVersion that replace the kind and apiVersion of the stored object, if they
    /// differ.
    retyped: Option<Arc<[u8]>>,
    /// The table that contains the objects.
    table: Option<Arc<TableEncoder>>,
}

#[derive(Clone, Debug)]
struct TableEncoder {
    format: TableFormat,
    clock: RunningClock,
}

const INITIAL_END: &str = "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}";

const METADATA_PREFIX: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",";

impl ObjectEncoder {
    pub(crate) fn new(kind: Arc<Kind>, representation: Representation) -> Self {
        let retyped =
            (kind.version != kind.storage_version).then(|| type_prefix(&kind, &kind.api_version()).into());
        Self { kind, representation, retyped, table: None }
    }

    /// Creates an encoder for tables. `clock` is the clock for the ages in the rows.
    pub(crate) fn table(kind: Arc<Kind>, format: TableFormat, clock: &RunningClock) -> Self {
        let representation = match format.include {
            IncludeObject::Object => Representation::Full,
            IncludeObject::Metadata | IncludeObject::None => Representation::Metadata,
        };
        let table = Arc::new(TableEncoder { format, clock: clock.share() });
        Self { table: Some(table), ..Self::new(kind, representation) }
    }

    /// Omits the column definitions of the next tables. Other responses stay unchanged.
    pub(crate) fn omit_headers(&mut self) {
        if let Some(table) = &mut self.table {
            Arc::make_mut(table).format.omit_headers();
        }
    }

    /// Returns whether objects must be converted from their stored version.
    fn converts(&self) -> bool {
        self.representation == Representation::Full && events::is_converted(&self.kind)
    }

    /// Encodes an object, its metadata or a table with one row, with kind and apiVersion.
    pub(crate) fn object(&self, entry: &Entry) -> Bytes {
        match &self.table {
            Some(table) => {
                let meta = ListMeta { revision: entry.revision, ..ListMeta::default() };
                table.single(&meta, &self.row(table, entry))
            }
            None => self.content(entry),
        }
    }

    fn row(&self, table: &TableEncoder, entry: &Entry) -> Vec<u8> {
        let object = if self.kind.rules.custom {
            let full = Self { representation: Representation::Full, ..self.clone() };
            serde_json::from_slice(&full.content(entry)).unwrap_or_default()
        } else {
            Value::Object(entry.object())
        };
        let included = match table.format.include {
            IncludeObject::None => Bytes::from_static(b"null"),
            IncludeObject::Metadata | IncludeObject::Object => self.content(entry),
        };
        table.format.row(&object, &included, table.clock.now())
    }

    fn content(&self, entry: &Entry) -> Bytes {
        if self.converts() {
            let prefix = type_prefix(&self.kind, &self.kind.api_version());
            return [prefix, events::rest(&entry.object(), entry.metadata())].concat().into();
        }
        match (self.representation, &self.retyped) {
            (Representation::Full, None) => entry.json(),
            (Representation::Full, Some(prefix)) => {
                match crate::encoding::versions::converted(&self.kind, entry) {
                    Some(rest) => [prefix, rest.as_slice()].concat().into(),
                    None => [prefix, entry.rest()].concat().into(),
                }
            }
            (Representation::Metadata, _) => {
                [METADATA_PREFIX, b"\"metadata\":", entry.metadata(), b"}"].concat().into()
            }
        }
    }

    pub(crate) fn scale(&self, scale: &Scale) -> Bytes {
        let metadata = Value::Object(scale.metadata.clone()).to_string();
        let content = match self.representation {
            Representation::Full => scale.json().to_string().into_bytes(),
            Representation::Metadata => {
                [METADATA_PREFIX, b"\"metadata\":", metadata.as_bytes(), b"}"].concat()
            }
        };
        let Some(table) = &self.table else { return content.into() };
        let version = scale.metadata.get("resourceVersion").and_then(Value::as_str);
        let revision = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        let included = if table.format.include == IncludeObject::None { b"null" } else { content.as_slice() };
        let row = table.format.row(&scale.json(), included, table.clock.now());
        table.single(&ListMeta { revision, ..ListMeta::default() }, &row)
    }

    /// Encodes a list item. Items of built-in kinds have no kind and apiVersion.
    pub(crate) fn item(&self, entry: &Entry, out: &mut Vec<u8>) {
        if let Some(table) = &self.table {
            out.extend_from_slice(&self.row(table, entry));
        } else if self.converts() {
            out.push(b'{');
            out.extend_from_slice(&events::rest(&entry.object(), entry.metadata()));
        } else if self.representation == Representation::Full && !self.kind.rules.custom {
            out.push(b'{');
            out.extend_from_slice(entry.rest());
        } else {
            out.extend_from_slice(&self.object(entry));
        }
    }

    pub(crate) fn frame(&self, change: Change, entry: &Entry) -> Bytes {
        match (self.representation, &self.retyped) {
            (Representation::Full, None) if !self.converts() && self.table.is_none() => entry.frame(change),
            _ => frame_around(change, &self.object(entry)),
        }
    }

    /// Encodes a bookmark. `initial_end` adds the annotation for the end of the initial events.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let content = self.bookmark_content(revision, initial_end);
        let object = match &self.table {
            None => content,
            Some(table) => {
                let full = Self { representation: Representation::Full, ..self.clone() };
                let full = full.bookmark_content(revision, initial_end);
                let empty: Value = serde_json::from_slice(&full).unwrap_or_default();
                // Without the object, the client would miss the end of the initial events.
                let is_omitted = table.format.include == IncludeObject::None && !initial_end;
                let included = if is_omitted { b"null" } else { content.as_slice() };
                let row = table.format.row(&empty, included, table.clock.now());
                table.single(&ListMeta { revision, ..ListMeta::default() }, &row).to_vec()
            }
        };
        [b"{\"type\":\"BOOKMARK\",\"object\":", object.as_slice(), b"}\n"].concat().into()
    }

    fn bookmark_content(&self, revision: u64, initial_end: bool) -> Vec<u8> {
        let version = format!("\"resourceVersion\":\"{revision}\"");
        let (prefix, rest) = match self.representation {
            Representation::Metadata => (METADATA_PREFIX.to_vec(), ""),
            Representation::Full => {
                (type_prefix(&self.kind, &self.kind.api_version()), empty_content(&self.kind))
            }
        };
        // Go writes the metadata of custom resources in alphabetical order.
        let metadata = match (initial_end, self.is_custom()) {
            (false, _) => version,
            (true, false) => format!("{version},{INITIAL_END}"),
            (true, true) => format!("{INITIAL_END},{version}"),
        };
        [prefix, format!("\"metadata\":{{{metadata}}}{rest}}}").into_bytes()].concat()
    }

    /// Encodes the start of a list, up to the items. If a metadata list is empty, the real server sends
    /// null instead of an array.
    pub(crate) fn list_head(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if let Some(table) = &self.table {
            let rows = if table.format.is_null(empty) { "null" } else { "[" };
            return (table.format.head(&meta.json()) + rows).into_bytes();
        }
        if self.is_custom() {
            return format!("{{\"apiVersion\":\"{}\",\"items\":[", self.kind.api_version()).into_bytes();
        }
        let is_metadata = self.representation == Representation::Metadata;
        let (version, kind) = if is_metadata {
            ("meta.k8s.io/v1".into(), "PartialObjectMetadataList")
        } else {
            (self.kind.api_version(), self.kind.list_kind.as_str())
        };
        let (meta, items) = (meta.json(), if is_metadata && empty { "null" } else { "[" });
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{meta},\"items\":{items}")
            .into_bytes()
    }

    pub(crate) fn list_tail(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if self.is_custom() {
            let (kind, meta) = (&self.kind.list_kind, meta.custom_json());
            return format!("],\"kind\":\"{kind}\",\"metadata\":{meta}}}\n").into_bytes();
        }
        let is_null = match &self.table {
            Some(table) => table.format.is_null(empty),
            None => empty && self.representation == Representation::Metadata,
        };
        if is_null { b"}\n".to_vec() } else { b"]}\n".to_vec() }
    }

    /// Returns whether the response contains complete custom resources, whose lists have another order.
    fn is_custom(&self) -> bool {
        self.table.is_none() && self.representation == Representation::Full && self.kind.rules.custom
    }

    /// Returns whether the metadata of a list contains the shard. On the real server, only a list of complete
    /// objects of a built-in kind contains it.
    pub(crate) fn shows_shard(&self) -> bool {
        self.table.is_none() && self.representation == Representation::Full && !self.kind.rules.custom
    }
}

impl TableEncoder {
    fn single(&self, meta: &ListMeta, row: &[u8]) -> Bytes {
        let head = self.format.head(&meta.json());
        [head.as_bytes(), b"[", row, b"]}"].concat().into()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
    /// The requested shard, in the canonical representation of the selector.
    pub shard: Option<String>,
}

/// Returns the required fields of an empty object of a built-in kind. Bookmarks contain these fields.
fn empty_content(kind: &Kind) -> &'static str {
    match kind.kind.as_str() {
        _ if kind.rules.custom || !kind.rules.status => "",
        "Pod" => ",\"spec\":{\"containers\":null},\"status\":{}",
        "Deployment" => {
            ",\"spec\":{\"replicas\":0,\"selector\":null,\"template\":{\"metadata\":{},\"spec\":{\"containers\":null}},\
             \"strategy\":{}},\"status\":{}"
        }
        _ => ",\"spec\":{},\"status\":{}",
    }
}

impl ListMeta {
    fn custom_json(&self) -> String {
        let token = self.continue_token.as_deref().unwrap_or_default();
        let remaining = self.remaining.map(|n| format!(",\"remainingItemCount\":{n}")).unwrap_or_default();
        format!("{{\"continue\":\"{token}\"{remaining},\"resourceVersion\":\"{}\"}}", self.revision)
    }

    fn json(&self) -> String {
        // The table of a dry run that creates an object has no version.
        if self.revision == 0 {
            return "{}".into();
        }
        let token =
            self.continue_token.as_ref().map(|t| format!(",\"continue\":\"{t}\"")).unwrap_or_default();
        let remaining = self.remaining.map(|n| format!(",\"remainingItemCount\":{n}")).unwrap_or_default();
        let shard = self.shard.as_ref().map(|s| format!(",\"shardInfo\":{{\"selector\":\"{s}\"}}"));
        let (revision, shard) = (self.revision, shard.unwrap_or_default());
        format!("{{\"resourceVersion\":\"{revision}\"{token}{remaining}{shard}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    fn accepts(accept: &str, requested: Requested) -> Result<Negotiated, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers, requested).map_err(|status| status.code())
    }

    #[test]
    fn first_supported_representation_is_selected() {
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accepts("*/*", Requested::List), Ok(Negotiated::Objects(Representation::Full)));
        assert_eq!(accepts(metadata, Requested::List), Ok(Negotiated::Objects(Representation::Metadata)));
        assert_eq!(accepts(metadata, Requested::Object), Err(406));
        assert_eq!(
            accepts("application/vnd.kubernetes.protobuf,application/json", Requested::Object),
            Ok(Negotiated::Objects(Representation::Full))
        );
        assert_eq!(
            accepts("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", Requested::List),
            Ok(Negotiated::Table)
        );
        assert_eq!(accepts("text/html", Requested::List), Err(406));
    }
}
