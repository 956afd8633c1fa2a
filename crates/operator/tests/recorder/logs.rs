//! What a log says of events that are not written.

use std::{fmt, sync::Arc};

use kube_operator::EventType;
use kube_testserver::{Fault, Server};
use parking_lot::Mutex;
use serde_json::json;
use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{Recording, creating, map};

/// What no log line may show.
const CONTENTS: &str = "hunter2";

/// Keeps the fields of everything that is logged on this thread, by whichever crate.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut self.clone());
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.lock().push_str(&format!("{field}={value:?}\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_says_which_object_and_what_the_server_said_and_quotes_nothing() {
    let lines = Lines::default();
    let _logging = tracing::subscriber::set_default(lines.clone());
    let server = Server::new();
    let recording = Recording::new(&server);
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
        server.faults().next(creating(), fault);
    }
    recording.recorder.event(&map("a"), EventType::Normal, "Tested", "Test", CONTENTS);
    assert_eq!(recording.written().await.failed, 1);
    recording.stop().await;
    let lines = lines.0.lock().clone();
    for said in
        ["an event was not written", "ConfigMap default/a", "422 Unprocessable Entity", "500 Internal"]
    {
        assert!(lines.contains(said), "{said}: {lines}");
    }
    assert!(!lines.contains(CONTENTS), "{lines}");
}
