//! What a client accepts: the media types of `Accept`, the most wanted first.

use http::{HeaderMap, header};

use crate::status::Status;

/// One media type of `Accept`, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MediaType<'a> {
    essence: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

/// What the real server offers of one object.
pub(crate) const WHOLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What it offers where there may be a watch.
pub(crate) const STREAMED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                                   application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl<'a> MediaType<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or("");
        let parameters = parts.filter_map(|part| part.split_once('='));
        Self { essence, parameters: parameters.map(|(key, value)| (key.trim(), value.trim())).collect() }
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.essence, "application/json" | "application/*" | "*/*")
    }

    pub(crate) fn is_yaml(&self) -> bool {
        self.essence == "application/yaml"
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn wildcards(&self) -> usize {
        self.essence.matches('*').count()
    }

    /// How much it is wanted, in thousandths.
    fn weight(&self) -> u32 {
        let quality = self.parameter("q").and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0);
        // In range after the clamp; what is no number counts as nothing.
        (quality.clamp(0.0, 1.0) * 1000.0) as u32
    }
}

/// What the client accepts, the most wanted first and else in its order. Nothing said is anything.
pub(crate) fn accepted(headers: &HeaderMap) -> Vec<MediaType<'_>> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let clauses =
        values.flat_map(|value| value.split(',')).map(str::trim).filter(|clause| !clause.is_empty());
    let mut accepted: Vec<_> = clauses.map(MediaType::parse).collect();
    if accepted.is_empty() {
        accepted.push(MediaType::parse("*/*"));
    }
    // Of two that are wanted as much, the one without a wildcard comes first.
    accepted.sort_by_key(|media| (std::cmp::Reverse(media.weight()), media.wildcards()));
    accepted
}

/// Whether YAML is the first that both sides know.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    accepted(headers).iter().find(|media| media.is_json() || media.is_yaml()).is_some_and(MediaType::is_yaml)
}

/// The refusal where no media type is known that is accepted.
pub(crate) fn not_acceptable(available: &str) -> Status {
    Status::not_acceptable(format!("406: Not Acceptable\n\nAvailable representations: {available}"))
        .detailed()
}

/// The refusal where the media type is known, but not in the form that is asked for.
pub(crate) fn no_such_form() -> Status {
    Status::not_acceptable(format!("only the following media types are accepted: {WHOLE}"))
}

/// The refusal of a watch in a media type that can't be streamed.
pub(crate) fn no_stream() -> Status {
    Status::not_acceptable(
        "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        accepted(&headers).iter().map(|media| media.essence.to_owned()).collect()
    }

    #[test]
    fn the_most_wanted_comes_first_and_else_the_order_counts() {
        assert_eq!(of(&[]), ["*/*"]);
        assert_eq!(of(&["a/a, b/b;q=0.5", "c/c"]), ["a/a", "c/c", "b/b"]);
        assert_eq!(of(&["a/a;q=0, b/b;q=nan, c/c;q=7"]).first().map(String::as_str), Some("c/c"));
    }

    #[test]
    fn yaml_is_preferred_only_before_json() {
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
