//! Tests of the parsed table.

use super::*;

fn messages() -> impl Iterator<Item = &'static Message> {
    (0..Types::get().messages.len()).filter_map(|place| Types::get().message(place))
}

#[test]
fn table_is_parsed_completely() {
    let types = Types::get();
    let text = include_str!("../types.txt");
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(types.messages.len(), count("message ") + count("choice ") + count("list "));
    assert_eq!(types.places.len(), types.messages.len());
    assert_eq!(types.kinds.len(), count("kind "));
    assert!((0..types.messages.len()).all(|place| types.parsed(place).unwrap().is_ok()));
    let config_map = types.message(types.kind("v1", "ConfigMap").unwrap()).unwrap();
    assert_eq!(config_map.name, "ConfigMap");
    let field = |name| config_map.fields.iter().find(|field| field.name == name).unwrap();
    assert_eq!((field("metadata").number, field("binaryData").number), (1, 3));
    assert_eq!((field("binaryData").shape, field("binaryData").base), (Shape::Map, Base::Bytes));
    assert_eq!((field("immutable").shape, field("immutable").base), (Shape::Pointer, Base::Bool));
    let volume = messages().find(|message| message.name == "Volume").unwrap();
    assert!(volume.known("emptyDir").is_some());
}

#[test]
fn no_field_shares_name_with_embedded_field() {
    for message in messages() {
        let twice = message.known.windows(2).find(|pair| pair[0].name == pair[1].name);
        assert!(twice.is_none(), "{twice:?} in {}", message.name);
    }
}

#[test]
fn malformed_line_is_an_error() {
    let malformed = |text| *Types::index(text).parsed(0).unwrap().as_ref().unwrap_err();
    assert_eq!(malformed("message A\n1 a Nothing"), "1 a Nothing");
    assert_eq!(malformed("message A\nx a string"), "x a string");
    assert_eq!(malformed("message A +wanted\n1 a string"), "message A +wanted");
    assert_eq!(malformed("message A\n1 a string +wanted"), "1 a string +wanted");
}

#[test]
fn every_built_in_kind_is_in_type_table() {
    for kind in crate::schemas::kinds::builtin::kinds() {
        assert!(Types::get().kind(&kind.api_version(), &kind.kind).is_some(), "{kind:?}");
    }
}

#[test]
fn reviews_and_bindings_are_found_by_resource() {
    let of = |version, resource| Types::get().kind_of(version, resource);
    assert_eq!(of("authorization.k8s.io/v1", "selfsubjectaccessreviews"), Some("SelfSubjectAccessReview"));
    assert_eq!(of("v1", "bindings"), Some("Binding"));
    assert_eq!(of("v1", "widgets"), None);
}

#[test]
fn facts_and_defaults_are_parsed() {
    let types = Types::get();
    let field = |kind: &str, name: &str| {
        let message = messages().find(|message| message.name == kind).unwrap();
        *message.known(name).unwrap()
    };
    let ports = field("Container", "ports");
    assert_eq!(ports.facts.list, Some(("map", "containerPort,protocol")));
    assert_eq!(ports.facts.patch, Some(("merge", "containerPort")));
    let protocol = field("ContainerPort", "protocol");
    assert_eq!((protocol.facts.permitted, protocol.facts.required), (Some("SCTP,TCP,UDP"), false));
    assert_eq!(types.default_of(&protocol), Some("TCP".into()));
    assert_eq!(types.default_of(&field("ContainerPort", "containerPort")), Some(0.into()));
    assert!(field("ContainerPort", "containerPort").facts.required);
    assert_eq!(types.default_of(&field("ContainerPort", "name")), None);
    assert_eq!(types.default_of(&field("Pod", "spec")), Some(serde_json::json!({})));
    assert!(messages().any(|message| message.name == "LabelSelector" && message.facts.is_atomic()));
}
