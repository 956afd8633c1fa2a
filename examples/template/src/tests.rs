//! Tests without a cluster: the API server runs within the process, and the clock of tokio is paused.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResourceExt};
use kube_operator::{ElectionOptions, ManagerOptions, offline_client};
use kube_testserver::Server;
use tokio_util::sync::CancellationToken;

use crate::{
    NAME,
    config::Config,
    operator::operator,
    page::{Page, PageSpec},
};

const LIMIT: Duration = Duration::from_secs(60);

fn options(namespace: &str) -> ManagerOptions {
    let election = Some(ElectionOptions::new(namespace, NAME));
    ManagerOptions { election, bind_address: None, ..ManagerOptions::default() }
}

/// The operator has only the permissions of its roles.
#[tokio::test(start_paused = true)]
async fn config_map_is_created_repaired_and_deleted_with_its_page() -> anyhow::Result<()> {
    let server = Server::builder().garbage_collector(true).rbac(true).build();
    server.install::<Page>()?;
    let token = server.access().service_account("default", NAME);
    let client = Client::new(server.service().with_token(&token), "default");
    let manager = operator(client, options("default"), &Config::default())?;
    for object in manager.rbac_roles(NAME).bind_to_service_account("default", NAME).objects() {
        server.create(&object)?;
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));

    let shows = |map: Option<&ConfigMap>, text: &str| {
        map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["index.html"] == text)
    };
    let mut page = Page::new("home", PageSpec { text: "hello".to_owned() });
    page.metadata.namespace = Some("default".to_owned());
    server.create(&page)?;
    server.until(None, "home", LIMIT, |map| shows(map, "hello")).await?;
    server.delete::<ConfigMap>(None, "home")?;
    server.until(None, "home", LIMIT, |map| shows(map, "hello")).await?;
    server.delete::<Page>(None, "home")?;
    server.until(None, "home", LIMIT, |map: Option<&ConfigMap>| map.is_none()).await?;

    stop.cancel();
    running.await??;
    let usage = server.access().usage(&format!("system:serviceaccount:default:{NAME}"));
    assert!(usage.denied.is_empty(), "{usage}");
    Ok(())
}

/// The manifests are what the commands `crd` and `rbac` print.
#[tokio::test]
async fn manifests_are_up_to_date() -> anyhow::Result<()> {
    let manager = operator(offline_client(NAME), options(NAME), &Config::default())?;
    for (file, command, expected) in [
        ("crd.yaml", "crd", serde_saphyr::to_string(&Page::crd())?),
        ("rbac.yaml", "rbac", manager.rbac_roles(NAME).bind_to_service_account(NAME, NAME).to_string()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/base").join(file);
        let text = fs::read_to_string(&path)?;
        assert!(text == expected, "run `cargo run -- {command} > kustomize/base/{file}`");
    }
    Ok(())
}

#[tokio::test]
async fn operator_of_one_namespace_needs_no_cluster_role() -> anyhow::Result<()> {
    let config = Config { watch_namespace: Some("shop".to_owned()), ..Config::default() };
    let roles = operator(offline_client(NAME), options(NAME), &config)?.rbac_roles(NAME);
    assert_eq!((roles.cluster_role, roles.roles.len()), (None, 2));
    Ok(())
}

#[test]
fn config_of_the_manifests_is_valid_and_unknown_field_is_an_error() -> anyhow::Result<()> {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/base");
    assert_eq!(Config::read(&base.join("config.yaml"))?, Config::default());
    let error = format!("{:#}", Config::read(&base.join("kustomization.yaml")).unwrap_err());
    assert!(error.contains("kustomization.yaml is not a valid configuration"), "{error}");
    Ok(())
}
