//! The comparison in small: Pods of kube-testserver are recorded, replayed, and gone through by each program that needs
//! nothing but this workspace. Nothing is said about how long anything takes.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube_bench::{
    Case, Family, Load, Places, Recording, Replay, ScaleSettings, Settings, StoreNumbers, compare,
    compare_stores, record, scale,
};
use kube_client::api::{ListParams, WatchEvent, WatchParams};
use kube_client::{Api, Client, Config};
use kube_testserver::Server;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const OBJECTS: usize = 43;
const EVENTS: u64 = 100;
/// More than were recorded, and no multiple of it.
const MANY: usize = 300;

/// A recording that is gone with this.
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

    fn places(&self) -> Places {
        Places {
            program: Path::new(env!("CARGO_BIN_EXE_kube-bench")).to_owned(),
            recording: self.folder(),
            folder: self.0.path().join("built"),
        }
    }
}

/// A replay server in this process, and a client of it. The server ends with the set.
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
async fn each_program_has_all_objects_and_events_and_relists_once_where_it_must() -> Result<()> {
    let recorded = Recorded::new().await?;
    let settings = Settings { events: EVENTS, rounds: 1, rate: 40, seconds: 1, settle: Duration::ZERO };
    // More than one list for a relist is an error of the comparison itself.
    let outcome = compare(&settings, &recorded.places(), Some("kube-"), |_| ()).await?;
    assert_eq!(outcome.measured.len(), kube_bench::names().count());
    for measured in outcome.measured {
        let (name, [round]) = (measured.contender, &measured.rounds[..]) else { bail!("not one round") };
        assert_eq!(round.objects, OBJECTS, "{name}");
        assert_eq!(round.handled, OBJECTS as u64 + EVENTS, "{name}");
        assert_eq!(round.relist_asked.is_some(), measured.family == Family::KubeInformer, "{name}");
        assert!(round.latency.is_some_and(|latency| latency.p50 <= latency.p99), "{name}");
        assert!(round.sync.cpu > 0.0 && round.sync.peak >= round.sync.after, "{name}: {:?}", round.sync);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_representation_has_all_of_many_objects_and_each_event() -> Result<()> {
    let recorded = Recorded::new().await?;
    let names = ["typed", "projection", "metadata", "lazy", "compressed"];
    let case = |name: &str| Case { representation: name.to_owned(), objects: MANY };
    let cases = names.map(case).to_vec();
    let settings = ScaleSettings { cases, events: EVENTS, rounds: 2, settle: Duration::ZERO };
    let measured = scale(&settings, &recorded.places(), |_| ()).await?;
    assert_eq!(measured.len(), names.len());
    for measured in measured {
        // Another number of objects than was asked for is an error of the run itself.
        assert_eq!(measured.handled, MANY as u64 + EVENTS, "{measured:?}");
        assert!(measured.sync.cpu > 0.0 && measured.empty.cpu > 0.0, "{measured:?}");
    }
    Ok(())
}

#[tokio::test]
async fn of_many_objects_no_two_are_alike_and_events_change_all_of_them() -> Result<()> {
    let recorded = Recorded::new().await?;
    let many = Replay::of_many(Recording::load(&recorded.folder())?, MANY)?;
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
        assert!(changed.insert(pod.metadata.uid), "one has changed twice before all have");
    }
    Ok(())
}

#[tokio::test]
async fn each_store_is_measured_in_a_process_of_its_own_and_has_a_column() -> Result<()> {
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
async fn a_list_in_pages_shows_each_object_once_as_the_last_event_has_left_it() -> Result<()> {
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
    assert_eq!(found.iter().filter(restarted).count(), OBJECTS / 2, "the content changes with the version");
    let mut names: Vec<_> = found.iter().map(|pod| (&pod.metadata.namespace, &pod.metadata.name)).collect();
    names.dedup();
    assert_eq!((names.len(), replay.counts().lists, replay.counts().pages), (OBJECTS, 1, 5));
    Ok(())
}

#[tokio::test]
async fn a_watch_sends_events_in_the_order_of_versions_and_says_when() -> Result<()> {
    let (replay, pods, _serving) = replayed(&Recorded::new().await?).await?;
    let listed = replay.version();
    let mut watch = pods.watch(&WatchParams::default(), &listed.to_string()).await?.boxed();
    replay.release(3);
    replay.pace(2, 1000).await;
    let mut last_sent = 1_000_000_000_000_000_000;
    for version in listed + 1..=listed + 5 {
        let WatchEvent::Modified(pod) = watch.try_next().await?.context("the watch has ended")? else {
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

/// A client that knows an object by its bytes must know it again.
#[tokio::test]
async fn what_an_event_has_shown_is_the_same_in_a_list() -> Result<()> {
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
async fn an_expiry_ends_watches_and_what_was_before_it_is_forgotten() -> Result<()> {
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
        assert!(watch.try_next().await?.is_none(), "the watch goes on");
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
