//! What logs say of what goes wrong, and that they quote nothing. Each test begins with [`Logged::begin`].

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_operator::{EventRecorder, EventType};
use kube_testserver::{Fault, Match, Server, Verb};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

const SECOND: Duration = Duration::from_secs(1);

/// What no log line may show.
const CONTENTS: &str = "hunter2";

#[tokio::test(start_paused = true)]
async fn of_an_event_that_is_not_written_a_log_says_its_object_and_the_server_s_answer_and_quotes_nothing() {
    let logged = Logged::begin();
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let (recorder, broadcaster) = EventRecorder::new(client, "example.com/shop", "shop-0").unwrap();
    let stop = CancellationToken::new();
    let writing = tokio::spawn(broadcaster.run(stop.clone()));
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid",
        "message": format!("Event is invalid: {CONTENTS}"),
    });
    for code in [500, 422] {
        let fault = Fault::Raw {
            status: code,
            content_type: "application/json".to_owned(),
            body: status.to_string().into(),
        };
        server.faults().next(Match::verb(Verb::Create).resource("events"), fault);
    }
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "default"}})).unwrap();
    recorder.event(&map, EventType::Normal, "Tested", "Test", CONTENTS);
    while recorder.status().waiting > 0 {
        sleep(SECOND).await;
    }
    assert_eq!(recorder.status().failed, 1);
    stop.cancel();
    writing.await.unwrap();
    let lines = logged.text();
    for said in
        ["an event was not written", "ConfigMap default/a", "422 Unprocessable Entity", "500 Internal"]
    {
        assert!(lines.contains(said), "{said}: {lines}");
    }
    assert!(!lines.contains(CONTENTS), "{lines}");
}
