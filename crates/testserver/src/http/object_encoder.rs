//! Encodes objects for a response: complete or only metadata, in the requested version, as single
//! objects, list items or watch frames.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use crate::http::accept::{self, MediaType};
use crate::kinds::events;
use crate::kinds::kind::Kind;
use crate::status::Status;
use crate::storage::entry::{Change, Entry, frame_around, type_prefix};
use crate::write::scale::Scale;

/// The representation of the objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    Full,
    Metadata,
}

/// The requested kind of response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Object,
    List,
}

/// Selects the representation by the first supported media type of `Accept`. YAML has the same
/// representations.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    requested: Requested,
    kind: &Kind,
) -> Result<Representation, Status> {
    let accepted = accept::accepted(headers);
    let known = |media: &&MediaType<'_>| media.is_json() || media.is_yaml();
    for media in accepted.iter().filter(known) {
        let meta = media.parameter("g") == Some("meta.k8s.io")
            && matches!(media.parameter("v"), Some("v1" | "v1beta1"));
        let wanted = match media.parameter("as") {
            None => return Ok(Representation::Full),
            Some("PartialObjectMetadata") if meta => Requested::Object,
            Some("PartialObjectMetadataList") if meta => Requested::List,
            // An unsupported representation, such as a table.
            Some(_) => continue,
        };
        return if wanted == requested {
            Ok(Representation::Metadata)
        } else {
            Err(wrong_response_kind(requested, kind))
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

fn wrong_response_kind(requested: Requested, kind: &Kind) -> Status {
    Status::not_acceptable(match requested {
        Requested::List => format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*core.{}List)",
            kind.kind
        ),
        Requested::Object => format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{})",
            kind.kind
        ),
    })
}

/// Encodes the objects of one response.
#[derive(Clone, Debug)]
pub(crate) struct ObjectEncoder {
    kind: Arc<Kind>,
    representation: Representation,
    /// The kind and apiVersion that replace the kind and apiVersion of the stored object, if they
    /// differ.
    retyped: Option<Arc<[u8]>>,
}

const METADATA_PREFIX: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",";

impl ObjectEncoder {
    pub(crate) fn new(kind: Arc<Kind>, representation: Representation) -> Self {
        let retyped =
            (kind.version != kind.storage_version).then(|| type_prefix(&kind, &kind.api_version()).into());
        Self { kind, representation, retyped }
    }

    /// Returns whether objects must be converted from their stored version.
    fn converts(&self) -> bool {
        self.representation == Representation::Full && events::is_converted(&self.kind)
    }

    /// Encodes an object or its metadata, with kind and apiVersion.
    pub(crate) fn object(&self, entry: &Entry) -> Bytes {
        if self.converts() {
            let prefix = type_prefix(&self.kind, &self.kind.api_version());
            return [prefix, events::rest(&entry.object(), entry.metadata())].concat().into();
        }
        match (self.representation, &self.retyped) {
            (Representation::Full, None) => entry.json(),
            (Representation::Full, Some(prefix)) => match crate::crd::admit::converted(&self.kind, entry) {
                Some(rest) => [prefix, rest.as_slice()].concat().into(),
                None => [prefix, entry.rest()].concat().into(),
            },
            (Representation::Metadata, _) => {
                [METADATA_PREFIX, b"\"metadata\":", entry.metadata(), b"}"].concat().into()
            }
        }
    }

    /// Encodes a scale or its metadata.
    pub(crate) fn scale(&self, scale: &Scale) -> Bytes {
        match self.representation {
            Representation::Full => scale.json().to_string().into(),
            Representation::Metadata => {
                let metadata = serde_json::Value::Object(scale.metadata.clone()).to_string();
                [METADATA_PREFIX, b"\"metadata\":", metadata.as_bytes(), b"}"].concat().into()
            }
        }
    }

    /// Encodes a list item. Items of built-in kinds have no kind and apiVersion.
    pub(crate) fn item(&self, entry: &Entry, out: &mut Vec<u8>) {
        if self.converts() {
            out.push(b'{');
            out.extend_from_slice(&events::rest(&entry.object(), entry.metadata()));
        } else if self.representation == Representation::Full && !self.kind.rules.custom {
            out.push(b'{');
            out.extend_from_slice(entry.rest());
        } else {
            out.extend_from_slice(&self.object(entry));
        }
    }

    /// Encodes a watch frame.
    pub(crate) fn frame(&self, change: Change, entry: &Entry) -> Bytes {
        match (self.representation, &self.retyped) {
            (Representation::Full, None) if !self.converts() => entry.frame(change),
            _ => frame_around(change, &self.object(entry)),
        }
    }

    /// Encodes a bookmark. `initial_end` adds the annotation for the end of the initial events.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let annotation = "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}";
        let metadata =
            match (initial_end, self.kind.rules.custom && self.representation == Representation::Full) {
                (false, _) => format!("{{\"resourceVersion\":\"{revision}\"}}"),
                (true, false) => format!("{{\"resourceVersion\":\"{revision}\",{annotation}}}"),
                (true, true) => format!("{{{annotation},\"resourceVersion\":\"{revision}\"}}"),
            };
        let prefix = match self.representation {
            Representation::Metadata => METADATA_PREFIX.to_vec(),
            Representation::Full => type_prefix(&self.kind, &self.kind.api_version()),
        };
        let empty = if self.representation == Representation::Full { empty_content(&self.kind) } else { "" };
        let parts = [
            b"{\"type\":\"BOOKMARK\",\"object\":".as_slice(),
            &prefix,
            b"\"metadata\":",
            metadata.as_bytes(),
            empty.as_bytes(),
            b"}}\n",
        ];
        parts.concat().into()
    }

    /// Encodes the start of a list, up to the items. If a metadata list is empty, the real server sends
    /// null instead of an array.
    pub(crate) fn list_head(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if self.representation == Representation::Metadata {
            let names = "\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\"";
            let items = if empty { "null" } else { "[" };
            return format!("{{{names},\"metadata\":{},\"items\":{items}", meta.json(ListKind::Metadata))
                .into_bytes();
        }
        let version = self.kind.api_version();
        if self.kind.rules.custom {
            return format!("{{\"apiVersion\":\"{version}\",\"items\":[").into_bytes();
        }
        let (kind, meta) = (&self.kind.list_kind, meta.json(ListKind::BuiltIn));
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{meta},\"items\":[")
            .into_bytes()
    }

    /// Encodes the end of a list, after the items.
    pub(crate) fn list_tail(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if self.representation == Representation::Metadata && empty {
            return b"}\n".to_vec();
        }
        if self.representation == Representation::Metadata || !self.kind.rules.custom {
            return b"]}\n".to_vec();
        }
        format!("],\"kind\":\"{}\",\"metadata\":{}}}\n", self.kind.list_kind, meta.json(ListKind::Custom))
            .into_bytes()
    }
}

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
    /// The requested shard, in the canonical representation of the selector.
    pub shard: Option<String>,
}

/// The kind of a list. Only the metadata of a built-in list contains the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    BuiltIn,
    Metadata,
    Custom,
}

impl ListMeta {
    fn json(&self, list_kind: ListKind) -> String {
        let token = self.continue_token.as_deref();
        let remaining = self.remaining.map(|n| format!(",\"remainingItemCount\":{n}")).unwrap_or_default();
        let revision = self.revision;
        if list_kind == ListKind::Custom {
            let token = token.unwrap_or("");
            return format!("{{\"continue\":\"{token}\"{remaining},\"resourceVersion\":\"{revision}\"}}");
        }
        let token = token.map(|t| format!(",\"continue\":\"{t}\"")).unwrap_or_default();
        let shard = self.shard.as_ref().filter(|_| list_kind == ListKind::BuiltIn);
        let shard = shard.map(|s| format!(",\"shardInfo\":{{\"selector\":\"{s}\"}}")).unwrap_or_default();
        format!("{{\"resourceVersion\":\"{revision}\"{token}{remaining}{shard}}}")
    }
}

/// Returns the required fields of an empty object of a built-in kind. Bookmarks contain these fields.
fn empty_content(kind: &Kind) -> &'static str {
    if kind.rules.custom {
        return "";
    }
    match kind.kind.as_str() {
        "Pod" => ",\"spec\":{\"containers\":null},\"status\":{}",
        "Deployment" => {
            ",\"spec\":{\"replicas\":0,\"selector\":null,\"template\":{\"metadata\":{},\"spec\":{\"containers\":null}},\
             \"strategy\":{}},\"status\":{}"
        }
        _ if kind.rules.status => ",\"spec\":{},\"status\":{}",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    fn accepts(accept: &str, requested: Requested) -> Result<Representation, u16> {
        let kind = crate::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers, requested, &kind).map_err(|status| status.code())
    }

    #[test]
    fn first_supported_representation_is_selected() {
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accepts("*/*", Requested::List), Ok(Representation::Full));
        assert_eq!(accepts(metadata, Requested::List), Ok(Representation::Metadata));
        assert_eq!(accepts(metadata, Requested::Object), Err(406));
        assert_eq!(
            accepts("application/vnd.kubernetes.protobuf,application/json", Requested::Object),
            Ok(Representation::Full)
        );
        assert_eq!(
            accepts("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", Requested::List),
            Ok(Representation::Full)
        );
        assert_eq!(accepts("text/html", Requested::List), Err(406));
    }
}
