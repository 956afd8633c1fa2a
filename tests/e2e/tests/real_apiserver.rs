//! Checks the harness of the real API server. All checks use the same server, in this order.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube_client::api::{ListParams, PostParams, VersionMatch};
use kube_client::{Api, Client, Error, ResourceExt as _};
use kube_informer::InformerFactory;
use kube_informer_e2e::real::{Options, READY_DEADLINE, RealServer};
use kube_operator::{EventRecorder, EventType};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Runs checks by name, prints how each went, and counts the failures.
macro_rules! checks {
    ($server:expr, $($check:ident),+ $(,)?) => {{
        let mut failures = 0;
        $(
            let outcome = $check($server).await;
            failures += usize::from(report(stringify!($check), &outcome)?);
        )+
        failures
    }};
}

#[tokio::test]
async fn harness_of_real_server_passes_its_checks() -> Result<()> {
    let Some(mut server) = RealServer::start_or_skip("real_apiserver", 12, Options::default()).await? else {
        return Ok(());
    };
    let mut failures = checks!(
        &server,
        started_server_is_ready,
        the_administrator_lists_namespaces,
        list_without_permission_is_forbidden,
        kubectl_answers,
        events_of_recorder_are_accepted,
        cache_contains_writes_of_other_clients,
    );
    if server.is_own() {
        failures += checks!(
            &mut server,
            controllers_roll_out_a_deployment,
            apiserver_restart_keeps_data_and_clients,
            etcd_restarts_under_a_running_apiserver,
            a_server_without_watch_list_refuses_initial_events,
            list_of_sharding_server_contains_its_shard,
            compaction_expires_exact_list_without_watch_cache,
        );
    }
    server.stop().await?;
    ensure!(failures == 0, "{failures} checks failed");
    Ok(())
}

fn report(name: &str, outcome: &Result<()>) -> Result<bool> {
    let text = match outcome {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("FAILED: {error:#}"),
    };
    writeln!(std::io::stderr(), "check {name} ... {text}")?;
    Ok(outcome.is_err())
}

async fn started_server_is_ready(server: &RealServer) -> Result<()> {
    let client = server.client().await?;
    let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
    ensure!(answer == "ok", "{answer}");
    let version = client.apiserver_version().await?;
    ensure!(version.git_version.starts_with("v1."), "{}", version.git_version);
    Ok(())
}

async fn the_administrator_lists_namespaces(server: &RealServer) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(server.client().await?);
    let listed = namespaces.list(&ListParams::default()).await?;
    ensure!(
        listed.iter().any(|namespace| namespace.name_any() == "default"),
        "{} listed",
        listed.items.len()
    );
    Ok(())
}

async fn list_without_permission_is_forbidden(server: &RealServer) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(server.client_as_nobody().await?);
    match namespaces.list(&ListParams::default()).await {
        // A cluster that rejects anonymous users responds with 401.
        Err(Error::Api(status)) if status.is_forbidden() || (!server.is_own() && status.code == 401) => {
            Ok(())
        }
        other => bail!("{:?}", other.map(|listed| listed.items.len())),
    }
}

async fn kubectl_answers(server: &RealServer) -> Result<()> {
    let names = server.kubectl(&["get", "namespaces", "--output=name"]).await?;
    ensure!(names.lines().any(|line| line == "namespace/default"), "{names}");
    let error =
        server.kubectl(&["get", "configmaps", "absent"]).await.err().context("kubectl did not fail")?;
    ensure!(error.to_string().contains("NotFound"), "{error}");
    Ok(())
}

/// Writes an event, a series, and a new event after a deletion, with texts of the maximum length.
async fn events_of_recorder_are_accepted(server: &RealServer) -> Result<()> {
    let client = server.client().await?;
    let stop = CancellationToken::new();
    let (recorder, writer) =
        EventRecorder::new(client.clone(), "example.com/tests", "i".repeat(128), stop.clone())?;
    let writing = tokio::spawn(writer);
    let about = Api::<Namespace>::all(client.clone()).get("default").await?;
    let report = || {
        recorder.event(&about, EventType::Warning, &"R".repeat(200), &"A".repeat(200), "€".repeat(1000));
    };
    let written = || eventually("the event", async || Ok(recorder.status().waiting == 0));
    report();
    written().await?;
    report();
    written().await?;
    let events: Api<Event> = Api::default_namespaced(client);
    let params = ListParams::default().fields("reportingController=example.com/tests");
    let first = events.list(&params).await?.items.pop().context("no event")?;
    ensure!(first.series.as_ref().is_some_and(|series| series.count == 2), "{:?}", first.series);
    events.delete(&first.name_any(), &Default::default()).await?;
    report();
    stop.cancel();
    writing.await?;
    let recreated = events.list(&params).await?.items.pop().context("no event")?;
    ensure!(recreated.series.as_ref().is_some_and(|series| series.count == 3), "{:?}", recreated.series);
    ensure!(
        recreated.name_any() == first.name_any() && recreated.uid() != first.uid(),
        "{}",
        recreated.name_any()
    );
    ensure!(recorder.status().sent == 3, "{recorder:?}");
    events.delete(&recreated.name_any(), &Default::default()).await?;
    Ok(())
}

/// The first cache lacks writes to its own type. The type of the second cache does not change, and its
/// selector selects no object.
async fn cache_contains_writes_of_other_clients(server: &RealServer) -> Result<()> {
    let client = server.client().await?;
    let factory = InformerFactory::new(client.clone()).namespace("default");
    let maps = factory.informer::<ConfigMap>()?;
    let quiet = factory.select::<ReplicaSet>().labels("selects=nothing").informer()?;
    factory.start();
    factory.wait_for_sync(READY_DEADLINE).await?;
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    for round in 0..3 {
        let name = format!("other-client-{round}");
        configs.create(&PostParams::default(), &config_map(&name)).await?;
        maps.wait_for_latest(READY_DEADLINE).await?;
        ensure!(maps.lister().namespace("default").get(&name).is_some(), "{name} is not cached");
        let began = Instant::now();
        quiet.wait_for_latest(READY_DEADLINE).await?;
        ensure!(began.elapsed() < Duration::from_secs(8), "took {:?}", began.elapsed());
        configs.delete(&name, &Default::default()).await?;
        maps.wait_for_latest(READY_DEADLINE).await?;
        ensure!(maps.lister().namespace("default").get(&name).is_none(), "{name} is still cached");
    }
    factory.shutdown().await;
    Ok(())
}

async fn controllers_roll_out_a_deployment(server: &mut RealServer) -> Result<()> {
    server.start_controllers().await?;
    let client = server.client().await?;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &deployment()?).await?;

    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let params = ListParams::default().labels("app=web");
    eventually("a ReplicaSet and two Pods", async || {
        let (sets, pods) = (sets.list(&params).await?, pods.list(&params).await?);
        Ok(sets.items.len() == 1 && pods.items.len() == 2)
    })
    .await
}

fn deployment() -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    }))?)
}

async fn apiserver_restart_keeps_data_and_clients(server: &mut RealServer) -> Result<()> {
    let configs: Api<ConfigMap> = Api::default_namespaced(server.client().await?);
    let before = configs.create(&PostParams::default(), &config_map("kept")).await?;
    server.stop_apiserver().await?;
    ensure!(configs.get("kept").await.is_err(), "a stopped apiserver responded");
    server.start_apiserver().await?;
    server.kill_apiserver().await?;
    server.start_apiserver().await?;
    let after = configs.get("kept").await?;
    ensure!(before.uid() == after.uid(), "{:?} became {:?}", before.uid(), after.uid());
    ensure!(before.resource_version() == after.resource_version(), "the version changed");
    Ok(())
}

async fn etcd_restarts_under_a_running_apiserver(server: &mut RealServer) -> Result<()> {
    let configs: Api<ConfigMap> = Api::default_namespaced(server.client().await?);
    server.stop_etcd().await?;
    server.start_etcd().await?;
    eventually("a write", async || {
        let created = configs.create(&PostParams::default(), &config_map("after-etcd")).await;
        Ok(matches!(&created, Err(Error::Api(status)) if status.is_already_exists()) || created.is_ok())
    })
    .await?;
    ensure!(configs.get("kept").await.is_ok(), "the data is lost");
    Ok(())
}

async fn a_server_without_watch_list_refuses_initial_events(server: &mut RealServer) -> Result<()> {
    server.restart_apiserver_with(&["--feature-gates=WatchList=false"]).await?;
    let path = "/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let request = http::Request::get(path).body(Vec::new())?;
    match server.client().await?.request_text(request).await {
        Err(Error::Api(status)) if status.code == 422 => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn list_of_sharding_server_contains_its_shard(server: &mut RealServer) -> Result<()> {
    server.restart_apiserver_with(&["--feature-gates=ShardedListAndWatch=true"]).await?;
    let half = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
    let request = http::Request::get(format!("/api/v1/configmaps?shardSelector={half}")).body(Vec::new())?;
    let list: serde_json::Value = server.client().await?.request(request).await?;
    let selector = list["metadata"]["shardInfo"]["selector"].as_str().context("no shardInfo")?;
    ensure!(selector.starts_with("shardRange(object.metadata.uid"), "{selector}");
    Ok(())
}

async fn compaction_expires_exact_list_without_watch_cache(server: &mut RealServer) -> Result<()> {
    server.restart_apiserver_with(&["--watch-cache=false"]).await?;
    let client = server.client().await?;
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let old = configs.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
    configs.create(&PostParams::default(), &config_map("newer")).await?;
    ensure!(exact_list_code(&client, &old).await?.is_none(), "expired before the compaction");
    server.compact().await?;
    ensure!(exact_list_code(&client, &old).await? == Some(410), "not expired");
    Ok(())
}

/// The error's code, or None where the list of that version succeeds.
async fn exact_list_code(client: &Client, version: &str) -> Result<Option<u16>> {
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    match configs.list(&ListParams::default().at(version).matching(VersionMatch::Exact)).await {
        Ok(_) => Ok(None),
        Err(Error::Api(status)) => Ok(Some(status.code)),
        Err(error) => Err(error.into()),
    }
}

fn config_map(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config
}

/// Repeats the request until it returns true.
async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + READY_DEADLINE;
    while !ask().await? {
        ensure!(Instant::now() < deadline, "{what} did not happen within {READY_DEADLINE:?}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
