//! The page about the test server lists the features that the server does not implement.

use kube_testserver::unsupported_features;

#[test]
fn page_lists_each_unsupported_feature() {
    let page = include_str!("../../../../docs/testserver.md");
    let (_, section) = page.split_once("\n## Unsupported features\n").expect("the section");
    let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let rows = unsupported_features().iter().map(|feature| {
        let strict = if feature.is_rejected() { "rejected" } else { "logged" };
        format!("| {} | {strict} | {} |", feature.name(), feature.effect())
    });
    assert_eq!(listed, rows.collect::<Vec<_>>());
}
