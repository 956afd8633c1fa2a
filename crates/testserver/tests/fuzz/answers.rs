//! Asking, with a bound on how long an answer may take and how much it may say, and what every answer must be.

use bytes::Bytes;
use http_body_util::BodyExt;
use kube_testserver::Server;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use crate::requests::Asked;

/// No watch lasts longer, unless its client asked for that; time is paused, so this takes none.
const LONGEST: Duration = Duration::from_secs(7_200);
/// More frames than any answer here has.
const FRAMES: usize = 100_000;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks; what no client can send counts as answered.
pub(crate) async fn ask(server: &Server, asked: &Asked) -> Answer {
    let Some(request) = asked.build() else {
        return Answer { code: 200, content_type: String::new(), body: Vec::new() };
    };
    let answering = timeout(LONGEST, server.service().respond(request)).await;
    let response = answering.unwrap_or_else(|_| panic!("no answer to {asked:?}")).expect("no fault was set");
    let (parts, mut body) = response.into_parts();
    let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut answer =
        Answer { code: parts.status.as_u16(), content_type: content_type.into(), body: Vec::new() };
    let reading = async {
        for _ in 0..FRAMES {
            let Some(frame) = body.frame().await else { return };
            let data = frame.expect("no fault was set").into_data().unwrap_or_default();
            answer.body.extend_from_slice(&data);
        }
        panic!("the answer to {asked:?} has no end");
    };
    let ended = timeout(LONGEST, reading).await.is_ok();
    assert!(ended || asked.is_long(), "the answer to {asked:?} does not end");
    answer
}

/// Asks for a path.
pub(crate) async fn get(server: &Server, target: &str) -> Answer {
    ask(server, &Asked::new("GET", target, "application/json", Bytes::new())).await
}

/// A failure is a Status with its own code, or one of the known texts.
pub(crate) fn check(answer: &Answer, asked: &Asked) {
    if answer.code < 400 || asked.method == "HEAD" {
        return;
    }
    if answer.content_type.starts_with("text/plain") {
        let texts: [(u16, &[u8]); 2] = [(404, b"404 page not found\n"), (400, b"400 Bad Request")];
        let known = texts.contains(&(answer.code, answer.body.as_slice()));
        assert!(known, "{asked:?}: {} {}", answer.code, answer.text());
        return;
    }
    let status = if answer.content_type == "application/yaml" {
        serde_saphyr::from_slice(&answer.body).ok()
    } else {
        serde_json::from_slice::<Value>(&answer.body).ok()
    };
    let status = status.unwrap_or_else(|| panic!("{asked:?}: {} {}", answer.code, answer.text()));
    assert_eq!(status["kind"], "Status", "{asked:?}: {status}");
    assert_eq!(status["status"], "Failure", "{asked:?}: {status}");
    assert_eq!(status["code"], answer.code, "{asked:?}: {status}");
    assert!(status["message"].as_str().is_some_and(|message| !message.is_empty()), "{asked:?}: {status}");
    // A 500 is the server's own mistake; only what the real server calls so, versions and namespaces that are none, is one.
    let odd = ["resourceVersion", "invalid key: ", "invalid resource name "];
    let known = status["message"].as_str().is_some_and(|message| odd.iter().any(|one| message.contains(one)));
    assert!(answer.code != 500 || known, "{asked:?}: {status}");
}
