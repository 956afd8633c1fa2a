//! A small comparison: records Pods of kube-testserver, replays them, and runs each program of this
//! workspace. Times are not checked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube_bench::{
    Case, EventPathSettings, Family, Load, Paths, Recording, Replay, ScaleSettings, Settings, StoreNumbers,
    compare, compare_stores, event_path, record, scale,
};
use kube_client::api::{ListParams, WatchEvent, WatchParams};
use kube_client::{Api, Client, Config};
use kube_testserver::Server;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const OBJECTS: usize = 43;
const EVENTS: u64 = 100;
/// A number of generated objects that is not a multiple of the recorded objects.
const MANY: usize = 300;

/// A recording in a temporary folder.
struct Recorded(TempDir);

impl Recorded {
    async fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let client = Client::new(Server::new().service(), "default");
        record(&client, OBJECTS, false, "kube-testserver", &dir.path().join("recording")).await?;
        Ok(Self(dir))
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("recording")
    }

    fn paths(&self) -> Paths {
        Paths {
            program: Path::new(env!("CARGO_BIN_EXE_kube-bench")).to_owned(),
            recording: self.folder(),
            folder: self.0.path().join("built"),
        }
    }
}

/// Starts a replay server and a client. The server stops when the set is dropped.
async fn replayed(recorded: &Recorded) -> Result<(Arc<Replay>, Api<Pod>, JoinSet<std::io::Result<()>>)> {
    served(Replay::new(Recording::load(&recorded.folder())?)).await
}

async fn served(replay: Arc<Replay>) -> Result<(Arc<Replay>, Api<Pod>, JoinSet<std::io::Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let mut serving = JoinSet::new();
    serving.spawn(Arc::clone(&replay).serve(listener));
    let client = Client::try_from(Config::new(url.parse()?))?;
    Ok((replay, Api::all(client), serving))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_receive_all_objects_and_events_and_relist_once() -> Result<()> {
    let recorded = Recorded::new().await?;
    let settings = Settings { events: EVENTS, rounds: 1, rate: 40, seconds: 1, settle: Duration::ZERO };
    // The comparison fails if a relist sends more than one list.
    let outcome = compare(&settings, &recorded.paths(), Some("kube-"), |_| ()).await?;
    assert_eq!(outcome.measured.len(), 11);
    for measured in outcome.measured {
        let (name, [round]) = (measured.contender, &measured.rounds[..]) else { bail!("not one round") };
        assert_eq!(round.objects, OBJECTS, "{name}");
        assert_eq!(round.handled, OBJECTS as u64 + EVENTS, "{name}");
        assert_eq!(round.relist_asked.is_some(), measured.family == Family::KubeInformer, "{name}");
        assert!(round.latency.is_some_and(|latency| latency.p50 <= latency.p99), "{name}");
        assert!(round.sync.received > OBJECTS as u64 * 1000, "{name}: {:?}", round.sync);
        assert!(round.events.received > EVENTS * 1000, "{name}: {:?}", round.events);
        assert!(round.sync.cpu > 0.0 && round.sync.peak >= round.sync.after, "{name}: {:?}", round.sync);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn representations_receive_all_generated_objects_and_events() -> Result<()> {
    let recorded = Recorded::new().await?;
    let names = ["typed", "projection", "metadata", "lazy", "compressed"];
    let case = |name: &str| Case { representation: name.to_owned(), objects: MANY };
    let cases = names.map(case).to_vec();
    let settings = ScaleSettings { cases, events: EVENTS, rounds: 2, settle: Duration::ZERO };
    let measured = scale(&settings, &recorded.paths(), |_| ()).await?;
    assert_eq!(measured.len(), names.len());
    for measured in measured {
        // The measurement fails if the number of objects differs.
        assert_eq!(measured.handled, MANY as u64 + EVENTS, "{measured:?}");
        assert!(measured.sync.cpu > 0.0 && measured.empty.cpu > 0.0, "{measured:?}");
    }
    Ok(())
}

#[tokio::test]
async fn event_path_measures_all_layers_and_steps() -> Result<()> {
    let recorded = Recorded::new().await?;
    let settings = EventPathSettings { events: EVENTS, rounds: 1, settle: Duration::ZERO };
    // A program that misses an event is an error.
    let measured = event_path(&settings, &recorded.paths(), |_| ()).await?;
    assert_eq!(measured.programs.len(), 1 + 3 * 3, "{measured:?}");
    let steps = measured.steps.values().map(|steps| steps.len()).collect::<Vec<_>>();
    assert_eq!(steps, [6, 6, 6]);
    Ok(())
}

#[tokio::test]
async fn generated_objects_are_unique_and_all_of_them_change() -> Result<()> {
    let recorded = Recorded::new().await?;
    let many = Replay::with_generated_objects(Recording::load(&recorded.folder())?, MANY)?;
    let (replay, pods, _serving) = served(many).await?;
    let listed = pods.list(&ListParams::default()).await?.items;
    let uids: HashMap<_, _> = listed.iter().map(|pod| (pod.metadata.uid.as_deref(), pod)).collect();
    let distinct =
        |value: fn(&Pod) -> Option<&str>| listed.iter().filter_map(value).collect::<HashSet<_>>().len();
    assert_eq!((listed.len(), uids.len()), (MANY, MANY));
    assert_eq!(distinct(|pod| pod.metadata.name.as_deref()), MANY);
    assert_eq!(distinct(|pod| pod.metadata.resource_version.as_deref()), MANY);
    assert_eq!(distinct(|pod| container(pod)?.container_id.as_deref()), MANY);

    let mut watch = pods.watch(&WatchParams::default(), &replay.version().to_string()).await?.boxed();
    replay.release(MANY as u64);
    let mut changed = HashSet::new();
    while changed.len() < MANY {
        let Some(WatchEvent::Modified(pod)) = watch.try_next().await? else { bail!("another event") };
        let before = uids.get(&pod.metadata.uid.as_deref()).context("a Pod that was not listed")?;
        assert_eq!(pod.metadata.name, before.metadata.name);
        assert_eq!(pod.spec, before.spec);
        assert_eq!((restarts(before), restarts(&pod)), (Some(0), Some(1)));
        assert!(changed.insert(pod.metadata.uid), "an object changed twice before all objects changed");
    }
    Ok(())
}

#[tokio::test]
async fn each_store_is_measured_and_has_a_column() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let load = Load { objects: 200, readers: 2, millis: 1 };
    let program = Path::new(env!("CARGO_BIN_EXE_kube-bench"));
    let outcome = compare_stores(load, 2, program, dir.path(), Some("kube-"), |_| ()).await?;
    assert_eq!(outcome.measured.len(), 3);
    for measured in &outcome.measured {
        let (name, [_, round]) = (&measured.store, &measured.rounds[..]) else { bail!("not two rounds") };
        for writing in [round.alone, round.read] {
            assert!(writing.writes >= 64 && writing.writes % 64 == 0, "{name}: {writing:?}");
            assert!(writing.cpu > 0.0 && writing.group_cpu_p99 > 0.0, "{name}: {writing:?}");
        }
        assert_eq!(round.objects, 200, "{name}");
        assert!(round.get_ns > 0.0 && round.list_ns > 0.0 && round.by_index_ns > 0.0, "{name}: {round:?}");
    }
    let text = StoreNumbers::new(outcome).text();
    assert!(text.contains("| kube-informer | kube-informer, snapshots | kube-runtime |"), "{text}");
    Ok(())
}

#[tokio::test]
async fn paged_list_contains_each_object_once_in_its_last_state() -> Result<()> {
    let (replay, pods, _serving) = replayed(&Recorded::new().await?).await?;
    let listed = replay.version();
    replay.release(OBJECTS as u64 / 2);
    let (mut params, mut found) = (ListParams::default().limit(10), Vec::new());
    loop {
        let page = pods.list(&params).await?;
        let expected = (listed + OBJECTS as u64 / 2).to_string();
        assert_eq!(page.metadata.resource_version.as_deref(), Some(expected.as_str()));
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let changed = |pod: &&Pod| number(pod.metadata.resource_version.as_deref()) > Some(listed);
    assert_eq!(found.iter().filter(changed).count(), OBJECTS / 2);
    let restarted = |pod: &&Pod| restarts(pod) == Some(1);
    assert_eq!(found.iter().filter(restarted).count(), OBJECTS / 2, "the content differs from the list");
    let mut names: Vec<_> = found.iter().map(|pod| (&pod.metadata.namespace, &pod.metadata.name)).collect();
    names.dedup();
    assert_eq!((names.len(), replay.counts().lists, replay.counts().pages), (OBJECTS, 1, 5));
    Ok(())
}

#[tokio::test]
async fn watch_sends_events_in_order_with_send_time() -> Result<()> {
    let (replay, pods, _serving) = replayed(&Recorded::new().await?).await?;
    let listed = replay.version();
    let mut watch = pods.watch(&WatchParams::default(), &listed.to_string()).await?.boxed();
    replay.release(3);
    replay.pace(2, 1000).await;
    let mut last_sent = 1_000_000_000_000_000_000;
    for version in listed + 1..=listed + 5 {
        let WatchEvent::Modified(pod) = watch.try_next().await?.context("the watch closed")? else {
            bail!("an event of another type")
        };
        assert_eq!(number(pod.metadata.resource_version.as_deref()), Some(version));
        let sent = number(
            pod.metadata.labels.as_ref().and_then(|labels| Some(labels.get("kube-bench/sent")?.as_str())),
        );
        assert!(sent > Some(last_sent), "{sent:?} after {last_sent}");
        last_sent = sent.unwrap_or_default();
    }
    Ok(())
}

/// Clients recognize unchanged objects by their bytes.
#[tokio::test]
async fn object_of_event_has_equal_bytes_in_list() -> Result<()> {
    let (replay, pods, _serving) = replayed(&Recorded::new().await?).await?;
    let mut watch = pods.watch(&WatchParams::default(), &replay.version().to_string()).await?.boxed();
    replay.release(3);
    for _ in 0..3 {
        let Some(WatchEvent::Modified(shown)) = watch.try_next().await? else { bail!("no event") };
        let listed = pods.list(&ListParams::default()).await?.items;
        assert!(listed.contains(&shown), "{:?}", shown.metadata.name);
    }
    Ok(())
}

#[tokio::test]
async fn expiry_closes_watches_and_expires_earlier_versions() -> Result<()> {
    let (replay, pods, _serving) = replayed(&Recorded::new().await?).await?;
    let listed = replay.version();
    let mut open = pods.watch(&WatchParams::default(), &listed.to_string()).await?.boxed();
    replay.release(1);
    assert!(matches!(open.try_next().await?, Some(WatchEvent::Modified(_))));
    replay.expire(7);
    let mut late = pods.watch(&WatchParams::default(), &listed.to_string()).await?.boxed();
    for watch in [&mut open, &mut late] {
        let Some(WatchEvent::Error(status)) = watch.try_next().await? else { bail!("no error") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(watch.try_next().await?.is_none(), "the watch is still open");
    }
    assert_eq!(replay.version(), listed + 8);
    let mut from_now = pods.watch(&WatchParams::default(), &replay.version().to_string()).await?.boxed();
    replay.release(1);
    assert!(matches!(from_now.try_next().await?, Some(WatchEvent::Modified(_))));
    Ok(())
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

fn restarts(pod: &Pod) -> Option<i32> {
    Some(container(pod)?.restart_count)
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}
