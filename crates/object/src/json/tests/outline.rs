//! Compares the outline of an object with the result of serde_json.

use std::fmt;

use proptest::{prelude::*, sample::select};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{JsonObject, ObjectIdRef, json::Outline};

/// Holds the fields of an object in their order, including duplicates.
#[derive(Debug)]
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = fields.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'a> Entries<'a> {
    fn of(text: &'a str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn all(&self, name: &str) -> Vec<&'a str> {
        self.0.iter().filter(|entry| entry.0 == name).map(|entry| entry.1.get()).collect()
    }

    fn texts_without(&self, name: &str) -> Vec<(&str, &'a str)> {
        let others = self.0.iter().filter(|entry| entry.0 != name);
        others.map(|(name, value)| (name.as_str(), value.get())).collect()
    }
}

#[derive(Deserialize)]
struct ObjectWithMetadata<'a> {
    #[serde(borrow)]
    metadata: JsonObject<Metadata<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
}

fn id_by_serde(text: &str) -> Option<ObjectIdRef<'_>> {
    let JsonObject(ObjectWithMetadata { metadata: JsonObject(metadata) }) =
        serde_json::from_str(text).ok()?;
    let Metadata { namespace, name, uid, resource_version } = metadata;
    let (uid, version) = (uid.unwrap_or_default(), resource_version.unwrap_or_default());
    (!name.is_empty()).then(|| ObjectIdRef::new(namespace, name, uid, version))
}

/// Returns whether one of the named fields occurs several times.
fn has_duplicates(entries: &Entries<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| entries.all(name).len() > 1)
}

const IN_METADATA: [&str; 6] = ["name", "namespace", "uid", "resourceVersion", "labels", "managedFields"];

/// Panics if the outline differs from the result of serde_json.
#[track_caller]
fn check(text: &str) {
    let top = Entries::of(text);
    let metadata = top.all("metadata").pop().filter(|metadata| metadata.starts_with('{')).map(Entries::of);
    let is_ambiguous = has_duplicates(&top, &["metadata"])
        || metadata.as_ref().is_some_and(|of| has_duplicates(of, &IN_METADATA));
    let outline = Outline::scan(text.as_bytes());
    assert_eq!(outline.is_reliable, !is_ambiguous, "{text}");
    if is_ambiguous {
        return assert_eq!(
            (outline.id(), outline.labels(), outline.managed_fields()),
            (None, None, None),
            "{text}"
        );
    }
    assert_eq!(outline.id().cloned(), id_by_serde(text), "{text}");
    let kind: Option<String> = top.all("kind").first().and_then(|kind| serde_json::from_str(kind).ok());
    assert_eq!(outline.kind(), kind.as_deref(), "{text}");
    let labels = metadata.as_ref().and_then(|metadata| metadata.all("labels").pop());
    let outlined = outline.labels().map(|at| &text.as_bytes()[at]);
    assert_eq!(outlined, labels.map(str::as_bytes), "{text}");

    let without_managed_fields = outline.parts(false).concat();
    let without_managed_fields = std::str::from_utf8(&without_managed_fields).unwrap();
    assert_eq!(outline.parts(true).concat(), text.as_bytes());
    let is_removed = metadata
        .as_ref()
        .is_some_and(|of| of.all("managedFields").iter().any(|value| value.starts_with('[')));
    assert_eq!(outline.managed_fields().is_some(), is_removed, "{text}");
    if !is_removed {
        return assert_eq!(without_managed_fields, text);
    }
    let remaining = Entries::of(without_managed_fields);
    assert_eq!(remaining.texts_without("metadata"), top.texts_without("metadata"), "{text}");
    let remaining = Entries::of(remaining.all("metadata")[0]);
    assert_eq!(
        remaining.texts_without(""),
        metadata.unwrap().texts_without("managedFields"),
        "{text}\n{without_managed_fields}"
    );
}

/// A shortened Pod in the notation of kube-apiserver.
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"},"managedFields":[{"manager":"kubelet","fieldsV1":{"f:status":{"k:{\"type\":\"Ready\"}":{".":{}}}}}]},"spec":{"containers":[{"name":"c"}]}}"#;

#[test]
fn outline_of_server_notation_is_complete() {
    check(POD);
    let outline = Outline::scan(POD.as_bytes());
    assert_eq!(outline.id().unwrap().key.name(), "a");
    assert_eq!(
        std::str::from_utf8(&outline.parts(false).concat()).unwrap(),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"}},"spec":{"containers":[{"name":"c"}]}}"#
    );
}

#[test]
fn template_metadata_is_ignored() {
    for text in [
        r#"{"spec":{"template":{"metadata":{"name":"b","managedFields":[1]}}},"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"template":{"x":1,"metadata":{"name":"b","managedFields":[1]}}}}"#,
        r#"{"metadata":{"annotations":{"managedFields":"[]","x":",\"managedFields\":[1]"},"name":"a"},"x":",\"metadata\":{\"name\":\"b\"}"}"#,
        r#"{"metadata":{"name":"a","x":{"name":"b","managedFields":[2]},"managedFields":[1]}}"#,
    ] {
        check(text);
        assert_eq!(Outline::scan(text.as_bytes()).id().unwrap().key.name(), "a");
    }
}

#[test]
fn managed_fields_are_removed_at_any_position() {
    for metadata in [
        r#""managedFields":[1]"#,
        r#" "managedFields" : [1] "#,
        r#""managedFields":[1],"name":"a""#,
        r#" "managedFields" : [ ] , "name":"a" "#,
        r#""name":"a","managedFields":[1]"#,
        r#""name":"a" , "managedFields" : [1] "#,
        r#""name":"a","managedFields":[1],"uid":"u""#,
        r#""name":"a","managed\u0046ields":[1]"#,
        r#""name":"a","managedFields":["]","\"]",[["]"]],{"a":"\\"}]"#,
        r#""name":"a","managedFields":null"#,
        r#""name":"a","managedFields":{"a":[]}"#,
        r#""name":"a","managedFields":7"#,
        r#""managedFields":"[1]","name":"a""#,
    ] {
        check(&format!(r#"{{"metadata":{{{metadata}}},"spec":{{}}}}"#));
        check(&format!(r#" {{ "spec" : {{}} , "metadata" : {{{metadata}}} }} "#));
    }
}

#[test]
fn duplicate_names_make_outline_unreliable() {
    for text in [
        r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"name":"a"},"spec":{}, "metadata":{}}"#,
        "{\"metadata\":{\"name\":\"a\"},\n\t\"metadata\":7}",
        r#"{"metadata":{"name":"a"},"spec":1,"metad\u0061ta":{}}"#,
        r#"{"metadata":{"name":"a"},"spec":1,"m\u0065tadata":{}}"#,
        r#"{"metadata":{"name":"a","name":"a"}}"#,
        r#"{"metadata":{"name":"a","n\u0061me":"b"}}"#,
        r#"{"metadata":{"managedFields":[1],"name":"a","managedFields":[1]}}"#,
        r#"{"metadata":{"managedFields":null,"name":"a","managedFields":[1]}}"#,
        r#"{"metadata":{"labels":{},"labels":{}}}"#,
    ] {
        check(text);
        assert!(!Outline::scan(text.as_bytes()).is_reliable, "{text}");
    }
}

#[test]
fn first_kind_counts_at_any_position() {
    for (text, kind) in [
        (r#"{"metadata":{"name":"a"},"spec":{"kind":"no"},"kind":"Pod"}"#, Some("Pod")),
        (r#"{"metadata":{"name":"a"},"spec":{"x":1,"kind":"no"}}"#, None),
        (r#"{"metadata":{"name":"a"},"k\u0069nd":"P\u006fd"}"#, Some("Pod")),
        (r#"{"kind":"Pod","metadata":{"name":"a"},"kind":"Table"}"#, Some("Pod")),
        (r#"{"kind":null,"metadata":{"name":"a"}}"#, None),
        (r#"{"kind":7}"#, None),
    ] {
        check(text);
        assert_eq!(Outline::scan(text.as_bytes()).kind(), kind, "{text}");
    }
}

#[test]
fn non_objects_have_empty_outlines() {
    for text in [
        "",
        " ",
        "[]",
        "7",
        "null",
        r#""metadata""#,
        "{",
        r#"{"metadata""#,
        r#"{"metadata":"#,
        r#"{"a":[}"#,
        "{7:1}",
    ] {
        assert!(!Outline::scan(text.as_bytes()).is_reliable, "{text}");
    }
}

/// Returns a JSON string. Escapes the first character if `escape` is true.
fn quoted(name: &str, escape: bool) -> String {
    match (escape, name.chars().next()) {
        (true, Some(first)) => format!("\"\\u{:04x}{}\"", first as u32, &name[first.len_utf8()..]),
        _ => format!("\"{name}\""),
    }
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => select(vec![" ", "\n", "\t\r\n  "])]
}

/// Generates values that a faulty scanner confuses with brackets or fields.
fn value() -> impl Strategy<Value = String> {
    let values = [
        "null",
        "7",
        "-1.5e3",
        "true",
        r#""x""#,
        r#""""#,
        r#""a\u0026b""#,
        r#""\\""#,
        r#""\"""#,
        r#""]""#,
        r#""[{""#,
        r#"",\"metadata\":{\"name\":\"no\"}""#,
        r#""\u006d""#,
        r#"",\"managedFields\":[1]""#,
        "{}",
        "[]",
        r#"{"x":"y"}"#,
        r#"{"name":"no","metadata":{"name":"no"},"kind":"no","managedFields":["no"]}"#,
        r#"[{"kind":"no"},"metadata"]"#,
        r#"[["]"],[]]"#,
        r#"["]","\"]"]"#,
        r#"[{"manager":"m","fieldsV1":{"f:a":{"k:{\"b\":\"c\"}":{}}}}]"#,
        r#"["\\"]"#,
        r#"[{"a":"\\\"]"}]"#,
        "{\"\u{e9}\":\"\u{1f600}\"}",
        r#"{"a":{"b":[1,{"c":"}"}]},"d":"{"}"#,
    ];
    select(values.to_vec()).prop_map(str::to_owned)
}

/// Generates an object with some of these fields, in any order. At most one field is repeated.
fn object(fields: &[(&'static str, BoxedStrategy<String>)]) -> BoxedStrategy<String> {
    let field = |(name, value): &(&'static str, BoxedStrategy<String>)| {
        let name = *name;
        (prop::bool::weighted(0.1), value.clone(), [space(), space(), space(), space()])
            .prop_map(move |(escape, value, [a, b, c, d])| {
                format!("{a}{}{b}:{c}{value}{d}", quoted(name, escape))
            })
            .boxed()
    };
    let fields: Vec<_> = fields.iter().map(field).collect();
    let count = fields.len();
    let repeated = select(fields.clone()).prop_flat_map(|field| field);
    let some = proptest::sample::subsequence(fields, 0..=count).prop_flat_map(|fields| fields);
    let all = (some, proptest::option::weighted(0.1, repeated)).prop_map(|(mut some, repeated)| {
        some.extend(repeated);
        some
    });
    (all.prop_shuffle(), space())
        .prop_map(|(fields, space)| format!("{{{}{space}}}", fields.join(",")))
        .boxed()
}

fn whole_object() -> impl Strategy<Value = String> {
    let text = prop_oneof![4 => Just(r#""plain""#.to_owned()), 1 => value()].boxed();
    let (other, value) = (value().boxed(), value().boxed());
    let metadata = object(&[
        ("name", text.clone()),
        ("namespace", text.clone()),
        ("uid", text.clone()),
        ("resourceVersion", text.clone()),
        ("labels", value.clone()),
        ("managedFields", value.clone()),
        ("annotations", value.clone()),
        ("x", value.clone()),
    ]);
    let top = object(&[
        ("kind", prop_oneof![1 => text, 1 => value.clone()].boxed()),
        ("metadata", prop_oneof![9 => metadata, 1 => other].boxed()),
        ("apiVersion", value.clone()),
        ("spec", value.clone()),
        ("status", value.clone()),
        ("x", value),
    ]);
    (space(), top, space()).prop_map(|(before, top, after)| format!("{before}{top}{after}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn outline_matches_serde_json(text in whole_object()) {
        check(&text);
    }

    #[test]
    fn outline_of_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>()) {
        let _ = Outline::scan(&bytes);
        let at = at.index(POD.len());
        let _ = Outline::scan(&POD.as_bytes()[..at]);
        let mut text = POD.as_bytes().to_vec();
        text.splice(at..at, bytes);
        let _ = Outline::scan(&text).parts(false);
    }
}
