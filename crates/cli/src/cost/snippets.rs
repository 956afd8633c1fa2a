//! The code of each change, for each library.

use serde::Serialize;

use super::{model::Library, savings::Change};

/// The code of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Code {
    pub(super) library: &'static str,
    pub(super) code: String,
}

/// The informer that a change refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) kind: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    /// `None` for all namespaces, and for a cluster-scoped kind.
    pub(super) namespace: Option<&'a str>,
    /// The selector of a change to a selector.
    pub(super) selector: &'a str,
}

impl Subject<'_> {
    /// Returns the `Api` of kube-rs, without its type.
    fn api(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("namespaced(client, {namespace:?})"),
            None => "all(client)".to_owned(),
        }
    }
}

/// Returns the code of a change for the library of a program. client-go and controller-runtime use the same
/// caches.
pub(super) fn code(change: Change, subject: Subject<'_>, library: Library) -> Vec<Code> {
    let kind = subject.kind;
    let informer = |form: String| vec![informer(&form, subject)];
    match change {
        Change::Typed => informer(kind.to_owned()),
        Change::Lazy => informer(format!("Lazy<{kind}>")),
        Change::Compressed => informer(format!("Compressed<{kind}>")),
        Change::Projection => informer(format!("Projection<{kind}, MyFields>")),
        _ if library == Library::KubeInformer => vec![changed_informer(change, subject)],
        _ if library == Library::KubeRs => vec![kube_rs(change, subject)],
        _ => go(change, subject),
    }
}

fn informer(form: &str, subject: Subject<'_>) -> Code {
    let code = format!("Informer::<{form}>::builder(Api::{}).build()", subject.api());
    Code { library: "kube-informer", code }
}

fn changed_informer(change: Change, subject: Subject<'_>) -> Code {
    let (kind, api, selector) = (subject.kind, subject.api(), subject.selector);
    match change {
        Change::FieldSelector => {
            let source = format!("ListWatch::<{kind}>::new(Api::{api}).fields({selector:?})");
            Code { library: "kube-informer", code: format!("Informer::from_source({source}).build()") }
        }
        _ => informer(&format!("PartialObjectMeta<{kind}>"), subject),
    }
}

fn kube_rs(change: Change, subject: Subject<'_>) -> Code {
    let api = format!("Api::<{}>::{}", subject.kind, subject.api());
    let clear = "o.managed_fields_mut().clear();";
    let annotation = "o.annotations_mut().remove(\"kubectl.kubernetes.io/last-applied-configuration\");";
    let code = match change {
        Change::MetadataOnly => {
            format!("metadata_watcher({api}, Config::default()).modify(|o| {{ {clear} }})")
        }
        Change::FieldSelector => {
            format!("watcher({api}, Config::default().fields({:?}))", subject.selector)
        }
        Change::DropLastApplied => {
            format!("watcher({api}, Config::default()).modify(|o| {{ {clear} {annotation} }})")
        }
        _ => format!("watcher({api}, Config::default()).modify(|o| {{ {clear} }})"),
    };
    Code { library: "kube-rs", code }
}

fn go(change: Change, subject: Subject<'_>) -> Vec<Code> {
    let object = format!("&{}.{}{{}}", package(subject), subject.kind);
    let by_object = |options: String| {
        format!("cache.Options{{ByObject: map[client.Object]cache.ByObject{{{object}: {{{options}}}}}}}")
    };
    let selector = subject.selector;
    let (runtime, client) = match change {
        Change::MetadataOnly => (
            format!(
                "For({object}, builder.OnlyMetadata), cache.Options{{DefaultTransform: cache.TransformStripManagedFields()}}, and Get with metav1.PartialObjectMetadata; a Get of the full type starts a second cache"
            ),
            format!(
                "metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0, metadatainformer.WithTransform({})).ForResource(gvr)",
                strip("m.SetManagedFields(nil)")
            ),
        ),
        Change::FieldSelector => (
            by_object(format!("Field: fields.ParseSelectorOrDie({selector:?})")),
            format!(
                "informers.WithTweakListOptions(func(o *metav1.ListOptions) {{ o.FieldSelector = {selector:?} }})"
            ),
        ),
        Change::DropLastApplied => {
            // `GetAnnotations` of an unstructured object returns a copy.
            let strip = strip(
                "m.SetManagedFields(nil); a := m.GetAnnotations(); delete(a, \"kubectl.kubernetes.io/last-applied-configuration\"); m.SetAnnotations(a)",
            );
            (by_object(format!("Transform: {strip}")), format!("informers.WithTransform({strip})"))
        }
        _ => (
            "cache.Options{DefaultTransform: cache.TransformStripManagedFields()}".to_owned(),
            format!("informers.WithTransform({})", strip("m.SetManagedFields(nil)")),
        ),
    };
    vec![Code { library: "controller-runtime", code: runtime }, Code { library: "client-go", code: client }]
}

/// Returns a Go function that changes each object with managedFields. Tombstones of client-go have no
/// metadata, so the function returns them unchanged. client-go can call the function again with a cached
/// object, which has no managedFields. A second write would be a data race with the readers of the cache:
/// <https://github.com/kubernetes/kubernetes/issues/124337>.
fn strip(change: &str) -> String {
    format!(
        "func(o any) (any, error) {{ if m, err := meta.Accessor(o); err == nil && m.GetManagedFields() != nil {{ {change} }}; return o, nil }}"
    )
}

/// Returns the usual name of the Go package of an API group and version.
fn package(subject: Subject<'_>) -> String {
    let first = subject.group.split('.').next().unwrap_or_default();
    let first = if first.is_empty() { "core" } else { first };
    first.chars().chain(subject.version.chars()).filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_for_the_library_of_the_program() {
        let libraries = |change, library| -> Vec<&str> {
            let pods = Subject { kind: "Pod", group: "", version: "v1", namespace: None, selector: "a!=b" };
            code(change, pods, library).iter().map(|code| code.library).collect()
        };
        assert_eq!(libraries(Change::MetadataOnly, Library::ClientGo), ["controller-runtime", "client-go"]);
        assert_eq!(libraries(Change::DropManagedFields, Library::KubeRs), ["kube-rs"]);
        assert_eq!(libraries(Change::Lazy, Library::KubeRs), ["kube-informer"]);
        assert_eq!(libraries(Change::MetadataOnly, Library::KubeInformer), ["kube-informer"]);
    }

    #[test]
    fn code_contains_kind_and_selector() {
        let subject = Subject {
            kind: "Deployment",
            group: "apps",
            version: "v1",
            namespace: Some("shop"),
            selector: "type!=x",
        };
        let code = code(Change::FieldSelector, subject, Library::ClientGo);
        assert!(
            code[0].code.contains("&appsv1.Deployment{}") && code[0].code.contains("\"type!=x\""),
            "{code:?}"
        );
        let code = super::code(Change::DropManagedFields, subject, Library::KubeRs);
        assert!(code[0].code.contains("Api::<Deployment>::namespaced(client, \"shop\")"), "{code:?}");
    }

    #[test]
    fn go_code_has_version_of_kind_and_changes_unstructured_objects() {
        let subject = Subject {
            kind: "Widget",
            group: "my-group.example.com",
            version: "v1alpha1",
            namespace: None,
            selector: "",
        };
        let code = code(Change::DropLastApplied, subject, Library::ClientGo);
        assert!(code[0].code.contains("&mygroupv1alpha1.Widget{}"), "{code:?}");
        for text in ["m.GetManagedFields() != nil", "m.SetAnnotations(a)"] {
            assert!(code.iter().all(|code| code.code.contains(text)), "{code:?}");
        }
    }
}
