//! The code of each change, for each library.

use serde::Serialize;

use super::{model::Library, savings::Change};

/// The code of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Code {
    pub(super) library: &'static str,
    pub(super) code: String,
}

/// Returns the code of a change for the library of a program. client-go and controller-runtime use the same
/// caches.
pub(super) fn code(change: Change, kind: &str, group: &str, selector: &str, library: Library) -> Vec<Code> {
    let ours = |code: String| Code { library: "kube-informer", code };
    let informer = |form: String| ours(format!("Informer::<{form}>::builder(Api::all(client)).build()"));
    match change {
        Change::Typed => vec![informer(kind.to_owned())],
        Change::Lazy => vec![informer(format!("Lazy<{kind}>"))],
        Change::Compressed => vec![informer(format!("Compressed<{kind}>"))],
        Change::Projection => vec![informer(format!("Projection<{kind}, MyFields>"))],
        _ if library == Library::KubeInformer => vec![changed_informer(change, kind, selector)],
        _ if library == Library::KubeRs => vec![kube_rs(change, kind, selector)],
        _ => go(change, kind, group, selector),
    }
}

fn changed_informer(change: Change, kind: &str, selector: &str) -> Code {
    let code = match change {
        Change::FieldSelector => {
            format!(
                "Informer::from_source(ListWatch::<{kind}>::new(Api::all(client)).fields({selector:?})).build()"
            )
        }
        _ => format!("Informer::<PartialObjectMeta<{kind}>>::builder(Api::all(client)).build()"),
    };
    Code { library: "kube-informer", code }
}

fn kube_rs(change: Change, kind: &str, selector: &str) -> Code {
    let clear = "o.managed_fields_mut().clear();";
    let annotation = "o.annotations_mut().remove(\"kubectl.kubernetes.io/last-applied-configuration\");";
    let code = match change {
        Change::MetadataOnly => {
            format!(
                "metadata_watcher(Api::<{kind}>::all(client), Config::default()).modify(|o| {{ {clear} }})"
            )
        }
        Change::FieldSelector => {
            format!("watcher(Api::<{kind}>::all(client), Config::default().fields({selector:?}))")
        }
        Change::DropLastApplied => format!(
            "watcher(Api::<{kind}>::all(client), Config::default()).modify(|o| {{ {clear} {annotation} }})"
        ),
        _ => format!("watcher(Api::<{kind}>::all(client), Config::default()).modify(|o| {{ {clear} }})"),
    };
    Code { library: "kube-rs", code }
}

fn go(change: Change, kind: &str, group: &str, selector: &str) -> Vec<Code> {
    let object = format!("&{}.{kind}{{}}", package(group));
    let (runtime, client) = match change {
        Change::MetadataOnly => (
            format!(
                "ctrl.NewControllerManagedBy(mgr).For({object}, builder.OnlyMetadata) // and TransformStripManagedFields"
            ),
            "metadatainformer.NewSharedInformerFactory(metadataClient, 0).ForResource(gvr)".to_owned(),
        ),
        Change::FieldSelector => (
            format!(
                "cache.Options{{ByObject: map[client.Object]cache.ByObject{{{object}: {{Field: fields.ParseSelectorOrDie({selector:?})}}}}}}"
            ),
            format!(
                "informers.WithTweakListOptions(func(o *metav1.ListOptions) {{ o.FieldSelector = {selector:?} }})"
            ),
        ),
        Change::DropLastApplied => (
            format!(
                "cache.Options{{ByObject: map[client.Object]cache.ByObject{{{object}: {{Transform: strip}}}}}} // strip: {STRIP}"
            ),
            format!("informers.WithTransform(strip) // strip: {STRIP}"),
        ),
        _ => (
            "cache.Options{DefaultTransform: cache.TransformStripManagedFields()}".to_owned(),
            "informers.WithTransform(strip) // strip: m, err := meta.Accessor(o); m.SetManagedFields(nil)"
                .to_owned(),
        ),
    };
    vec![Code { library: "controller-runtime", code: runtime }, Code { library: "client-go", code: client }]
}

const STRIP: &str = "m.SetManagedFields(nil); delete(m.GetAnnotations(), \"kubectl.kubernetes.io/last-applied-configuration\")";

/// Returns the usual name of the Go package of an API group.
fn package(group: &str) -> String {
    let first = group.split('.').next().unwrap_or_default();
    let first = if first.is_empty() { "core" } else { first };
    let letters: String = first.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{letters}v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_for_the_library_of_the_program() {
        let libraries = |change, library| -> Vec<&str> {
            code(change, "Pod", "", "a!=b", library).iter().map(|code| code.library).collect()
        };
        assert_eq!(libraries(Change::MetadataOnly, Library::ClientGo), ["controller-runtime", "client-go"]);
        assert_eq!(libraries(Change::DropManagedFields, Library::KubeRs), ["kube-rs"]);
        assert_eq!(libraries(Change::Lazy, Library::KubeRs), ["kube-informer"]);
        assert_eq!(libraries(Change::MetadataOnly, Library::KubeInformer), ["kube-informer"]);
    }

    #[test]
    fn code_contains_kind_and_selector() {
        let code = code(Change::FieldSelector, "Deployment", "apps", "type!=x", Library::ClientGo);
        assert!(
            code[0].code.contains("&appsv1.Deployment{}") && code[0].code.contains("\"type!=x\""),
            "{code:?}"
        );
    }
}
