//! Many watches, many writes and slow readers. Each watch receives each event once, in order, and
//! buffers at most one batch.

use std::collections::BTreeMap;

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::client::{CONFIGMAPS, Lines, configmaps, get, server};

/// The maximum number of events that a watch buffers before its client reads them.
const MAX_BUFFERED_EVENTS: usize = 256;

/// The cache of a client that watches with a label selector.
#[derive(Default)]
struct ClientCache {
    /// The versions of the cached objects by name.
    objects: BTreeMap<String, u64>,
    last: u64,
    events: usize,
}

impl ClientCache {
    /// Applies an event. Asserts that its version is greater than the previous one. An ADDED object
    /// must be new, and other events require a cached object.
    fn apply(&mut self, line: &str) {
        let frame: Value = serde_json::from_str(line).unwrap();
        let metadata = &frame["object"]["metadata"];
        let name = metadata["name"].as_str().unwrap().to_owned();
        let version: u64 = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(version > self.last, "{version} after {}", self.last);
        (self.last, self.events) = (version, self.events + 1);
        let consistent = match frame["type"].as_str().unwrap() {
            "ADDED" => self.objects.insert(name, version).is_none(),
            "MODIFIED" => self.objects.insert(name, version).is_some(),
            "DELETED" => self.objects.remove(&name).is_some(),
            other => panic!("{other}: {line}"),
        };
        assert!(consistent, "{line}");
    }
}

/// Reads the available events, at most `limit`.
async fn read(lines: &mut Lines, cache: &mut ClientCache, limit: usize) {
    for _ in 0..limit {
        let Ok(line) = tokio::time::timeout(std::time::Duration::from_millis(1), lines.line()).await else {
            return;
        };
        cache.apply(&line.unwrap().unwrap());
    }
}

fn write(server: &Server, rng: &mut fastrand::Rng) {
    let name = format!("n{}", rng.u8(..20));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "r", "labels": {"shard": rng.u8(..4).to_string()}},
        "data": {"at": rng.u32(..).to_string()}});
    if rng.u8(..5) == 0 {
        // The object may not exist.
        let _ = server.delete_untyped("v1", "ConfigMap", Some("r"), &name);
    } else if server.create(&object.clone()).is_err() {
        server.update(&object).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn watches_with_selectors_receive_each_event_once_in_order() {
    let server = server();
    let start = configmaps(&server, &[]);
    let selectors = ["", "shard=0", "shard in (1,2)", "shard!=3", "shard", "!shard"].map(str::to_owned);
    let mut watches = Vec::new();
    for number in 0..200 {
        let selector = selectors[number % selectors.len()].clone();
        let path = format!(
            "{CONFIGMAPS}?watch=1&resourceVersion={start}&labelSelector={}",
            selector.replace('!', "%21")
        );
        watches.push((selector, Lines::open(&server, &path).await, ClientCache::default()));
    }
    let mut rng = fastrand::Rng::with_seed(23);
    for _ in 0..25 {
        (0..40).for_each(|_| write(&server, &mut rng));
        // A few watches read all events or only some.
        for _ in 0..20 {
            let (limit, index) = ([1, 7, 10_000][rng.usize(..3)], rng.usize(..watches.len()));
            let (_, lines, cache) = &mut watches[index];
            read(lines, cache, limit).await;
        }
    }
    for (selector, lines, cache) in &mut watches {
        read(lines, cache, usize::MAX).await;
        let listed = get(&server, &format!("{CONFIGMAPS}?labelSelector={}", selector.replace('!', "%21")))
            .await
            .json();
        let listed = listed["items"].as_array().unwrap();
        let now: BTreeMap<String, u64> = listed
            .iter()
            .map(|item| {
                let text = |key: &str| item["metadata"][key].as_str().unwrap().to_owned();
                (text("name"), text("resourceVersion").parse().unwrap())
            })
            .collect();
        assert_eq!(cache.objects, now, "{selector}");
        assert_eq!(cache.events == 0, selector == "!shard", "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn unread_watch_holds_at_most_one_batch() {
    let server = Server::builder().history(10).build();
    let start = configmaps(&server, &[]);
    let mut slow = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let names: Vec<String> = (0..2_000).map(|number| format!("n{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The watch is read once, after ten events.
    for (round, some) in names.chunks(10).enumerate() {
        configmaps(&server, some);
        if round == 0 {
            slow.event().await;
        }
    }
    let mut events = 1;
    let end = loop {
        match slow.event().await {
            (kind, ..) if kind == "ERROR" => break kind,
            _ => events += 1,
        }
    };
    assert_eq!((events, end.as_str()), (10, "ERROR"));
    assert!(events <= MAX_BUFFERED_EVENTS);
    // The first read takes at most one batch from the log.
    let server = Server::new();
    let start = configmaps(&server, &names);
    let mut slow =
        Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={}", start - 2_000)).await;
    slow.event().await;
    server.compact();
    let mut events = 1;
    while slow.event().await.0 != "ERROR" {
        events += 1;
    }
    assert_eq!(events, MAX_BUFFERED_EVENTS);
}
