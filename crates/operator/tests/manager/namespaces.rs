//! Tests of a manager that may read only some namespaces.

use std::sync::Mutex;

use kube_informer::Phase;
use serde_json::Value;

use super::{
    requests::{get, get_until},
    *,
};

/// Allows requests only in these namespaces, and reviews of the own permissions.
fn allow_namespaces(server: &Server, namespaces: &[&str]) {
    server.access().add_user("token", "somebody", &[]); // from here on, requests without a rule are forbidden
    server.access().add_rule(Rule::allow().namespaces(namespaces));
    server.access().add_rule(Rule::allow().resources(&["selfsubjectaccessreviews"]));
}

/// Creates namespaces with a ConfigMap `web` in each.
fn create_namespaces(server: &Server, names: &[&str]) {
    for name in names {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(&namespace).unwrap();
        let metadata = json!({"name": "web", "namespace": name});
        server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
}

/// One informer is from the factory of the manager, the other from another factory. The manager runs both.
#[tokio::test]
async fn controllers_of_two_namespaces_need_no_other_rules() {
    let address = Some(([127, 0, 0, 1], 0).into());
    let mut world = World::new(ManagerOptions { bind_address: address, ..ManagerOptions::default() });
    create_namespaces(&world.server, &["a", "b", "c"]);
    allow_namespaces(&world.server, &["a", "b"]);
    let selected = world.manager.factory().select::<ConfigMap>().namespace("a").informer().unwrap();
    let elsewhere =
        InformerFactory::new(world.client.clone()).namespace("b").informer::<ConfigMap>().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    for (namespace, maps) in [("a", &selected), ("b", &elsewhere)] {
        let ran = Arc::clone(&ran);
        let controller = Controller::new(maps).named(format!("web in {namespace}"));
        world.manager.add_controller(controller, move |request: Request<ConfigMap>| {
            ran.lock().unwrap().push(format!("{namespace}: {}", request.key));
            async { Ok::<_, Failure>(Action::Done) }
        });
    }
    let address = world.manager.local_address().unwrap();
    let (_, stop, running) = world.run();
    let both = |_, text: &str| {
        let counted = |name: &str| {
            let labels = format!(r#"{{controller="{name}",result="success"}} 1"#);
            text.contains(&format!("controller_runtime_reconcile_total{labels}"))
        };
        counted("web in a") && counted("web in b")
    };
    get_until(address, "/metrics", both).await;
    let (_, queues) = get(address, "/debug/queues").await;
    let queues: Value = serde_json::from_str(&queues).unwrap();
    let names: Vec<_> = queues.as_array().unwrap().iter().map(|queue| &queue["controller"]).collect();
    assert_eq!(names, ["web in a", "web in b"]);
    let (code, _) = get(address, "/debug/why/web%20in%20b/b/web").await;
    assert_eq!(code, 200, "a controller name may contain spaces");
    stop.cancel();
    running.await.unwrap().unwrap();
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, ["a: a/web", "b: b/web"]);
    for maps in [selected, elsewhere] {
        assert_eq!(
            maps.reflector_status().borrow().phase,
            Phase::Stopped,
            "informers of both factories stop"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn factory_of_one_namespace_limits_the_manager() {
    let server = Server::new();
    create_namespaces(&server, &["a", "b"]);
    allow_namespaces(&server, &["a"]);
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone()).namespace("a");
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let manager = Manager::with_factory(client.clone(), factory, options).unwrap();
    let mut world = World { server, client, manager, stop: CancellationToken::new() };
    let (ran, controller) = (Arc::new(Mutex::new(Vec::new())), world.controller());
    let keys = Arc::clone(&ran);
    world.manager.add_controller(controller, move |request: Request<ConfigMap>| {
        keys.lock().unwrap().push(request.key.to_string());
        async { Ok::<_, Failure>(Action::Done) }
    });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(*ran.lock().unwrap(), ["a/web"]);
}
