//! Decides whether an informer selects an object, without a request to the server.

use kube_listwatch::Coverage;
use kube_object::Object;
use kube_store::LabelSelector;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Returns whether a source selects an object. Returns `None` if only the server can decide. This
/// is the case for selected fields that are not text, and for custom query parameters.
pub(crate) fn covers<T: WriteResponse>(coverage: &Coverage, object: &T) -> Option<bool> {
    let options = &coverage.options;
    let verdicts = [
        Some(
            coverage
                .namespace
                .as_deref()
                .is_none_or(|namespace| object.id().key.namespace() == Some(namespace)),
        ),
        options.label_selector.as_deref().map_or(Some(true), |selector| labels(selector, object)),
        options.field_selector.as_deref().map_or(Some(true), |selector| fields(selector, object)),
        options.parameters.is_empty().then_some(true),
    ];
    all(verdicts)
}

/// The type of the response to a write.
pub(crate) trait WriteResponse: Object + Serialize + DeserializeOwned {}

impl<T: Object + Serialize + DeserializeOwned> WriteResponse for T {}

fn labels(selector: &str, object: &impl Object) -> Option<bool> {
    let selector: LabelSelector = selector.parse().ok()?;
    Some(selector.matches(object))
}

fn fields<T: WriteResponse>(selector: &str, object: &T) -> Option<bool> {
    // After a backslash, a comma or an equals sign is a part of the value.
    if selector.contains('\\') {
        return None;
    }
    all(selector.split(',').filter(|part| !part.is_empty()).map(|part| field(part, object)))
}

/// Evaluates one requirement, for example `metadata.name=a`, `metadata.name==a` or
/// `metadata.name!=a`.
fn field<T: WriteResponse>(part: &str, object: &T) -> Option<bool> {
    let (field, wanted) = part.split_once('=')?;
    let (field, equal) = match field.strip_suffix('!') {
        Some(field) => (field, false),
        None => (field, true),
    };
    let wanted = wanted.strip_prefix('=').unwrap_or(wanted);
    match field {
        "metadata.name" => Some((object.id().key.name() == wanted) == equal),
        "metadata.namespace" => Some((object.id().key.namespace().unwrap_or_default() == wanted) == equal),
        _ => (equal && has_another_text(field, object, wanted)?).then_some(false),
    }
}

/// Returns whether the value at this path is a text other than `wanted`.
///
/// Returns `None` if the type cannot represent `wanted` at this path. Types omit fields, and map
/// unknown values to one variant. In these cases, the object on the server may still contain
/// `wanted`.
fn has_another_text<T: WriteResponse>(path: &str, object: &T, wanted: &str) -> Option<bool> {
    // In a field selector of Pods, `spec.host` is an alias of `spec.nodeName`. Fields with numbers
    // and booleans can also have an alias. For Jobs, `status.successful` is an alias of
    // `status.succeeded`.
    if path == "spec.host" || wanted.parse::<f64>().is_ok() || wanted.parse::<bool>().is_ok() {
        return None;
    }
    let mut object = serde_json::to_value(object).ok()?;
    let current = match text_at(path, &mut object)? {
        Value::String(text) => std::mem::replace(text, wanted.to_owned()),
        empty @ Value::Null => {
            *empty = Value::from(wanted);
            String::new()
        }
        _ => return None,
    };
    let mut decoded = serde_json::to_value(serde_json::from_value::<T>(object).ok()?).ok()?;
    (*text_at(path, &mut decoded)? == wanted).then(|| current != wanted)
}

/// Returns the value at this path. If the parent object does not have the field, returns null.
/// Returns `None` if the parent does not exist, for example in types that contain only metadata.
fn text_at<'a>(path: &str, object: &'a mut Value) -> Option<&'a mut Value> {
    let (parents, name) = path.rsplit_once('.')?;
    let parent = parents.split('.').try_fold(object, |value, part| value.get_mut(part))?;
    Some(parent.as_object_mut()?.entry(name).or_insert(Value::Null))
}

/// Combines verdicts. If one verdict is `Some(false)`, the result is `Some(false)`. Otherwise, if
/// one verdict is `None`, the result is `None`.
fn all(verdicts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let verdicts: Vec<Option<bool>> = verdicts.into_iter().collect();
    if verdicts.contains(&Some(false)) {
        return Some(false);
    }
    verdicts.iter().all(Option::is_some).then_some(true)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        batch::v1::{Job, JobStatus},
        core::v1::{ConfigMap, Pod, PodSpec, Secret},
    };
    use kube_client::core::{ApiResource, DynamicObject, NotUsed, PartialObjectMeta};
    use kube_listwatch::ListOptions;
    use serde::Deserialize;

    use super::*;

    fn map() -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.namespace = Some("shop".into());
        map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        map
    }

    fn verdict(namespace: Option<&str>, labels: &str, fields: &str) -> Option<bool> {
        verdict_of(&map(), namespace, labels, fields)
    }

    fn verdict_of<T: WriteResponse>(
        object: &T,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Option<bool> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let options = ListOptions {
            label_selector: text(labels),
            field_selector: text(fields),
            parameters: Vec::new(),
        };
        covers(&Coverage { namespace: namespace.map(str::to_owned), options }, object)
    }

    #[test]
    fn namespace_labels_and_name_decide_coverage() {
        assert_eq!(verdict(None, "", ""), Some(true));
        assert_eq!(verdict(Some("shop"), "app=web", "metadata.name=a,metadata.namespace==shop"), Some(true));
        assert_eq!(verdict(Some("other"), "", ""), Some(false));
        assert_eq!(verdict(None, "app!=web", ""), Some(false));
        assert_eq!(verdict(None, "", "metadata.name!=a"), Some(false));
        assert_eq!(verdict(None, "", "metadata.name=b"), Some(false));
    }

    fn decision_for<T: WriteResponse>(object: &T, fields: &str) -> Option<bool> {
        verdict_of(object, None, "", fields)
    }

    fn pod(node: Option<&str>) -> Pod {
        Pod {
            spec: Some(PodSpec { node_name: node.map(str::to_owned), ..PodSpec::default() }),
            ..Pod::default()
        }
    }

    #[test]
    fn other_text_in_selected_field_excludes_object() {
        assert_eq!(decision_for(&pod(Some("m")), "spec.nodeName=n"), Some(false));
        assert_eq!(decision_for(&pod(None), "spec.nodeName=n"), Some(false), "the Pod is not scheduled");
        assert_eq!(decision_for(&pod(Some("n")), "spec.nodeName="), Some(false));
        assert_eq!(decision_for(&pod(Some("m")), "status.phase=Running,spec.nodeName==n"), Some(false));
        for pod in [pod(Some("n")), pod(None)] {
            let (node, resource) = (pod.spec.clone().unwrap().node_name, ApiResource::erase::<Pod>(&()));
            let mut dynamic = DynamicObject::new("a", &resource);
            dynamic.data = serde_json::json!({"spec": {"nodeName": node}});
            let expected = if node.is_some() { None } else { Some(false) };
            assert_eq!(
                (decision_for(&pod, "spec.nodeName=n"), decision_for(&dynamic, "spec.nodeName=n")),
                (expected, expected)
            );
            assert_eq!(
                (decision_for(&pod, "spec.host=n"), decision_for(&dynamic, "spec.host=n")),
                (None, None),
                "an alias"
            );
        }
    }

    #[test]
    fn renamed_and_missing_fields_are_undecided() {
        let status = JobStatus { succeeded: Some(1), ..JobStatus::default() };
        let job = Job { status: Some(status), ..Job::default() };
        assert_eq!(decision_for(&job, "status.successful=1"), None);
        assert_eq!(decision_for(&job, "status.succeeded=many"), None, "a number is not text");
        let meta: PartialObjectMeta<Pod> = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(decision_for(&meta, "spec.nodeName=n"), None, "the type has only metadata");
        assert_eq!(decision_for(&Secret::default(), "type=Opaque"), None);
        for fields in ["spec.hostNetwork=true", "spec.hostNetwork!=", "spec.nodeName!=n", "spec.nodeName!="] {
            assert_eq!(decision_for(&pod(None), fields), None, "{fields}");
        }
    }

    /// A user type with two colours and without a field for the size.
    #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    struct Paint {
        colour: Colour,
    }

    #[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
    enum Colour {
        #[default]
        Red,
        Blue,
        #[serde(other)]
        Unknown,
    }

    #[test]
    fn field_that_type_cannot_represent_is_undecided() {
        let resource = ApiResource::erase::<Pod>(&());
        let mut paint = kube_client::core::Object::<Paint, NotUsed>::new("a", &resource, Paint::default());
        assert_eq!(decision_for(&paint, "spec.colour=Blue"), Some(false));
        paint.spec.colour = Colour::Unknown;
        assert_eq!(decision_for(&paint, "spec.colour=Blue"), Some(false));
        assert_eq!(decision_for(&paint, "spec.colour=Purple"), None, "the value is unknown to the type");
        assert_eq!(decision_for(&paint, "spec.size=large"), None);
        assert_eq!(decision_for(&paint, "status.phase=Dry"), None);
    }

    #[test]
    fn unknown_selectors_are_undecided_unless_other_part_excludes() {
        assert_eq!(verdict(None, "", "spec.nodeName=n"), None);
        assert_eq!(verdict(Some("other"), "", "spec.nodeName=n"), Some(false));
        assert_eq!(verdict(None, "not a selector!", ""), None);
        assert_eq!(verdict(None, "", r"metadata.name=a\,b"), None, "the value can contain a comma");
        let mut coverage = Coverage::default();
        coverage.options.parameters.push(("shardSelector".into(), "x".into()));
        assert_eq!(covers(&coverage, &map()), None);
    }
}
