//! Compares selectors with recorded responses of the real server, and tests random input.

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
    let mut all: Vec<_> = pairs.iter().map(|(k, v)| (Box::from(*k), Box::from(*v))).collect();
    all.sort();
    all
}

fn selects(selector: &str, pairs: &[(&str, &str)]) -> bool {
    LabelSelector::parse(selector).unwrap().matches(&labels(pairs))
}

fn error(selector: &str) -> String {
    LabelSelector::parse(selector).unwrap_err().message().to_owned()
}

#[test]
fn operators_select_as_on_real_server() {
    let web = [("app", "web"), ("tier", "front"), ("n", "5")];
    for good in [
        "",
        "app",
        "app=web",
        "app==web",
        "app!=api",
        "app in (web,api)",
        "app notin (api)",
        "!gone",
        "gone!=x",
        "gone notin (x)",
        "app=web,tier=front",
        " app = web , !gone ",
        "n>4",
        "n<6",
        "app,tier",
    ] {
        assert!(selects(good, &web), "{good}");
    }
    for bad in [
        "gone",
        "app=api",
        "app!=web",
        "app in (api)",
        "app notin (web,api)",
        "!app",
        "n>5",
        "n<5",
        "gone in ()",
        "app=",
    ] {
        assert!(!selects(bad, &web), "{bad}");
    }
    assert!(selects("app=", &[("app", "")]));
    assert!(selects("app in (,x)", &[("app", "")]));
}

#[test]
fn malformed_requirements_are_rejected() {
    for malformed in
        ["a in", "==", "a=b=c", "Bad key=1", "a gt 1", "a,,b", "a,", "ain (b)", "a in (b", "!a=b"]
    {
        assert!(error(malformed).starts_with("unable to parse requirement: "), "{malformed}");
    }
    assert!(error("a>b").starts_with("unable to parse requirement: values[0]: Invalid value: \"b\": "));
    assert!(error("a>-1").starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-1\": "));
    assert!(error("a>-b").starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": "));
    assert!(error("a\u{a0}=b").starts_with("unable to parse requirement: <nil>: Invalid value: "));
    assert!(error("a/b/c=1").starts_with("unable to parse requirement: <nil>: Invalid value: \"a/b/c\""));
}

#[test]
fn parser_never_panics_on_random_input() {
    let mut rng = fastrand::Rng::with_seed(7);
    let alphabet: Vec<char> = "ab=!,()<> in notin/.-_é\\\"\u{0}1".chars().collect();
    for _ in 0..20_000 {
        let length = rng.usize(..24);
        let text: String = (0..length).map(|_| alphabet[rng.usize(..alphabet.len())]).collect();
        if let Ok(selector) = LabelSelector::parse(&text) {
            selector.matches(&labels(&[("a", "b")]));
        }
        let _ = FieldSelector::parse(&text, |_| Ok(0));
    }
}

#[test]
fn field_selectors_compare_values_by_index() {
    let place = |name: &str| match name {
        "metadata.name" => Ok(0),
        "spec.nodeName" => Ok(1),
        other => Err(Status::bad_request(format!("field label not supported: {other}"))),
    };
    let fields: Vec<Box<str>> = vec!["web-0".into(), "node=1".into()];
    let matches = |text: &str| FieldSelector::parse(text, place).unwrap().matches(&fields);
    assert!(matches("metadata.name=web-0"));
    assert!(matches("metadata.name==web-0,spec.nodeName!="));
    assert!(matches(r"spec.nodeName=node\=1"));
    assert!(!matches("metadata.name!=web-0"));
    let refused = FieldSelector::parse("bad", place).unwrap_err();
    assert_eq!(refused.message(), "invalid selector: 'bad'; can't understand 'bad'");
    assert_eq!(FieldSelector::parse("x=1", place).unwrap_err().message(), "field label not supported: x");
}
