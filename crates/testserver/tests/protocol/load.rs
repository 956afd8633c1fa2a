//! Many watches, many writes, slow readers: each watch has each event once and in order, and holds no more than a batch.

use std::collections::BTreeMap;

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::ask::{Lines, R, configmaps, get, server};

/// How many events a watch may have taken from the log before its client reads them.
const BATCH: usize = 256;

/// What a client of a watch with a label selector has seen.
#[derive(Default)]
struct Copy {
    /// The versions of what it holds.
    held: BTreeMap<String, u64>,
    last: u64,
    events: usize,
}

impl Copy {
    /// Takes an event, which must fit: later than the one before, ADDED only for what is not held, the others only for
    /// what is.
    fn take(&mut self, line: &str) {
        let frame: Value = serde_json::from_str(line).unwrap();
        let metadata = &frame["object"]["metadata"];
        let name = metadata["name"].as_str().unwrap().to_owned();
        let version: u64 = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(version > self.last, "{version} after {}", self.last);
        (self.last, self.events) = (version, self.events + 1);
        let before = match frame["type"].as_str().unwrap() {
            "ADDED" => self.held.insert(name, version).is_none(),
            "MODIFIED" => self.held.insert(name, version).is_some(),
            "DELETED" => self.held.remove(&name).is_some(),
            other => panic!("{other}: {line}"),
        };
        assert!(before, "{line}");
    }
}

/// Reads what is there, but no more than `most` lines.
async fn read(lines: &mut Lines, copy: &mut Copy, most: usize) {
    for _ in 0..most {
        let Ok(line) = tokio::time::timeout(std::time::Duration::from_millis(1), lines.line()).await else {
            return;
        };
        copy.take(&line.unwrap().unwrap());
    }
}

fn write(server: &Server, rng: &mut fastrand::Rng) {
    let name = format!("n{}", rng.u8(..20));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "r", "labels": {"shard": rng.u8(..4).to_string()}},
        "data": {"at": rng.u32(..).to_string()}});
    if rng.u8(..5) == 0 {
        // It may not be there.
        let _ = server.delete("v1", "ConfigMap", Some("r"), &name);
    } else if server.create(object.clone()).is_err() {
        server.update(object).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_watches_at_the_edge_of_their_selectors_see_each_event_once_and_in_order() {
    let server = server();
    let start = configmaps(&server, &[]);
    let selectors = ["", "shard=0", "shard in (1,2)", "shard!=3", "shard", "!shard"].map(str::to_owned);
    let mut watches = Vec::new();
    for number in 0..200 {
        let selector = selectors[number % selectors.len()].clone();
        let path =
            format!("{R}?watch=1&resourceVersion={start}&labelSelector={}", selector.replace('!', "%21"));
        watches.push((selector, Lines::open(&server, &path).await, Copy::default()));
    }
    let mut rng = fastrand::Rng::with_seed(23);
    for _ in 0..25 {
        (0..40).for_each(|_| write(&server, &mut rng));
        // A few read: some all, some a little.
        for _ in 0..20 {
            let (most, at) = ([1, 7, 10_000][rng.usize(..3)], rng.usize(..watches.len()));
            let (_, lines, copy) = &mut watches[at];
            read(lines, copy, most).await;
        }
    }
    for (selector, lines, copy) in &mut watches {
        read(lines, copy, usize::MAX).await;
        let listed =
            get(&server, &format!("{R}?labelSelector={}", selector.replace('!', "%21"))).await.json();
        let listed = listed["items"].as_array().unwrap();
        let now: BTreeMap<String, u64> = listed
            .iter()
            .map(|item| {
                let text = |key: &str| item["metadata"][key].as_str().unwrap().to_owned();
                (text("name"), text("resourceVersion").parse().unwrap())
            })
            .collect();
        assert_eq!(copy.held, now, "{selector}");
        assert_eq!(copy.events == 0, selector == "!shard", "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_holds_a_batch_and_no_more() {
    let server = Server::builder().history(10).build();
    let start = configmaps(&server, &[]);
    let mut slow = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    let names: Vec<String> = (0..2_000).map(|number| format!("n{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // It looks once, when ten are there.
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
    assert!(events <= BATCH);
    // A first look takes at most a batch, and leaves the rest in the log.
    let server = Server::new();
    let start = configmaps(&server, &names);
    let mut slow = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={}", start - 2_000)).await;
    slow.event().await;
    server.compact();
    let mut events = 1;
    while slow.event().await.0 != "ERROR" {
        events += 1;
    }
    assert_eq!(events, BATCH);
}
