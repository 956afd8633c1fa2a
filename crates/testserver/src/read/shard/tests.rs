//! Compares shard selectors with records of kube-apiserver 1.36 with the feature gate ShardedListAndWatch.

use super::*;

const LOW: &str = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, \"0x8000000000000000\", '0x10000000000000000')";

fn refused(text: &str) -> String {
    let status = ShardSelector::parse(text).unwrap_err();
    assert_eq!((status.code(), status.reason()), (500, ""), "{text}");
    status.message().strip_prefix("invalid shard selector: ").unwrap().to_owned()
}

#[test]
fn selector_is_formatted_canonically() {
    let low = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    let high = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";
    for (text, shown) in [
        (LOW.to_owned(), low.to_owned()),
        (format!("({LOW})"), low.to_owned()),
        (format!("{HIGH}||{LOW}"), format!("{high} || {low}")),
        (format!("({LOW} || {LOW}) || {HIGH}"), format!("{low} || {low} || {high}")),
        (format!("object.{LOW} // half"), low.to_owned()),
    ] {
        assert_eq!(ShardSelector::parse(&text).unwrap().to_string(), shown);
    }
}

#[test]
fn hashes_equal_real_server() {
    // The real server put two of these objects into the lower half and two into the upper half.
    let low = ShardSelector::parse(LOW).unwrap();
    let is_low = |uid: &str| low.holds(uid);
    assert!(is_low("88e8267c-6ac1-49f9-9651-417a7d0de93e") && is_low("46316c07-67eb-4f6a-9cbd-d34b7c6372fc"));
    assert!(
        !is_low("3f0517bb-f1c1-4e64-b95f-46c239ed6dfc") && !is_low("ffca53a9-cc0f-4c87-a4ac-3730de9b5657")
    );
    assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
}

#[test]
fn range_includes_start_and_excludes_end() {
    let hash = fnv1a("uid");
    let range = |start: u64, end: u64| {
        let text = format!("shardRange(object.metadata.uid,'0x{start:016x}','0x{end:016x}')");
        ShardSelector::parse(&text).unwrap().holds("uid")
    };
    assert!(range(hash, hash + 1) && !range(hash - 1, hash) && !range(hash + 1, hash + 2));
}

#[test]
fn shard_selector_errors_equal_real_server() {
    let of = |start: &str, end: &str| format!("shardRange(object.metadata.uid,{start},{end})");
    let max = "'0xffffffffffffffff'";
    for (text, detail) in [
        (" ".to_owned(), "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("x".into(), "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("true".into(), "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("[1]".into(), "unexpected expression kind 4; expected shardRange() call or || operator"),
        ("a.b".into(), "unexpected expression kind 7; expected shardRange() call or || operator"),
        (format!("{LOW} && {HIGH}"), "unsupported function \"_&&_\"; only shardRange() and || are allowed"),
        (format!("!{LOW}"), "unsupported function \"!_\"; only shardRange() and || are allowed"),
        ("x ? y : z".into(), "unsupported function \"_?_:_\"; only shardRange() and || are allowed"),
        ("shardrange()".into(), "unsupported function \"shardrange\"; only shardRange() and || are allowed"),
        ("shardRange()".into(), "shardRange() requires exactly 3 arguments, got 0"),
        (
            "shardRange('uid','','')".into(),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        ),
        (
            "shardRange(a().b,'','')".into(),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1",
        ),
        (
            "shardRange(object.metadata.name,'','')".into(),
            "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            of("'0x0'", max),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        ),
        (of("''", max), "hexStart must have '0x' prefix, got \"\""),
        (of("0", max), "hexStart must be a string literal, got int64"),
        (of("null", max), "hexStart must be a string literal, got structpb.NullValue"),
        (of("a", max), "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
        (of("'0xg'", max), "hexStart: invalid hex character \"g\" in \"0xg\""),
        (
            of("'0x0000000000000000'", "'0x10000000000000001'"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\"",
        ),
        (
            of("'0x000000000000000000'", max),
            "hexStart: hex value too long (18 chars, max 17): \"000000000000000000\"",
        ),
        (
            of("'0x8000000000000000'", "'0x8000000000000000'"),
            "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
        ),
        (
            format!("{LOW} || {}", LOW.replace("uid", "namespace")),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
        (format!("{LOW},{LOW}"), "CEL parse error: Syntax error: mismatched input ',' expecting <EOF>"),
        (format!("{LOW}|{LOW}"), "CEL parse error: Syntax error: token recognition error at: '|s'"),
        (LOW.trim_end_matches(')').into(), "CEL parse error: Syntax error: missing ')' at '<EOF>'"),
    ] {
        assert_eq!(refused(&text), detail, "{text}");
    }
}

#[test]
fn malformed_expressions_are_rejected_without_panic() {
    for text in
        ["(", "((((", "'", "r'", "a.", "a.(", "||", "\u{e9}", "a[", "f(,", "?", "x ?", "/", "a(b).c(d"]
    {
        assert!(refused(text).contains("error"), "{text}");
    }
    assert!(refused(&"(".repeat(100_000)).contains("recursion limit"));
}
