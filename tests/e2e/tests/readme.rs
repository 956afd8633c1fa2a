//! The code of the README is this code: it is run here, and the page is held against it.

use std::time::Duration;

use embedded::{Client, ManagerOptions, shutdown_signal};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube_informer::{Event, InformerFactory};
use kube_operator::{Action, Controller, Failure, Manager, Request};

/// Stands in for what reaches out: the page's first lines meet the embedded server, and no port is taken.
mod embedded {
    use kube_informer_e2e::pages::guide::server_with_pods;

    pub(crate) struct ManagerOptions;

    impl ManagerOptions {
        pub(crate) fn default() -> kube_operator::ManagerOptions {
            kube_operator::ManagerOptions { bind_address: None, ..kube_operator::ManagerOptions::default() }
        }
    }

    /// At once.
    pub(crate) async fn shutdown_signal() {}

    pub(crate) struct Client;

    impl Client {
        pub(crate) async fn try_default() -> anyhow::Result<kube_client::Client> {
            Ok(kube_client::Client::new(server_with_pods().service(), "default"))
        }
    }
}

#[rustfmt::skip]
async fn the_page() -> anyhow::Result<usize> {
    // README begins
    let factory = InformerFactory::new(Client::try_default().await?).namespace("shop");
    let pods = factory.informer::<Pod>()?;                          // the same type again is the same informer
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    pods.on(|event| match event {                                   // or an EventHandler, or pods.events() as a Stream
        Event::Added { object, .. } => println!("ADDED : {}", object.key()),
        Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
        Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
    });
    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;          // an error names each informer and its last failure
    let web = pods.lister().namespace("shop").get("web-0");         // no I/O, no await
    let neighbours = by_node.get("node-1");
    factory.shutdown().await;                                       // no task is left
    // README ends
    assert!(web.is_some());
    Ok(neighbours.len())
}

async fn reconcile(_: Request<Deployment>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[rustfmt::skip]
async fn the_operator() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    // README begins
    let mut manager = Manager::new(client, ManagerOptions::default())?;
    let deployments = manager.factory().informer::<Deployment>()?;
    let pods = manager.factory().informer::<Pod>()?;
    manager.add_controller(Controller::new(&deployments).owns(&pods), reconcile);
    manager.run(shutdown_signal()).await?;                          // until SIGTERM
    // README ends
    Ok(())
}

#[tokio::test]
async fn the_code_of_the_readme_works() {
    assert_eq!(the_page().await.unwrap(), 2);
    the_operator().await.unwrap();
}

#[test]
fn the_readme_shows_the_code_that_is_run_here() {
    let here = include_str!("readme.rs");
    let readme = include_str!("../../../README.md");
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    for block in 1..=2 {
        let code = here
            .split("// README begins\n")
            .nth(block)
            .and_then(|rest| rest.split("    // README ends").next());
        let shown = readme.split("```rust\n").nth(block).and_then(|rest| rest.split("```").next());
        assert_eq!(lines(shown.unwrap()), lines(code.unwrap()));
    }
}
