//! Runs the program in `tests/e2e/client-go` on the embedded and the real server, and compares its
//! output.

use std::future::Future;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kube_informer_e2e::real::{Options, RealServer};
use kube_testserver::Server;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// The deadline of the program. Its steps take some seconds, because a lease expires and the real
/// server restarts.
const DEADLINE: Duration = Duration::from_secs(120);

/// The arguments and the environment of the program.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// True if the embedded server uses TLS. The real server always uses TLS.
    tls: bool,
    /// The content type of bodies. Empty selects the default of client-go, protobuf.
    content_type: &'static str,
    /// True if informers use streaming lists.
    streaming: bool,
}

const JSON: Run = Run { tls: true, content_type: "application/json", streaming: true };
const JSON_AND_LISTS: Run = Run { tls: false, content_type: "application/json", streaming: false };
const PROTOBUF: Run = Run { tls: false, content_type: "", streaming: true };
const PROTOBUF_AND_LISTS: Run = Run { tls: true, content_type: "", streaming: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_program_has_same_output_on_both_servers() -> Result<()> {
    let Some(program) = program().await? else { return Ok(()) };
    let embedded = async {
        let [streaming, lists, protobuf, both] = [JSON, JSON_AND_LISTS, PROTOBUF, PROTOBUF_AND_LISTS]
            .map(|run| run_on_embedded_server(&program, run));
        tokio::try_join!(streaming, lists, protobuf, both)
    };
    let (real, embedded) = tokio::join!(run_on_real_server(&program), embedded);
    // The real server first: a step that fails there is no step.
    let (real, (streaming, lists, protobuf, both)) = (real?, embedded?);
    let listed = |how: &str| format!("how informers listed: by {how}");
    assert!(streaming.contains(&listed("WATCH")), "{streaming:?}");
    assert!(lists.contains(&listed("LIST")), "{lists:?}");
    assert_eq!(protobuf, streaming);
    assert_eq!(both, lists);
    if let Some([real_streaming, real_lists]) = real {
        assert_eq!(streaming, real_streaming);
        assert_eq!(lists, real_lists);
    }
    Ok(())
}

async fn run_on_embedded_server(program: &Path, run: Run) -> Result<Vec<String>> {
    // client-go does not send tokens of a kubeconfig over HTTP.
    let server = Server::builder().require_token(run.tls).build();
    let addr = (Ipv4Addr::LOCALHOST, 0).into();
    let listening = if run.tls { server.listen_tls(addr).await? } else { server.listen(addr).await? };
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;
    let compact = async || {
        server.compact();
        Ok(())
    };
    let lines = lines(program, &kubeconfig, "client-go", run, compact).await;
    listening.shutdown().await;
    lines.with_context(|| format!("kube-testserver, {run:?}"))
}

/// Tests both kinds of lists sequentially, because the restart in one test would disturb the other.
async fn run_on_real_server(program: &Path) -> Result<Option<[Vec<String>; 2]>> {
    let Some(server) = RealServer::start_or_skip("client-go", 2, Options::default()).await? else {
        return Ok(None);
    };
    if !server.is_own() {
        return Ok(None);
    }
    let kubeconfig = server.kubeconfig().to_owned();
    let server = tokio::sync::Mutex::new(server);
    // After a compaction of etcd, the apiserver still has the history in memory. A restart drops it.
    let compact = async || {
        let mut server = server.lock().await;
        server.compact().await?;
        server.restart_apiserver().await
    };
    let streaming = lines(program, &kubeconfig, "streaming", JSON, &compact).await;
    let lists = lines(program, &kubeconfig, "lists", JSON_AND_LISTS, &compact).await;
    let lines = [streaming.context("kube-apiserver, streaming")?, lists.context("kube-apiserver, lists")?];
    server.into_inner().stop().await?;
    Ok(Some(lines))
}

/// Returns the output of the program, and calls `compact` when the program requests it.
async fn lines<F: Future<Output = Result<()>>>(
    program: &Path,
    kubeconfig: &Path,
    namespace: &str,
    run: Run,
    compact: impl Fn() -> F,
) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", namespace]);
    command.args(["--content-type", run.content_type]);
    command.env("KUBE_FEATURE_WatchListClient", run.streaming.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    let mut stdout = BufReader::new(child.stdout.take().context("standard output is a pipe")?).lines();
    let mut seen = Vec::new();
    let running = async {
        while let Some(line) = stdout.next_line().await? {
            if line == "compact" {
                compact().await?;
                stdin.write_all(b"done\n").await?;
            } else {
                seen.push(line.replace(namespace, "NAMESPACE"));
            }
        }
        anyhow::Ok(child.wait().await?)
    };
    let ended = timeout(DEADLINE, running).await.context("the program still runs")??;
    ensure!(ended.success(), "{}", seen.join("\n"));
    Ok(seen)
}

/// Builds the program. Without Go, the test fails in CI, and is skipped elsewhere.
async fn program() -> Result<Option<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(root.join("../../.ci/client-go")).stdin(Stdio::null()).output().await?;
    if built.status.success() {
        return Ok(Some(root.join("client-go/bin/client-go")));
    }
    let why = String::from_utf8_lossy(&built.stderr).into_owned();
    if std::env::var("CI").is_ok_and(|value| value == "true") || !why.starts_with("client-go: needs Go") {
        bail!("{why}");
    }
    // Does not use println, because the test harness hides its output if the test passes.
    writeln!(std::io::stderr(), "SKIPPED: client-go: {why}")?;
    Ok(None)
}
