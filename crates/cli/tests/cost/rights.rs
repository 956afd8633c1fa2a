//! Resources that a user may not read, and the rights of workloads.

use kube_testserver::Rights;
use serde_json::{Value, json};

use crate::program::{Cluster, row, server};

const RBAC: &str = "rbac.authorization.k8s.io";

fn cluster_role(name: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
    })
}

fn cluster_binding(role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    })
}

#[tokio::test]
async fn forbidden_resource_is_one_row_with_its_reason() {
    let server = server().user("reader", "reader", Rights::None).build();
    server.create(&cluster_role("reader", &["configmaps", "services"], &["list", "watch"])).unwrap();
    let reader = json!({"kind": "User", "apiGroup": RBAC, "name": "reader"});
    server.create(&cluster_binding("reader", &reader)).unwrap();
    let cluster = Cluster::serve(server).await;
    let report = cluster.report(&["configmaps,secrets,services", "--as", "reader"]).await;
    assert_eq!(report["failures"], json!([{"resource": "secrets", "reason": "forbidden (403)"}]));
    assert_eq!(report["resources"].as_array().map(Vec::len), Some(2));
    let output = cluster.cost(&["secrets", "--as", "reader"]).await;
    assert_eq!(output.status.code(), Some(1), "no resource was counted: {output:?}");
}

#[tokio::test]
async fn rights_of_workload_include_groups_and_aggregated_roles() {
    let server = server().build();
    server
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}}), "test")
        .unwrap();
    let mut part = cluster_role("part", &["nodes"], &["list", "watch"]);
    part["metadata"]["labels"] = json!({"aggregate": "yes"});
    server.create(&part).unwrap();
    let mut whole = cluster_role("whole", &["secrets"], &["get"]);
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"aggregate": "yes"}}]});
    server.create(&whole).unwrap();
    let account = json!({"kind": "ServiceAccount", "name": "runner", "namespace": "ops"});
    server.create(&cluster_binding("whole", &account)).unwrap();
    server.create(&cluster_role("everyone", &["namespaces"], &["*"])).unwrap();
    let group = json!({"kind": "Group", "apiGroup": RBAC, "name": "system:serviceaccounts:ops"});
    server.create(&cluster_binding("everyone", &group)).unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"serviceAccountName": "runner", "containers": [{"name": "c", "image": "i"}]},
    });
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "runner", "namespace": "ops"},
        "spec": {"replicas": 3, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}}, "template": template},
    });
    server.create(&workload).unwrap();
    let cluster = Cluster::serve(server).await;
    let report = cluster.report(&["--of-workload", "sts/runner", "-n", "ops"]).await;
    assert_eq!(report["resources"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(row(&report, "namespaces")["objects"].as_u64() >= Some(1));
    assert_eq!(row(&report, "nodes")["objects"], 0);
    assert_eq!(report["restart"]["replicas"], 3);
}

#[tokio::test]
async fn role_binding_without_namespace_of_account_is_counted() {
    let server = server().build();
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "own", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
    });
    // The namespace of the account is optional in a role binding.
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "own", "namespace": "default"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "own"},
        "subjects": [{"kind": "ServiceAccount", "name": "runner"}],
    });
    let deployment = |name: &str, account: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
            }},
        })
    };
    for object in [role, binding, deployment("runner", "runner"), deployment("idle", "idle")] {
        server.create(&object).unwrap();
    }
    let cluster = Cluster::serve(server).await;
    let report = cluster.report(&["--of-workload", "deployment.apps/runner", "-n", "default"]).await;
    assert_eq!(report["resources"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["resources"][0]["namespace"], "default");
    let output = cluster.cost(&["--of-workload", "deploy/idle", "-n", "default"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("The account default/idle may not list and watch any resource."), "{text}");
}
