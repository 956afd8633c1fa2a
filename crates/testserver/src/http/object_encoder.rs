//! How objects are shown: whole or only their metadata, in which version, and as items, objects or frames.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use crate::http::accept::{self, MediaType};
use crate::kinds::events;
use crate::kinds::kind::Kind;
use crate::status::Status;
use crate::storage::entry::{Change, Entry, frame_around, type_prefix};
use crate::write::scale::Scale;

/// What the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    Full,
    Metadata,
}

/// Whether one object or a list of them is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Object,
    List,
}

/// Chooses the form by the first acceptable clause of `Accept`. What is wanted in YAML has the same forms.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    shape: Requested,
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
            // A form that is not known here, such as a table.
            Some(_) => continue,
        };
        return if wanted == shape { Ok(Representation::Metadata) } else { Err(wrong_shape(shape, kind)) };
    }
    Err(if accepted.iter().any(|media| known(&media)) {
        accept::no_such_form()
    } else {
        accept::not_acceptable(if shape == Requested::List { accept::STREAMED } else { accept::WHOLE })
    })
}

fn wrong_shape(shape: Requested, kind: &Kind) -> Status {
    Status::not_acceptable(match shape {
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

/// How the objects of one answer are shown.
#[derive(Clone, Debug)]
pub(crate) struct ObjectEncoder {
    kind: Arc<Kind>,
    form: Representation,
    /// Kind and apiVersion to show instead of the stored ones.
    retyped: Option<Arc<[u8]>>,
}

const METADATA_PREFIX: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",";

impl ObjectEncoder {
    pub(crate) fn new(kind: Arc<Kind>, form: Representation) -> Self {
        let retyped =
            (kind.version != kind.storage_version).then(|| type_prefix(&kind, &kind.api_version()).into());
        Self { kind, form, retyped }
    }

    /// Whether objects are shown in another form than the one they are stored in.
    fn converts(&self) -> bool {
        self.form == Representation::Full && events::is_converted(&self.kind)
    }

    /// The whole object or its metadata, with kind and apiVersion.
    pub(crate) fn object(&self, entry: &Entry) -> Bytes {
        if self.converts() {
            let prefix = type_prefix(&self.kind, &self.kind.api_version());
            return [prefix, events::rest(&entry.object(), entry.metadata())].concat().into();
        }
        match (self.form, &self.retyped) {
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

    /// A scale or its metadata.
    pub(crate) fn scale(&self, scale: &Scale) -> Bytes {
        match self.form {
            Representation::Full => scale.json().to_string().into(),
            Representation::Metadata => {
                let metadata = serde_json::Value::Object(scale.metadata.clone()).to_string();
                [METADATA_PREFIX, b"\"metadata\":", metadata.as_bytes(), b"}"].concat().into()
            }
        }
    }

    /// An item of a list: built-in kinds without kind and apiVersion.
    pub(crate) fn item(&self, entry: &Entry, out: &mut Vec<u8>) {
        if self.converts() {
            out.push(b'{');
            out.extend_from_slice(&events::rest(&entry.object(), entry.metadata()));
        } else if self.form == Representation::Full && !self.kind.rules.custom {
            out.push(b'{');
            out.extend_from_slice(entry.rest());
        } else {
            out.extend_from_slice(&self.object(entry));
        }
    }

    /// The watch frame of `change`.
    pub(crate) fn frame(&self, change: Change, entry: &Entry) -> Bytes {
        match (self.form, &self.retyped) {
            (Representation::Full, None) if !self.converts() => entry.frame(change),
            _ => frame_around(change, &self.object(entry)),
        }
    }

    /// A bookmark; `initial_end` marks the one that ends the initial events.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let annotation = "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}";
        let metadata = match (initial_end, self.kind.rules.custom && self.form == Representation::Full) {
            (false, _) => format!("{{\"resourceVersion\":\"{revision}\"}}"),
            (true, false) => format!("{{\"resourceVersion\":\"{revision}\",{annotation}}}"),
            (true, true) => format!("{{{annotation},\"resourceVersion\":\"{revision}\"}}"),
        };
        let prefix = match self.form {
            Representation::Metadata => METADATA_PREFIX.to_vec(),
            Representation::Full => type_prefix(&self.kind, &self.kind.api_version()),
        };
        let empty = if self.form == Representation::Full { empty_content(&self.kind) } else { "" };
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

    /// What stands before the items of a list; the real server says null where metadata of nothing is asked for.
    pub(crate) fn list_head(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if self.form == Representation::Metadata {
            let names = "\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\"";
            let items = if empty { "null" } else { "[" };
            return format!("{{{names},\"metadata\":{},\"items\":{items}", meta.json(Shown::Metadata))
                .into_bytes();
        }
        let version = self.kind.api_version();
        if self.kind.rules.custom {
            return format!("{{\"apiVersion\":\"{version}\",\"items\":[").into_bytes();
        }
        let (kind, meta) = (&self.kind.list_kind, meta.json(Shown::Typed));
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{meta},\"items\":[")
            .into_bytes()
    }

    /// What stands after the items of a list.
    pub(crate) fn list_tail(&self, meta: &ListMeta, empty: bool) -> Vec<u8> {
        if self.form == Representation::Metadata && empty {
            return b"}\n".to_vec();
        }
        if self.form == Representation::Metadata || !self.kind.rules.custom {
            return b"]}\n".to_vec();
        }
        format!("],\"kind\":\"{}\",\"metadata\":{}}}\n", self.kind.list_kind, meta.json(Shown::Custom))
            .into_bytes()
    }
}

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
    /// The shard that was asked for, in its one form.
    pub shard: Option<String>,
}

/// The list whose metadata is shown; only that of a built-in kind says its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Typed,
    Metadata,
    Custom,
}

impl ListMeta {
    fn json(&self, shown: Shown) -> String {
        let token = self.continue_token.as_deref();
        let remaining = self.remaining.map(|n| format!(",\"remainingItemCount\":{n}")).unwrap_or_default();
        let revision = self.revision;
        if shown == Shown::Custom {
            let token = token.unwrap_or("");
            return format!("{{\"continue\":\"{token}\"{remaining},\"resourceVersion\":\"{revision}\"}}");
        }
        let token = token.map(|t| format!(",\"continue\":\"{t}\"")).unwrap_or_default();
        let shard = self.shard.as_ref().filter(|_| shown == Shown::Typed);
        let shard = shard.map(|s| format!(",\"shardInfo\":{{\"selector\":\"{s}\"}}")).unwrap_or_default();
        format!("{{\"resourceVersion\":\"{revision}\"{token}{remaining}{shard}}}")
    }
}

/// The required fields of a typed object without content, as bookmarks carry them.
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

    fn accepts(accept: &str, shape: Requested) -> Result<Representation, u16> {
        let kind = crate::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers, shape, &kind).map_err(|status| status.code())
    }

    #[test]
    fn the_first_acceptable_form_is_chosen() {
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
