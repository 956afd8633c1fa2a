//! Access reviews, and the roles that grant missing permissions.

use super::*;

const GROUP: &str = "rbac.authorization.k8s.io";

impl World {
    /// Grants an account of the namespace shop verbs for resources of the core group.
    fn grant(&self, subject: &Value, verbs: &[&str], resources: &[&str]) -> Result<()> {
        let metadata = json!({"name": "granted", "namespace": "shop"});
        self.apply(&json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
        }))?;
        self.apply(&json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "granted"}, "subjects": [subject],
        }))
    }
}

fn service_account() -> Value {
    json!({"kind": "ServiceAccount", "name": "operator", "namespace": "shop"})
}

fn user() -> Value {
    json!({"apiGroup": GROUP, "kind": "User", "name": "ann"})
}

const OPERATOR: [&str; 4] = ["-n", "shop", "--service-account", "shop/operator"];

#[tokio::test]
async fn permitted_service_account_is_green() -> Result<()> {
    let world = World::start().await?;
    world.grant(&service_account(), &["list", "watch"], &["configmaps"])?;
    let report = world.check(&[&OPERATOR[..], &["cm"]].concat()).await?;
    report.expect(
        "permissions",
        "green",
        "system:serviceaccount:shop:operator may list and watch configmaps",
    );
    assert_eq!(report.document["verdict"], "green", "{}", report.document);
    assert!(report.document["roles"].is_null());
    Ok(())
}

#[tokio::test]
async fn missing_rule_is_red_and_printed_role_grants_it() -> Result<()> {
    let world = World::start().await?;
    world.grant(&service_account(), &["get", "list"], &["configmaps"])?;
    let arguments = [&OPERATOR[..], &["configmaps", "deployments"]].concat();
    let report = world.check(&arguments).await?;
    report.expect("permissions", "red", "may not list and watch deployments.apps in the namespace shop");
    for role in report.document["roles"]["items"].as_array().into_iter().flatten() {
        world.apply(role)?;
    }
    let report = world.check(&arguments).await?;
    report.expect("permissions", "green", "configmaps, deployments.apps");
    Ok(())
}

#[tokio::test]
async fn printed_yaml_contains_role_and_binding() -> Result<()> {
    let world = World::start().await?;
    let arguments = [&["check", "--wait", "1s"], &OPERATOR[..], &["secrets"]].concat();
    let run = run(Some(world.kubeconfig.path()), &arguments).await?;
    let (_, yaml) = run.out.split_once("use -o jsonpath='{.roles}'\n").unwrap_or_default();
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("Role"), Some("RoleBinding")], "{run:?}");
    assert_eq!(run.code, 3);
    Ok(())
}

#[tokio::test]
async fn all_namespaces_need_cluster_role_of_user() -> Result<()> {
    let world = World::start().await?;
    world.grant(&user(), &["list", "watch"], &["configmaps"])?;
    let report = world.check(&["--as", "ann", "-A", "configmaps"]).await?;
    report.expect("permissions", "red", "ann may not list and watch configmaps in all namespaces");
    report.expect("lists", "amber", "cannot list configmaps in all namespaces: 403");
    report.expect("measurements", "amber", "not measured");
    let items = report.document["roles"]["items"].as_array().into_iter().flatten();
    let kinds: Vec<_> =
        items.map(|item| (item["kind"].as_str(), item["subjects"][0]["name"].as_str())).collect();
    assert_eq!(kinds, [(Some("ClusterRole"), None), (Some("ClusterRoleBinding"), Some("ann"))]);
    Ok(())
}

#[tokio::test]
async fn watch_without_list_is_amber() -> Result<()> {
    let world = World::start().await?;
    world.grant(&user(), &["watch"], &["configmaps"])?;
    let report = world.check(&["--as", "ann", "-n", "shop", "configmaps"]).await?;
    report.expect("permissions", "amber", "ann may not list configmaps");
    Ok(())
}

#[tokio::test]
async fn named_object_is_reviewed_by_its_name() -> Result<()> {
    let world = World::start().await?;
    let metadata = json!({"name": "one", "namespace": "shop"});
    world.apply(&json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["map-1"], "verbs": ["list", "watch"],
        }],
    }))?;
    world.apply(&json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "one"}, "subjects": [user()],
    }))?;
    let arguments = ["--as", "ann", "-n", "shop", "configmaps", "--field-selector"];
    let report = world.check(&[&arguments[..], &["metadata.name=map-1"]].concat()).await?;
    report.expect("permissions", "green", "configmaps");
    report.expect("lists", "green", "1 of 1");
    let report = world.check(&[&arguments[..], &["metadata.name=map-2"]].concat()).await?;
    report.expect("permissions", "red", "configmaps");
    Ok(())
}

#[tokio::test]
async fn missing_permissions_of_all_resources_are_summarised() -> Result<()> {
    let world = World::start().await?;
    world.grant(&user(), &["list", "watch"], &["configmaps"])?;
    let report = world.check(&["--as", "ann", "-n", "shop"]).await?;
    report.expect("permissions", "amber", "may not list and watch endpoints");
    assert_eq!(report.document["verdict"], "amber", "{}", report.document);
    Ok(())
}

#[tokio::test]
async fn rejected_reviews_and_discovery_are_results() -> Result<()> {
    let world = World::start().await?;
    let report = world.check(&["--as", "system:anonymous", "pods", "deployments.v1.apps"]).await?;
    report.expect("API groups", "red", "forbidden");
    report.expect("permissions", "amber", "the permissions of the current user for 2 resources are unknown");
    report.expect("lists", "amber", "403");
    let report = world.check(&[&["--as", "ann"], &OPERATOR[..], &["pods"]].concat()).await?;
    report.expect("permissions", "red", "cannot create resource \"subjectaccessreviews\"");
    Ok(())
}
