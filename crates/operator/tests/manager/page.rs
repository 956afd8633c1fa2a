//! Tests of the HTML page for browsers.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube_client::{
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use kube_informer::Lazy;
use kube_operator::{KeyController, KeyRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    requests::{Response, get, get_until, manager_with_pages, request},
    *,
};

/// The maximum size of a page with its assets, in bytes.
const MAX_BYTES: usize = 150_000;

/// All pages, except for the page of a key.
const PAGES: [&str; 7] =
    ["/", "/ui/caches", "/ui/queues", "/ui/reconciles", "/ui/replicas", "/ui/clusters", "/ui/configuration"];

/// The text of a hostile key.
const HOSTILE: &str = "<script>alert(1)</script>";

/// The path of the page of the hostile key.
const HOSTILE_PATH: &str = "/ui/key/hostile/%3Cscript%3Ealert%281%29%3C/script%3E";

/// Creates a manager with two controllers: one fails for `bad`, and the keys of the other one are hostile.
async fn world() -> (World, SocketAddr) {
    let (mut world, address) = manager_with_pages(true).await;
    let keys = futures_util::stream::iter([HOSTILE.to_owned()]);
    let controller = KeyController::new("hostile").watches_stream("a stream", keys);
    world.manager.add_key_controller(controller, |_: KeyRequest<String>| async {
        Err::<Action, _>(Failure::terminal("<img src=x onerror=alert(2)>"))
    });
    (world, address)
}

#[tokio::test]
async fn each_page_is_complete_small_and_protected() {
    let (world, address) = world().await;
    let (_, stop, running) = world.run();
    get_until(address, "/", |_, body| body.contains("the moon is in the way")).await;
    let assets = get(address, "/ui/assets/page.css").await.1.len()
        + get(address, "/ui/assets/page.js").await.1.len()
        + get(address, "/ui/assets/icon.svg").await.1.len();
    for path in PAGES.into_iter().chain(["/ui/key/configmap/default/bad", HOSTILE_PATH]) {
        let Response { code, head, body } = request(address, "GET", path, "Host: localhost\r\n").await;
        assert_eq!(code, 200, "{path}");
        assert!(body.len() + assets < MAX_BYTES, "{path} has {} bytes", body.len());
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "content-type: text/html; charset=utf-8",
        ] {
            assert!(head.contains(line), "{path}: {line} is missing in\n{head}");
        }
        for part in
            ["<!DOCTYPE html>", "class=\"skip\"", "<nav aria-label", "<main id=\"content\"", "<h1>", "<h2 "]
        {
            assert!(body.contains(part), "{path}: {part} is missing in\n{body}");
        }
        assert_eq!(body.matches("<table>").count(), body.matches("<caption>").count(), "{path}");
        assert!(
            !body.contains("style=") && !body.contains("http://") && !body.contains("https://"),
            "{body}"
        );
        assert!(!body.contains("hunter2"), "{path} contains the content of an object:\n{body}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn tables_contain_the_state_without_a_script() {
    let (world, address) = world().await;
    let (_, stop, running) = world.run();
    get_until(address, "/", |_, body| body.contains("the moon is in the way")).await;
    for (path, texts) in [
        ("/", vec!["Failing key", "href=\"/ui/key/configmap/default/bad\"", "This process is the leader"]),
        ("/ui/caches", vec!["ConfigMap · /api/v1/configmaps", "start: 1", "Watching", "Recent lists"]),
        ("/ui/queues", vec!["Adds", "No worker is busy."]),
        (
            "/ui/reconciles",
            vec!["default/bad", "the moon is in the way", "ConfigMap was listed", "up to 1 ms"],
        ),
        ("/ui/replicas", vec!["default/operator", "This process is the leader"]),
        ("/ui/clusters", vec!["uses one cluster"]),
        ("/ui/configuration", vec!["10 min</td>", "Lease duration", "15 s", "plain HTTP"]),
        (
            "/ui/key/configmap/default/bad",
            vec!["the moon is in the way", "ConfigMap was listed", "Failed, waits for a change", "Your code"],
        ),
    ] {
        let body = get(address, path).await.1;
        for text in texts {
            assert!(body.contains(text), "{path}: {text} is missing in\n{body}");
        }
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn caches_have_their_counted_memory_and_representation() {
    let (world, address) = world().await;
    let factory = world.manager.factory();
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>().unwrap();
    let lazy = factory.informer::<Lazy<ConfigMap>>().unwrap();
    let typed = factory.informer::<ConfigMap>().unwrap();
    let client = world.client.clone();
    let (_, stop, running) = world.run();
    let kib = |bytes: usize| format!("{:.1} KiB", bytes as f64 / 1024.0);
    let cells = || {
        [
            (metadata.memory(), "metadata only", ""),
            (lazy.memory(), "lazy JSON", ""),
            (typed.memory(), "typed", "≥ "),
        ]
        .map(|(memory, name, bound)| {
            format!("{bound}{}<span class=\"detail\">{name}</span>", kib(memory.bytes))
        })
    };
    let has_cells = |_: u16, body: &str| cells().iter().all(|cell| body.contains(cell));
    get_until(address, "/", |_, body| body.contains("the moon is in the way")).await;
    get_until(address, "/ui/caches", has_cells).await;
    let before = cells();
    let large = json!({"metadata": {"name": "large"}, "data": {"text": "x".repeat(10_000)}});
    let large: ConfigMap = serde_json::from_value(large).unwrap();
    Api::default_namespaced(client).create(&PostParams::default(), &large).await.unwrap();
    get_until(address, "/ui/caches", |code, body| cells() != before && has_cells(code, body)).await;
    assert!(lazy.memory().is_complete && lazy.memory().bytes > 10_000 + metadata.memory().bytes / 2);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn recent_lists_have_their_causes() {
    let (world, address) = world().await;
    let (server, stop, running) = world.run();
    get_until(address, "/ui/caches", |_, body| body.contains("<td>start</td>")).await;
    // The watch of ConfigMaps then starts before the last change of the server.
    let secret = json!({"metadata": {"name": "a", "namespace": "default"}});
    server.create(&serde_json::from_value::<Secret>(secret).unwrap()).unwrap();
    server.compact();
    server.close_watches();
    let body = get_until(address, "/ui/caches", |_, body| body.contains("<td>expired</td>")).await;
    let place = |text| body.find(text).unwrap();
    assert!(place("<td>expired</td>") < place("<td>start</td>"), "the latest list is first:\n{body}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn hostile_texts_are_escaped() {
    let (world, address) = world().await;
    let (_, stop, running) = world.run();
    get_until(address, HOSTILE_PATH, |_, body| body.contains("onerror=alert(2)")).await;
    for path in ["/", "/ui/reconciles", HOSTILE_PATH] {
        let body = get(address, path).await.1;
        assert!(body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{path}\n{body}");
        assert!(body.contains("&lt;img src=x"), "{path}\n{body}");
        assert!(!body.contains(HOSTILE) && !body.contains("<img"), "{path}\n{body}");
    }
    let unknown = get(address, "/ui/key/configmap/%3Cscript%3E%22").await;
    assert_eq!(unknown.0, 404);
    assert!(unknown.1.contains("&lt;script&gt;&quot;") && !unknown.1.contains("<script>"), "{}", unknown.1);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn pages_accept_only_reads_and_local_hosts() {
    let (world, address) = world().await;
    let (_, stop, running) = world.run();
    for path in PAGES.into_iter().chain(["/ui/key/a/b", "/ui/assets/page.js", "/ui/unknown"]) {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let response = request(address, method, path, "Host: localhost\r\nContent-Length: 0\r\n").await;
            assert_eq!(response.code, 405, "{method} {path}");
        }
        let foreign = request(address, "GET", path, "Host: attacker.example:8080\r\n").await;
        assert_eq!(foreign.code, 421, "{path}");
        assert!(foreign.head.contains("content-security-policy"), "{}", foreign.head);
    }
    for (path, code) in [("/debug/queues", 421), ("/debug/why/a/b", 421), ("/healthz", 200)] {
        let foreign = request(address, "GET", path, "Host: attacker.example:8080\r\n").await;
        assert_eq!(foreign.code, code, "{path}");
    }
    let head = request(address, "HEAD", "/ui/caches", "Host: 127.0.0.1\r\n").await;
    assert_eq!((head.code, &*head.body), (200, ""));
    for unknown in ["/ui/unknown", "/ui/key/unknown/key", "/ui/assets/unknown", "/unknown"] {
        assert_eq!(get(address, unknown).await.0, 404, "{unknown}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// The end of a complete response.
const LAST_CHUNK: &str = "\r\n0\r\n\r\n";

/// A stream of updates.
struct Updates {
    stream: TcpStream,
    text: String,
}

impl Updates {
    async fn open(address: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads until the text contains a part, and removes the text up to this part. Returns false at the end
    /// of the stream.
    async fn read_until(&mut self, part: &str) -> bool {
        let read = async {
            loop {
                if let Some(at) = self.text.find(part) {
                    self.text.drain(..at + part.len());
                    return true;
                }
                let mut bytes = [0; 4096];
                match self.stream.read(&mut bytes).await {
                    Ok(0) | Err(_) => return false,
                    Ok(length) => self.text.push_str(&String::from_utf8_lossy(&bytes[..length])),
                }
            }
        };
        timeout(30 * SECOND, read).await.unwrap_or_else(|_| panic!("the stream never contained {part}"))
    }
}

#[tokio::test]
async fn stream_contains_changes_and_ends_with_the_manager() {
    let (world, address) = world().await;
    let client = world.client.clone();
    let (_, stop, running) = world.run();
    get_until(address, "/", |_, body| body.contains("the moon is in the way")).await;
    let mut updates = Updates::open(address, "/ui/key/configmap/default/web").await;
    assert!(updates.read_until("text/event-stream").await && updates.read_until("retry: 1000").await);
    assert!(updates.read_until("event: section\ndata: manager-state\ndata: <div").await);
    assert!(updates.read_until("event: section\ndata: runs\ndata: <section").await);

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let patch = Patch::Merge(json!({"data": {"colour": "blue"}}));
    maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    assert!(updates.read_until("ConfigMap was updated").await, "the stream contains the change");

    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(updates.read_until(LAST_CHUNK).await, "the stream is complete");
}

#[tokio::test]
async fn open_streams_do_not_delay_the_shutdown() {
    let (world, address) = world().await;
    let (_, stop, running) = world.run();
    get_until(address, "/", |_, body| body.contains("the moon is in the way")).await;
    let mut streams = Vec::new();
    for path in PAGES {
        let mut updates = Updates::open(address, path).await;
        assert!(updates.read_until("event: section").await, "{path}");
        streams.push(updates);
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    for mut updates in streams {
        // The server cuts a response that does not end by itself.
        assert!(updates.read_until(LAST_CHUNK).await, "the stream is complete");
    }
}

#[tokio::test]
async fn page_of_the_program_replaces_the_overview() {
    let (mut world, address) = world().await;
    world.manager.map_pages(|pages| pages.route("/", kube_operator::axum::routing::get(async || "my page")));
    let (_, stop, running) = world.run();
    assert_eq!(get(address, "/").await.1, "my page");
    assert_eq!(get(address, "/ui/caches").await.0, 200);
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Four controllers with five listed keys each would fill the list of problems.
#[tokio::test]
async fn many_failing_keys_do_not_hide_a_failing_cache() {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        ..ManagerOptions::default()
    });
    let _nodes = world.manager.factory().informer::<Node>().unwrap();
    for number in 0..4 {
        let keys = futures_util::stream::iter((0..30).map(|key| format!("key-{key}")));
        let controller = KeyController::new(format!("controller-{number}")).watches_stream("a stream", keys);
        world.manager.add_key_controller(controller, |_: KeyRequest<String>| async {
            Err::<Action, _>(Failure::terminal("no"))
        });
    }
    let address = world.manager.local_address().unwrap();
    let (server, stop, running) = world.run();
    get_until(address, "/", |_, body| body.contains("And 100 more.")).await;
    server.access().add_rule(Rule::deny().resources(&["nodes"]));
    server.close_watches();
    let is_complete = |_: u16, body: &str| {
        let problems = body.split("</ul>").nth(1).unwrap_or_default();
        problems.contains("Node · /api/v1/nodes") && body.contains("And 101 more.")
    };
    get_until(address, "/", is_complete).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// A controller with many failing keys that have long names and errors.
#[tokio::test]
async fn pages_with_many_long_keys_are_small() {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        ..ManagerOptions::default()
    });
    for number in 0..4 {
        let keys = (0..300).map(move |key| format!("{}/{}-{key}-{number}", "n".repeat(63), "x".repeat(250)));
        let keys = futures_util::stream::iter(keys);
        let controller = KeyController::new(format!("controller-{number}")).watches_stream("a stream", keys);
        world.manager.add_key_controller(controller, |_: KeyRequest<String>| async {
            Err::<Action, _>(Failure::terminal("e".repeat(2000)))
        });
    }
    let address = world.manager.local_address().unwrap();
    let (_, stop, running) = world.run();
    let done = |number: usize| format!("controller-{number}</th><td class=\"number\">300</td>");
    for number in 0..4 {
        get_until(address, "/ui/reconciles", |_, body| body.contains(&done(number))).await;
    }
    for path in PAGES {
        let body = get(address, path).await.1;
        assert!(body.len() < MAX_BYTES, "{path} has {} bytes", body.len());
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
