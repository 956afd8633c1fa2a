//! Tests the matching and the parsing of selectors.

use super::*;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

fn pod(labels: &[(&str, &str)]) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.labels = Some(labels.iter().map(|(k, v)| (String::from(*k), String::from(*v))).collect());
    pod
}

fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
    selector.parse::<LabelSelector>().unwrap().matches(&pod(labels))
}

#[test]
fn operators_match_like_api_server() {
    let web = &[("app", "web"), ("empty", ""), ("n", "5"), ("below", "-5"), ("huge", "9223372036854775808")];
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = db", false),
        ("empty=", true),
        ("absent=", false),
        ("app!=web", false),
        ("app!=db", true),
        ("absent!=db", true),
        ("app in (db,web)", true),
        ("app in (db)", false),
        ("absent in (db)", false),
        ("empty in (,db)", true),
        ("app notin (db)", true),
        ("app notin (db, web)", false),
        ("absent notin (db)", true),
        ("app notin ()", true),
        ("empty notin ()", false),
        ("empty in ()", true),
        ("absent in ()", false),
        ("n>4", true),
        ("n > 5", false),
        ("n<6", true),
        ("n<5", false),
        ("n>004", true),
        ("n>9223372036854775807", false),
        ("below<0", true),
        ("huge>0", false),
        ("app>0", false),
        ("app<0", false),
        ("empty<1", false),
        ("absent>0", false),
        ("absent<1", false),
        ("app=web,n>4,n<6", true),
        ("app", true),
        ("absent", false),
        ("!app", false),
        ("! absent", true),
        ("app=web,!absent,empty", true),
        ("app=web,absent", false),
    ] {
        assert_eq!(matches(selector, web), expected, "{selector:?}");
    }
}

#[test]
fn operator_words_are_valid_labels_and_values() {
    assert!(matches("in in (notin)", &[("in", "notin")]));
    assert!(matches("notin=in", &[("notin", "in")]));
    assert!(matches("example.com/in", &[("example.com/in", "")]));
}

#[test]
fn object_without_labels_matches_only_negations() {
    let bare = Pod::default();
    assert!(!LabelSelector::everything().exists("app").matches(&bare));
    assert!(LabelSelector::everything().not_exists("app").not_in("app", ["web"]).matches(&bare));
    assert!(LabelSelector::everything().matches(&bare));
}

#[test]
fn invalid_selector_is_rejected_with_position() {
    for (text, at) in [
        (",", 0),
        ("app,", 4),
        ("=web", 0),
        ("app=web db", 8),
        ("app in web", 7),
        ("app in (web", 11),
        ("app in", 6),
        ("app like (web)", 4),
        ("app=-web", 4),
        ("-app", 0),
        ("/app", 0),
        ("Example.com/app", 0),
        ("a/b/c", 0),
        ("app>", 4),
        ("app > x", 6),
        ("app>1.5", 4),
        ("app>-1", 4),
        ("app>+1", 4),
        ("app>=1", 4),
        ("app>(1)", 4),
        ("app>9223372036854775808", 4),
        ("app<1 2", 6),
        ("!app>1", 4),
        (">1", 0),
        ("app gt 1", 4),
        ("app\u{a0}=web", 0),
        ("!app=web", 4),
        ("app=wéb", 4),
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err();
        assert_eq!(error.position, at, "{text:?}: {error}");
    }
    assert!("a".repeat(64).parse::<LabelSelector>().is_err());
    assert!(format!("app={}", "a".repeat(64)).parse::<LabelSelector>().is_err());
}

#[test]
fn spec_selector_converts() {
    let spec = meta::LabelSelector {
        match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
        match_expressions: Some(vec![meta::LabelSelectorRequirement {
            key: "tier".into(),
            operator: "NotIn".into(),
            values: Some(vec!["b".into(), "a".into()]),
        }]),
    };
    assert_eq!(LabelSelector::try_from(spec).unwrap().to_string(), "app=web,tier notin (a,b)");
    let unknown = meta::LabelSelectorRequirement { key: "a".into(), operator: "Like".into(), values: None };
    let spec = meta::LabelSelector { match_expressions: Some(vec![unknown]), match_labels: None };
    assert!(LabelSelector::try_from(spec).is_err());
}

fn built() -> impl Strategy<Value = LabelSelector> {
    let values = || prop::collection::vec("([a-z][a-z0-9]{0,3})?", 1..4);
    let one = ("[a-z]{1,6}", values(), 0..8, 0..=i64::MAX);
    prop::collection::vec(one, 0..5).prop_map(|all| {
        all.into_iter().fold(LabelSelector::everything(), |built, (label, values, kind, bound)| match kind {
            0 => built.equals(&label, &values[0]),
            1 => built.not_equals(&label, &values[0]),
            2 => built.is_in(&label, values),
            3 => built.not_in(&label, values),
            4 => built.exists(&label),
            5 => built.greater_than(&label, bound),
            6 => built.less_than(&label, bound),
            _ => built.not_exists(&label),
        })
    })
}

proptest! {
    #[test]
    fn displayed_selector_parses_to_same_selector(selector in built()) {
        prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
    }

    #[test]
    fn parser_never_panics(text in "[a-z0-9=!,() /.é<>-]{0,30}") {
        let _ = text.parse::<LabelSelector>();
    }
}
