//! The one table of commands that may answer differently, and why. A line here that no longer differs is an error.

/// Why a command differs, and the commands as they stand in the topics.
pub(crate) const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "some kinds are not served, as docs/testserver.md says",
        &["kubectl api-resources --no-headers", "kubectl api-versions"],
    ),
    (
        "specs of built-in kinds are not validated, as docs/testserver.md says",
        &[
            "sed 's/replicas: 2/replicas: -1/' objects/deployment.yaml | kubectl apply --server-side --validate=false -f -",
        ],
    ),
    (
        "fields of a patched object that is refused stand in another order",
        &[r#"kubectl patch configmap one --type=merge -p '{"data": {"k": 1}}'"#],
    ),
    (
        "tables are made by kubectl, as docs/testserver.md says",
        &["kubectl get configmap one", "kubectl get configmaps -o wide"],
    ),
    (
        "OpenAPI is not served, as docs/testserver.md says",
        &["kubectl explain configmap", "kubectl create -f objects/configmap.yaml --dry-run=server"],
    ),
];

/// The reason why `command` may differ.
pub(crate) fn reason(command: &str) -> Option<&'static str> {
    DIFFERENCES.iter().find(|(_, commands)| commands.contains(&command)).map(|(reason, _)| *reason)
}

#[test]
fn each_difference_is_of_a_command_that_runs() {
    let topics = crate::topic::read("topics").expect("the topics can be read");
    let all: Vec<&str> = topics.iter().flat_map(|topic| &topic.commands).map(String::as_str).collect();
    for command in DIFFERENCES.iter().flat_map(|(_, commands)| *commands) {
        assert!(all.contains(command), "no topic holds {command}");
    }
}
