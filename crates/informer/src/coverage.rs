//! Whether a source covers an object, as far as that can be said without asking the server.

use kube_listwatch::Coverage;
use kube_object::Object;
use kube_store::LabelSelector;
use serde::Serialize;
use serde_json::Value;

/// `None` where only the server knows: fields that are no text, parameters of one's own.
pub(crate) fn covers(coverage: &Coverage, object: &(impl Object + Serialize)) -> Option<bool> {
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

fn labels(selector: &str, object: &impl Object) -> Option<bool> {
    let selector: LabelSelector = selector.parse().ok()?;
    Some(selector.matches(object))
}

fn fields(selector: &str, object: &(impl Object + Serialize)) -> Option<bool> {
    // A backslash makes the comma or equals sign after it a part of the value.
    if selector.contains('\\') {
        return None;
    }
    all(selector.split(',').filter(|part| !part.is_empty()).map(|part| field(part, object)))
}

/// One requirement: `metadata.name=a`, `metadata.name==a`, `metadata.name!=a`.
fn field(part: &str, object: &(impl Object + Serialize)) -> Option<bool> {
    let (field, wanted) = part.split_once('=')?;
    let (field, equal) = match field.strip_suffix('!') {
        Some(field) => (field, false),
        None => (field, true),
    };
    let wanted = wanted.strip_prefix('=').unwrap_or(wanted);
    match field {
        "metadata.name" => Some((object.id().key.name() == wanted) == equal),
        "metadata.namespace" => Some((object.id().key.namespace().unwrap_or_default() == wanted) == equal),
        _ => Some((text_at(field, object, wanted)? == wanted) == equal),
    }
}

/// What servers compare with, as long as that is text: there a field's label is its path, and what is not there is empty.
/// Numbers and truth have other labels here and there (`status.successful` of a Job is its `status.succeeded`).
fn text_at(path: &str, object: &impl Serialize, wanted: &str) -> Option<String> {
    if wanted.parse::<f64>().is_ok() || wanted.parse::<bool>().is_ok() {
        return None;
    }
    let (parents, name) = path.rsplit_once('.')?;
    let object = serde_json::to_value(object).ok()?;
    // Who keeps no more than metadata has no such part, and knows nothing of what is in it.
    let parent = parents.split('.').try_fold(&object, |value, part| value.get(part))?;
    match parent.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        None if parent.is_object() => Some(String::new()),
        _ => None,
    }
}

/// All of them; one that fails decides, whatever is not known of the others.
fn all(verdicts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let verdicts: Vec<Option<bool>> = verdicts.into_iter().collect();
    match verdicts.contains(&Some(false)) {
        true => Some(false),
        false => verdicts.iter().all(Option::is_some).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        batch::v1::{Job, JobStatus},
        core::v1::{ConfigMap, Pod, PodSpec, Secret},
    };
    use kube_client::core::PartialObjectMeta;
    use kube_listwatch::ListOptions;

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

    fn verdict_of(
        object: &(impl Object + Serialize),
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
    fn namespaces_labels_names_decide() {
        assert_eq!(verdict(None, "", ""), Some(true));
        assert_eq!(verdict(Some("shop"), "app=web", "metadata.name=a,metadata.namespace==shop"), Some(true));
        assert_eq!(verdict(Some("other"), "", ""), Some(false));
        assert_eq!(verdict(None, "app!=web", ""), Some(false));
        assert_eq!(verdict(None, "", "metadata.name!=a"), Some(false));
        assert_eq!(verdict(None, "", "metadata.name=b"), Some(false));
    }

    #[test]
    fn text_at_the_path_of_a_field_decides() {
        let of = |node: Option<&str>, fields: &str| {
            let spec = PodSpec { node_name: node.map(str::to_owned), ..PodSpec::default() };
            verdict_of(&Pod { spec: Some(spec), ..Pod::default() }, None, "", fields)
        };
        assert_eq!(of(Some("n"), "spec.nodeName=n"), Some(true));
        assert_eq!(of(Some("m"), "spec.nodeName=n"), Some(false));
        assert_eq!(of(Some("m"), "spec.nodeName!=n,metadata.name!=a"), Some(true));
        assert_eq!(of(None, "spec.nodeName=n"), Some(false), "it waits for a node");
        assert_eq!(of(None, "spec.nodeName="), Some(true));
    }

    #[test]
    fn what_may_have_another_label_and_what_is_not_there_at_all_is_left_open() {
        let status = JobStatus { succeeded: Some(1), ..JobStatus::default() };
        let job = Job { status: Some(status), ..Job::default() };
        assert_eq!(verdict_of(&job, None, "", "status.successful=1"), None);
        assert_eq!(verdict_of(&job, None, "", "status.succeeded=many"), None, "it is no text");
        let meta: PartialObjectMeta<Pod> = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(verdict_of(&meta, None, "", "spec.nodeName=n"), None, "nobody has said so");
        assert_eq!(verdict_of(&Secret::default(), None, "", "type=Opaque"), None);
        let pod = Pod { spec: Some(PodSpec::default()), ..Pod::default() };
        assert_eq!(verdict_of(&pod, None, "", "spec.hostNetwork=true"), None);
    }

    #[test]
    fn what_only_the_server_knows_is_left_open_unless_something_else_decides() {
        assert_eq!(verdict(None, "", "spec.nodeName=n"), None);
        assert_eq!(verdict(Some("other"), "", "spec.nodeName=n"), Some(false));
        assert_eq!(verdict(None, "not a selector!", ""), None);
        assert_eq!(verdict(None, "", r"metadata.name=a\,b"), None, "a name may hold a comma");
        let mut coverage = Coverage::default();
        coverage.options.parameters.push(("shardSelector".into(), "x".into()));
        assert_eq!(covers(&coverage, &map()), None);
    }
}
