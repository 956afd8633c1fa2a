//! Whether a source covers an object, as far as that can be said without asking the server.

use kube_listwatch::Coverage;
use kube_object::Object;
use kube_store::LabelSelector;

/// `None` where only the server knows: other fields than the name and the namespace, parameters of one's own.
pub(crate) fn covers(coverage: &Coverage, object: &impl Object) -> Option<bool> {
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

fn fields(selector: &str, object: &impl Object) -> Option<bool> {
    // A backslash makes the comma or equals sign after it a part of the value.
    if selector.contains('\\') {
        return None;
    }
    all(selector.split(',').filter(|part| !part.is_empty()).map(|part| field(part, object)))
}

/// One requirement: `metadata.name=a`, `metadata.name==a`, `metadata.name!=a`.
fn field(part: &str, object: &impl Object) -> Option<bool> {
    let (field, wanted) = part.split_once('=')?;
    let (field, equal) = match field.strip_suffix('!') {
        Some(field) => (field, false),
        None => (field, true),
    };
    let wanted = wanted.strip_prefix('=').unwrap_or(wanted);
    let value = match field {
        "metadata.name" => object.id().key.name(),
        "metadata.namespace" => object.id().key.namespace().unwrap_or_default(),
        _ => return None,
    };
    Some((value == wanted) == equal)
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
    use k8s_openapi::api::core::v1::ConfigMap;
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
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let options = ListOptions {
            label_selector: text(labels),
            field_selector: text(fields),
            parameters: Vec::new(),
        };
        covers(&Coverage { namespace: namespace.map(str::to_owned), options }, &map())
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
