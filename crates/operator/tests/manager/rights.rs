//! The roles of a manager contain the permissions of its caches, controllers and declared writes.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_informer::{CachedApi, InformerFactory};
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, Manager, ManagerOptions, RbacRoles, Request, RunsOn,
    ShardOptions, WriteKind, offline_client,
    webhook::{CaBundleTarget, SecretCertificate, WebhookCertificate, WebhookOptions, Webhooks},
};
use kube_testserver::Server;
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn options() -> ManagerOptions {
    ManagerOptions { bind_address: None, ..ManagerOptions::default() }
}

/// Returns the rules of a manager as lines: the namespace, and the rule as JSON.
fn rules(manager: &Manager) -> Vec<String> {
    let mut lines = Vec::new();
    for role in manager.rbac_roles("web").objects() {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().unwrap() {
            let text = |field: &str| {
                let texts: Vec<_> = rule[field].as_array().into_iter().flatten().collect();
                texts.iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(",")
            };
            let [group, resources, names, verbs] =
                ["apiGroups", "resources", "resourceNames", "verbs"].map(text);
            lines.push(format!("{namespace} {group}/{resources}[{names}] {verbs}"));
        }
    }
    lines
}

#[tokio::test]
async fn roles_contain_caches_writes_events_and_the_election() {
    let election = Some(ElectionOptions::new("ops", "web"));
    let mut manager = Manager::new(offline_client("ops"), ManagerOptions { election, ..options() }).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let one = manager.factory().select::<Secret>().namespace("shop").fields("metadata.name=key");
    let _one = one.informer().unwrap();
    manager.require_writes::<ConfigMap>(&[WriteKind::Apply, WriteKind::Finalizer, WriteKind::PatchStatus]);
    manager.require_writes::<Secret>(&[WriteKind::CreateOrUpdate, WriteKind::Delete]);
    manager.require_writes::<Namespace>(&[WriteKind::Create]);
    manager.require_permissions(&["get"], "apps", "deployments/scale", Some("shop"));
    manager.event_recorder("example.com/web").unwrap();
    let expected = [
        "* /configmaps[] create,get,list,patch,watch",
        "* /configmaps/status[] patch",
        "* /namespaces[] create",
        "* events.k8s.io/events[] create,patch",
        "ops coordination.k8s.io/leases[] create",
        "ops coordination.k8s.io/leases[web] get,list,update,watch",
        "shop /secrets[] create,delete,update",
        "shop /secrets[key] list,watch",
        "shop apps/deployments/scale[] get",
    ];
    assert_eq!(rules(&manager), expected);
    drop(maps);
}

#[tokio::test]
async fn roles_of_a_namespaced_program_contain_no_cluster_role() {
    let client = offline_client("ops");
    let factory = InformerFactory::new(client.clone()).namespace("shop");
    let mut manager = Manager::with_factory(client, factory, options()).unwrap();
    let _pods = manager.factory().informer::<Pod>().unwrap();
    manager.require_writes::<ConfigMap>(&[WriteKind::Apply]);
    manager.event_recorder("example.com/web").unwrap();
    assert_eq!(manager.rbac_roles("web").cluster_role, None);
    let expected = [
        "shop /configmaps[] create,patch",
        "shop /pods[] list,watch",
        "shop events.k8s.io/events[] create,patch",
    ];
    assert_eq!(rules(&manager), expected);
    let _nodes = manager.factory().informer::<Node>().unwrap();
    // The Events of Nodes are in the namespace `default`.
    let expected = [
        "* /configmaps[] create,patch",
        "* /nodes[] list,watch",
        "* events.k8s.io/events[] create,patch",
        "shop /pods[] list,watch",
    ];
    assert_eq!(rules(&manager), expected);
}

#[tokio::test]
async fn roles_contain_shards_webhooks_and_reads_of_unselected_objects() {
    let shards = Some(ShardOptions::new("ops", "web"));
    let election = Some(ElectionOptions::new("ops", "web-leader"));
    let client: Client = offline_client("ops");
    let options = ManagerOptions { shards, election, ..options() };
    let mut manager = Manager::new(client.clone(), options).unwrap();
    let maps = manager.factory().select::<ConfigMap>().labels("app=web").informer().unwrap();
    let api = CachedApi::new(Api::all(client), &maps);
    let controller = Controller::new(&api).reconcile_unselected(&api, "example.com/web").unwrap();
    manager.add_controller(controller, |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) });
    let targets =
        [CaBundleTarget::Crd("webs.example.com".to_owned()), CaBundleTarget::Validating("web".to_owned())];
    let certificate = SecretCertificate::new("ops", "web-certificate", "web", targets);
    let bind_address = ([127, 0, 0, 1], 0).into();
    let webhooks =
        WebhookOptions { bind_address, ..WebhookOptions::new(WebhookCertificate::Secret(certificate)) };
    manager.serve_webhooks(Webhooks::default(), webhooks).unwrap();
    let expected = [
        "* /configmaps[] get,list,watch",
        "* admissionregistration.k8s.io/validatingwebhookconfigurations[web] get,patch",
        "* apiextensions.k8s.io/customresourcedefinitions[webs.example.com] get,patch",
        "ops /secrets[] create",
        "ops /secrets[web-certificate] get,update",
        "ops coordination.k8s.io/leases[] create,delete,get,list,patch,watch",
        "ops coordination.k8s.io/leases[web-leader] update",
    ];
    assert_eq!(rules(&manager), expected);
}

#[tokio::test]
async fn check_lists_missing_and_superfluous_permissions() {
    let server = Server::builder().rbac(true).build();
    let token = server.access().service_account("ops", "web");
    let client = Client::new(server.service().with_token(&token), "ops");
    let election = Some(ElectionOptions::new("ops", "web"));
    let mut manager = Manager::new(client, ManagerOptions { election, ..options() }).unwrap();
    let _pods = manager.factory().informer::<Pod>().unwrap();
    manager.require_writes::<Pod>(&[WriteKind::Delete]);
    let roles = manager.rbac_roles("web").bind_to_service_account("ops", "web");
    let missing = manager.check_permissions().await.unwrap();
    assert_eq!((missing.missing.len(), missing.superfluous.len()), (8, 0), "{missing}");

    server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}})).unwrap();
    for mut object in roles.objects() {
        if object["kind"] == "ClusterRole" {
            let extra = json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["key"], "verbs": ["get"]},
                {"apiGroups": ["*"], "resources": ["nodes"], "verbs": ["get"]},
            ]);
            object["rules"] = extra;
        }
        server.create(&object).unwrap();
    }
    let diff = manager.check_permissions().await.unwrap();
    let expected = "missing: delete pods of API group \"\" in all namespaces\n\
                    superfluous: get secrets of API group \"\" named key in namespace ops\n\
                    superfluous: get nodes of API group \"*\" in namespace ops\n";
    assert_eq!(diff.to_string(), expected);

    let mut granted = roles.objects().swap_remove(0);
    granted["metadata"]["resourceVersion"] = server
        .get_untyped("rbac.authorization.k8s.io/v1", "ClusterRole", None, "web")
        .unwrap()["metadata"]["resourceVersion"]
        .clone();
    server.update(&granted).unwrap();
    let diff = manager.check_permissions().await.unwrap();
    assert!(diff.is_exact() && !diff.incomplete, "{diff}");
    assert_eq!(diff.to_string(), "the account has exactly the permissions that the program needs\n");
    let offline = Manager::new(offline_client("ops"), options()).unwrap().check_permissions().await;
    let error = offline.unwrap_err().to_string();
    assert!(error.starts_with("failed to list the permissions of the account in namespace ops: "), "{error}");
}

/// Runs a program that sends a request which it does not declare. Returns the rights that it lacked and that
/// it did not use.
async fn recorded(add: impl Fn(RbacRoles) -> RbacRoles, only_record: bool) -> (Vec<String>, Vec<String>) {
    let server = Server::builder().rbac(true).build();
    let token = server.access().service_account("default", "web");
    let client = Client::new(server.service().with_token(&token), "default");
    let mut manager = Manager::new(client.clone(), options()).unwrap();
    let pods = manager.factory().informer::<Pod>().unwrap();
    manager.require_writes::<Pod>(&[WriteKind::Delete]);
    manager.add_task("a task", RunsOn::EveryReplica, move |_| async move {
        let api = Api::<Secret>::default_namespaced(client);
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "key"}})).unwrap();
        let patch = Patch::Apply(&secret);
        let _denied = api.patch("key", &PatchParams::apply("web"), &patch).await;
        Ok(())
    });
    for object in add(manager.rbac_roles("web")).bind_to_service_account("default", "web").objects() {
        server.create(&object).unwrap();
    }
    server.access().enforce(!only_record);
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    drop(pods);
    let usage = server.access().usage("system:serviceaccount:default:web");
    let denied = usage.denied.iter().map(|(request, _)| request.to_string()).collect();
    (denied, usage.unused.iter().map(|unused| unused.right.to_string()).collect())
}

#[tokio::test(start_paused = true)]
async fn recorded_run_finds_undeclared_requests_and_unused_permissions() {
    let (denied, unused) = recorded(|roles| roles, true).await;
    let text = |verb: &str| format!("{verb} secrets \"key\" in namespace \"default\"");
    assert_eq!((denied, unused), (vec![text("create"), text("patch")], vec!["delete pods".to_owned()]));
    let add = |roles: RbacRoles| roles.with_permissions(&["create", "patch"], "", "secrets", Some("default"));
    let (denied, unused) = recorded(add, false).await;
    assert_eq!((denied, unused), (vec![], vec!["delete pods".to_owned()]));
    let (denied, _) = recorded(|roles| roles, false).await;
    assert_eq!(denied, [text("patch")], "the first denial hides the second one");
}
