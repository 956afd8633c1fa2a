//! Runs the code of the pages against an embedded API server.

use std::{env, error::Error, future::Future, io, process::Command, time::Duration};

use kube_client::Client;
use kube_testserver::Server;
use serde_json::{Value, json};

/// Selects the child process that runs the program of a page.
const IS_CHILD: &str = "KUBE_INFORMER_PAGE_PROGRAM";
/// The time limit of a program. A program takes milliseconds.
const PROGRAM_DEADLINE: Duration = Duration::from_secs(60);

/// Runs a snippet with a client of a server that contains the Pods `shop/web-0` and `shop/cart-0`, both on
/// `node-1`.
///
/// # Panics
/// Panics if the snippet fails.
pub fn run<F>(snippet: impl FnOnce(Client) -> F)
where
    F: Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let server = server_with_pods();
        let client = Client::new(server.service(), "default");
        if let Err(error) = snippet(client).await {
            panic!("{error}");
        }
    });
}

/// Runs a snippet with a server that contains the ConfigMaps `a`, `b` and `c` in the namespace `r`. Time
/// is paused.
///
/// # Panics
/// Panics if the snippet fails.
pub fn run_on_server<F>(snippet: impl FnOnce(Server) -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(async {
        let server = Server::new();
        create(&server, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "r"}}));
        for name in ["a", "b", "c"] {
            let metadata = json!({"name": name, "namespace": "r"});
            create(&server, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        }
        if let Err(error) = snippet(server).await {
            panic!("{error}");
        }
    });
}

/// Runs a complete program in a separate process. Its kubeconfig refers to a server of this process, which
/// contains the Pods of [`server_with_pods`] and `shop/blog-0`. `test` is the name of the calling test in its
/// binary.
///
/// # Panics
/// Panics if the program fails or times out.
pub fn run_program<E: std::fmt::Debug>(test: &str, main: impl FnOnce() -> Result<(), E>) {
    if env::var_os(IS_CHILD).is_some() {
        return main().expect("the program succeeds");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.expect("a runtime can be built").block_on(async {
        let server = server_with_pods();
        create(&server, &pod("blog"));
        let listening = server.listen_tls(([127, 0, 0, 1], 0).into()).await?;
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, listening.kubeconfig())?;
        let mut child = tokio::process::Command::from(Command::new(env::current_exe()?));
        child.args(["--exact", test, "--nocapture"]).env(IS_CHILD, "1").env("KUBECONFIG", &kubeconfig);
        let output = child.kill_on_drop(true).output();
        anyhow::Ok(tokio::time::timeout(PROGRAM_DEADLINE, output).await??)
    });
    let output = ended.unwrap_or_else(|error| panic!("cannot run the program {test}: {error:#}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{test}: {}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Returns a server that contains the Pods `shop/web-0` and `shop/cart-0`, both on `node-1`.
///
/// # Panics
/// Panics if the server rejects the Pods.
pub fn server_with_pods() -> Server {
    let server = Server::new();
    create(&server, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    for app in ["web", "cart"] {
        create(&server, &pod(app));
    }
    server
}

fn create(server: &Server, object: &Value) {
    server.create(&object.clone()).expect("the server accepts the object");
}

fn pod(app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("{app}-0"), "namespace": "shop", "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"name": app, "image": "example/image"}]},
    })
}

/// Lists the ConfigMaps `count` times, and returns the HTTP status of each response.
///
/// # Panics
/// Panics if a connection breaks.
pub async fn list_statuses(server: &Server, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(list_status(server).await);
    }
    statuses
}

/// Lists the ConfigMaps once, and returns the HTTP status.
///
/// # Panics
/// Panics if the connection breaks.
pub async fn list_status(server: &Server) -> u16 {
    list(server).await.unwrap_or_else(|error| panic!("cannot list: {error}"))
}

async fn list(server: &Server) -> io::Result<u16> {
    use http_body_util::{BodyExt as _, Full};

    let request = http::Request::get("/api/v1/namespaces/r/configmaps").body(Full::<bytes::Bytes>::default());
    let response =
        server.service().respond(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    response.into_body().collect().await.map_err(io::Error::other)?;
    Ok(status)
}
