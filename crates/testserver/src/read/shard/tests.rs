//! Compares shard selectors with records of kube-apiserver 1.36 with the feature gate ShardedListAndWatch.

use super::*;

const LOW: &str = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid, \"0x8000000000000000\", '0x10000000000000000')";

#[test]
fn selector_is_formatted_canonically() {
    let low = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    let high = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";
    for (text, shown) in [
        (LOW.to_owned(), low.to_owned()),
        (format!("({LOW})"), low.to_owned()),
        (format!("{HIGH}||{LOW}"), format!("{high} || {low}")),
        (format!("({LOW} || {LOW}) || {HIGH}"), format!("{low} || {low} || {high}")),
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
fn invalid_shard_selectors_are_rejected() {
    let of = |start: &str, end: &str| format!("shardRange(object.metadata.uid,{start},{end})");
    let max = "'0xffffffffffffffff'";
    for text in [
        " ".to_owned(),
        "x".into(),
        format!("{LOW} && {HIGH}"),
        "shardRange()".into(),
        "shardRange(object.metadata.name,'','')".into(),
        of("'0x0'", max),
        of("'0xg'", max),
        of("'0x0000000000000000'", "'0x10000000000000001'"),
        of("'0x8000000000000000'", "'0x8000000000000000'"),
        format!("{LOW} || {}", LOW.replace("uid", "namespace")),
        LOW.trim_end_matches(')').into(),
        "\u{e9}".into(),
        "(".repeat(100_000),
    ] {
        let status = ShardSelector::parse(&text).unwrap_err();
        assert_eq!((status.code(), status.reason()), (500, ""), "{text}");
        assert!(status.message().starts_with("invalid shard selector: "));
    }
}
