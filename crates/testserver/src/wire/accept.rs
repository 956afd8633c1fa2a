//! The header `Accept`: media types ordered by quality.

use http::{HeaderMap, header};

use crate::status::Status;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MediaType<'a> {
    essence: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The media types of the real server for one object.
pub(crate) const OBJECT_MEDIA_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types of the real server for a collection, including watches.
pub(crate) const COLLECTION_MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                                   application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl<'a> MediaType<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or("");
        let parameters = parts.filter_map(|part| part.split_once('='));
        Self { essence, parameters: parameters.map(|(key, value)| (key.trim(), value.trim())).collect() }
    }

    /// Returns whether the media type is `essence`, or a wildcard for an application type.
    pub(crate) fn covers(&self, essence: &str) -> bool {
        self.essence == essence || matches!(self.essence, "application/*" | "*/*")
    }

    pub(crate) fn is_json(&self) -> bool {
        self.covers("application/json")
    }

    pub(crate) fn is_yaml(&self) -> bool {
        self.essence == "application/yaml"
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Returns the kind of `meta.k8s.io` that the response must have: `Table`, or a metadata kind.
    pub(crate) fn meta_kind(&self) -> Option<&'a str> {
        let is_meta = self.parameter("g") == Some("meta.k8s.io")
            && matches!(self.parameter("v"), Some("v1" | "v1beta1"));
        self.parameter("as").filter(|_| is_meta)
    }

    fn wildcards(&self) -> usize {
        self.essence.matches('*').count()
    }

    fn quality(&self) -> u32 {
        let quality = self.parameter("q").and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0);
        // The clamp keeps the value in range. NaN becomes 0.
        (quality.clamp(0.0, 1.0) * 1000.0) as u32
    }
}

/// Returns the accepted media types, by descending quality and then in their order. Without `Accept`,
/// this is `*/*`.
pub(crate) fn accepted(headers: &HeaderMap) -> Vec<MediaType<'_>> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let clauses =
        values.flat_map(|value| value.split(',')).map(str::trim).filter(|clause| !clause.is_empty());
    let mut accepted: Vec<_> = clauses.map(MediaType::parse).collect();
    if accepted.is_empty() {
        accepted.push(MediaType::parse("*/*"));
    }
    // For an equal quality, types without wildcards are first.
    accepted.sort_by_key(|media| (std::cmp::Reverse(media.quality()), media.wildcards()));
    accepted
}

/// Returns whether YAML is the first supported media type.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    accepted(headers).iter().find(|media| media.is_json() || media.is_yaml()).is_some_and(MediaType::is_yaml)
}

/// Creates the rejection for a request that accepts no supported media type.
pub(crate) fn not_acceptable(available: &str) -> Status {
    Status::not_acceptable(format!("406: Not Acceptable\n\nAvailable representations: {available}"))
        .detailed()
}

/// Creates the rejection for a supported media type with an unsupported representation.
pub(crate) fn unsupported_representation() -> Status {
    Status::not_acceptable(format!("only the following media types are accepted: {OBJECT_MEDIA_TYPES}"))
}

/// Creates the rejection of a watch in a media type without streaming.
pub(crate) fn not_streamable() -> Status {
    Status::not_acceptable(
        "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media_types(values: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        accepted(&headers).iter().map(|media| media.essence.to_owned()).collect()
    }

    #[test]
    fn media_types_are_ordered_by_quality_then_position() {
        assert_eq!(media_types(&[]), ["*/*"]);
        assert_eq!(media_types(&["a/a, b/b;q=0.5", "c/c"]), ["a/a", "c/c", "b/b"]);
        assert_eq!(media_types(&["a/a;q=0, b/b;q=nan, c/c;q=7"]).first().map(String::as_str), Some("c/c"));
    }

    #[test]
    fn yaml_is_preferred_only_if_it_precedes_json() {
        let prefers = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            prefers_yaml(&headers)
        };
        assert!(prefers("application/yaml") && prefers("text/html, application/yaml, application/json"));
        assert!(!prefers("application/json, application/yaml") && !prefers("*/*") && !prefers("text/html"));
        assert!(prefers("application/json;q=0.1, application/yaml") && prefers("*/*, application/yaml"));
    }
}
