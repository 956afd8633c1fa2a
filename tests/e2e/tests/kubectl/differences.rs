//! The table of commands with different results, and the reasons. A listed command without a difference
//! is an error.

/// The reasons of differences, with the commands as written in the topics.
pub(crate) const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "some kinds are not served, see docs/testserver-reference.md",
        &["kubectl api-resources --no-headers", "kubectl api-versions"],
    ),
    (
        "logs and tokens of service accounts are not supported, see docs/testserver.md",
        &[
            "kubectl logs loose",
            "kubectl create token robot --duration=10m | wc -l",
            "kubectl create token absent",
        ],
    ),
    (
        "the message about a malformed selector has another text, see docs/testserver-reference.md",
        &["kubectl get cm -l 'app in' -o name"],
    ),
    (
        "the message about a rejected patch contains another text, see docs/testserver-reference.md",
        &[
            r#"kubectl patch configmap one --type=merge -p '{"data": {"k": 1}}'"#,
            "sed 's/replicas: 2/replica: 2/' objects/deployment.yaml | kubectl apply -f -",
        ],
    ),
    (
        "the message about a value of a wrong type contains another path, see docs/testserver-reference.md",
        &[
            r#"kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"k": 1}}'"#,
            r#"kubectl create -f - <<< '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "bad"}, "spec": {"egress": [{"ports": [{"port": true}]}]}}]}'"#,
        ],
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
