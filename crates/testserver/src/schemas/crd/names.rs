//! The accepted names of CRDs. Within a group, a name belongs to the first CRD that requested it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node::{text, texts};
use crate::schemas::crd::status::{self, Condition};
use crate::wire::object::Object;

/// The accepted names of the CRDs of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptedNames {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl AcceptedNames {
    /// Adds the accepted names of a CRD of the group.
    pub(crate) fn add(&mut self, crd: &Object) {
        let names = status::accepted(crd);
        let single = ["plural", "singular"].into_iter().map(|key| text(&names, key));
        self.resources.extend(single.chain(texts(&names, "shortNames")).map(Into::into));
        self.kinds.extend(["kind", "listKind"].map(|key| text(&names, key).to_owned()));
    }
}

/// Accepts the requested names of a CRD that are not in use by other CRDs, and sets the two conditions.
/// Returns whether the CRD has changed.
pub(crate) fn accept(crd: &mut Object, taken: &AcceptedNames, now: &str) -> bool {
    let wanted = crd.get("spec").and_then(|spec| spec.get("names")).cloned().unwrap_or(Value::Null);
    let had = status::accepted(crd);
    if wanted == had {
        return false;
    }
    let mut conflict = None;
    let names = names(&wanted, &had, taken, &mut conflict);
    let accepted = match conflict {
        None => Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => Condition::new("NamesAccepted", false, reason, &message),
    };
    let changed = names != had;
    status::accept(crd, names);
    let changed = status::set(crd, &accepted, now) || changed;
    if !status::is(crd, "Established") {
        let condition = if accepted.is {
            Condition::new("Established", false, "Installing", "the initial names have been accepted")
        } else {
            Condition::new("Established", false, "NotAccepted", "not all names are accepted")
        };
        status::set(crd, &condition, now);
    }
    changed
}

/// The reason and the message of a name conflict. `None` if there is no conflict.
type Conflict = Option<(&'static str, String)>;

fn names(wanted: &Value, had: &Value, taken: &AcceptedNames, conflict: &mut Conflict) -> Value {
    let mut names: Map<String, Value> = had.as_object().cloned().unwrap_or_default();
    let AcceptedNames { resources, kinds } = taken;
    for (key, reason, taken) in [
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ] {
        let lost = if key == "shortNames" {
            short_names(wanted, had, resources)
        } else {
            let name = text(wanted, key);
            (name != text(had, key) && taken.contains(name)).then(|| in_use(name))
        };
        match lost {
            // The last conflict is reported.
            Some(message) => *conflict = Some((reason, message)),
            None => put(&mut names, key, wanted.get(key)),
        }
    }
    put(&mut names, "categories", wanted.get("categories"));
    names.into()
}

fn put(names: &mut Map<String, Value>, key: &str, list: Option<&Value>) {
    match list {
        Some(list) => names.insert(key.into(), list.clone()),
        None => names.remove(key),
    };
}

fn in_use(name: &str) -> String {
    format!("\"{name}\" is already in use")
}

/// Returns the conflict message of the short names. If one is in use, none is accepted.
fn short_names(wanted: &Value, had: &Value, taken: &BTreeSet<String>) -> Option<String> {
    let own: Vec<&str> = texts(had, "shortNames").collect();
    let others = texts(wanted, "shortNames").filter(|name| !own.contains(name));
    let lost: Vec<String> = others.filter(|name| taken.contains(*name)).map(in_use).collect();
    (!lost.is_empty()).then(|| lost.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crd(names: &Value) -> Object {
        json!({"spec": {"names": names}}).as_object().unwrap().clone()
    }

    #[test]
    fn names_in_use_are_not_accepted() {
        let mut first =
            crd(&json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList",
            "shortNames": ["th"]}));
        assert!(accept(&mut first, &AcceptedNames::default(), "now") && status::is(&first, "NamesAccepted"));
        assert!(!accept(&mut first, &AcceptedNames::default(), "later"));
        let mut taken = AcceptedNames::default();
        taken.add(&first);
        let mut second =
            crd(&json!({"plural": "gadgets", "singular": "thing", "kind": "Thing", "listKind": "ThingList",
            "shortNames": ["th", "gg"]}));
        assert!(accept(&mut second, &taken, "now"));
        assert_eq!(status::accepted(&second), json!({"plural": "gadgets"}));
        let condition = &second["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("ListKindConflict"))
        );
        assert_eq!(condition["message"], "\"ThingList\" is already in use");
        second["spec"]["names"] =
            json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
        assert!(accept(&mut second, &taken, "now") && status::is(&second, "NamesAccepted"));
    }
}
