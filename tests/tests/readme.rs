//! The code of the README is this code: it is run here, and the page is held against it.

use std::time::Duration;

use embedded::Client;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Event, InformerFactory};

/// Stands in for `kube_client::Client`, so that the page's first line meets the embedded server.
mod embedded {
    use kube_informer_tests::guide::server_with_pods;

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

#[tokio::test]
async fn the_code_of_the_readme_works() {
    assert_eq!(the_page().await.unwrap(), 2);
}

#[test]
fn the_readme_shows_the_code_that_is_run_here() {
    let here = include_str!("readme.rs");
    let code =
        here.split("// README begins\n").nth(1).and_then(|rest| rest.split("    // README ends").next());
    let readme = include_str!("../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(shown.unwrap()), lines(code.unwrap()));
}
