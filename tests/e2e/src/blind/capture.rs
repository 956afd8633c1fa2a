//! Writes the log and the pages of an operator to files.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{HOME, process::page_address};

/// The time limit of a page.
const PAGE_LIMIT: Duration = Duration::from_secs(10);
/// A process is read only this long after its start, so that the pages contain its state.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// The time limit until a process is old enough.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The files of a case with the pages, except the page of one key.
const PAGES: [(&str, &str); 6] = [
    ("metrics.txt", "/metrics"),
    ("healthz.txt", "/healthz"),
    ("readyz.txt", "/readyz"),
    ("debug-queues.json", "/debug/queues"),
    ("debug-informers.json", "/debug/informers"),
    ("debug-events.json", "/debug/events"),
];
const LOG: &str = "log.txt";
const WHY: &str = "debug-why.json";

/// Returns the names of the files of a case.
#[must_use]
pub fn files() -> Vec<&'static str> {
    PAGES.iter().map(|(file, _)| *file).chain([LOG, WHY]).collect()
}

/// Waits until `end` and until the process runs for some time. Then writes the files.
pub(super) async fn capture(
    folder: &Path,
    log: &Path,
    end: Instant,
    started: watch::Receiver<Instant>,
) -> Result<()> {
    sleep_until(end).await;
    let limit = Instant::now() + SETTLE_LIMIT;
    while started.borrow().elapsed() < SETTLE_TIME && Instant::now() < limit {
        sleep(POLL_INTERVAL).await;
    }
    let address = page_address(log).context("the log of the operator contains no address of its pages")?;
    let mut queues = Value::Null;
    for (file, path) in PAGES {
        let page = page(address, path).await;
        if file == "debug-queues.json" {
            queues = serde_json::from_str(&page.body).unwrap_or_default();
        }
        write(folder, file, &page.text(file))?;
    }
    let path = format!("/debug/why/website/{}", key_to_explain(&queues));
    write(folder, WHY, &page(address, &path).await.text(WHY))?;
    write(folder, LOG, &fs::read_to_string(log)?)
}

fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the key that failed last, or else the key that has run for the longest time.
fn key_to_explain(queues: &Value) -> &str {
    let first = |field: &str| queues[0][field][0]["key"].as_str();
    first("failed").or_else(|| first("running")).unwrap_or(HOME)
}

/// A response, or the reason why no response arrived.
struct Page {
    status: String,
    body: String,
}

impl Page {
    /// A health page starts with its status, because this status decides about restarts.
    fn text(&self, file: &str) -> String {
        let is_health = file == "healthz.txt" || file == "readyz.txt";
        if is_health { format!("{}\n\n{}", self.status, self.body) } else { self.body.clone() }
    }
}

async fn page(address: SocketAddr, path: &str) -> Page {
    let response = match timeout(PAGE_LIMIT, get(address, path)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Page { status: "no response".into(), body: format!("{error:#}\n") },
        Err(_) => {
            return Page { status: "no response".into(), body: format!("timed out after {PAGE_LIMIT:?}\n") };
        }
    };
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    Page { status: head.lines().next().unwrap_or_default().to_owned(), body: body.to_owned() }
}

async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}
