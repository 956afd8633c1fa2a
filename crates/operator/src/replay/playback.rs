//! `Replay`: responds to the requests of a program from a recording.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::StreamBody;
use kube_client::{Client, client::Body};
use kube_informer::FrameError;
use parking_lot::Mutex;
use tower::BoxError;

use super::{
    RecordingError,
    entry::{Entry, route},
    reader::Entries,
    timeline::{Input, Timeline},
};

/// The maximum number of differences in an error message.
const MAX_LISTED_DIVERGENCES: usize = 10;

/// Reports that a program did not behave as in its recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The program sent other requests, or did not receive all inputs.
    #[error(
        "the program does not behave as in the recording: {}; \
         replay the recorded version of the program, or record it again", summary(.divergences)
    )]
    Diverged {
        /// All differences, each as a text.
        divergences: Vec<String>,
    },
}

/// Returns the first texts, and the number of further texts.
fn summary(texts: &[String]) -> String {
    let listed = texts.len().min(MAX_LISTED_DIVERGENCES);
    let first = texts[..listed].join("; ");
    if listed == texts.len() { first } else { format!("{first}; and {} more", texts.len() - listed) }
}

/// Replays a [`Recording`](super::Recording) in a test. A clone shares the replay.
///
/// The client of the replay returns the recorded response to each request. The program receives the inputs
/// in their recorded order, at their recorded times of tokio's clock. If the clock is paused, the replay
/// does not wait in real time. Each replay of the same program delivers the same inputs. The times are
/// rounded to milliseconds, and no two inputs have the same time.
///
/// Requests are equal if their methods and URLs are equal, without `timeoutSeconds` and the names of Events.
/// Replay the code that was recorded, with the same identity in an election. A program that depends on the
/// wall clock can send other requests. [`divergences`](Self::divergences) lists them.
#[derive(Clone)]
pub struct Replay(Arc<Shared>);

struct Shared {
    default_namespace: String,
    timeline: Timeline,
    /// The request of each input, by position.
    requests: Vec<Arc<str>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The remaining exchanges, by method and URL.
    left: BTreeMap<String, VecDeque<Exchange>>,
    sent: Vec<String>,
    divergences: Vec<String>,
}

/// A recorded request and its response.
#[derive(Clone, Debug, Default)]
struct Exchange {
    head: Option<(Input, u16, String)>,
    chunks: VecDeque<(Input, Bytes)>,
    /// The end, and whether the connection broke.
    end: Option<(Input, bool)>,
}

impl Exchange {
    fn inputs(&self) -> impl Iterator<Item = Input> {
        let head = self.head.as_ref().map(|(input, ..)| *input);
        let chunks = self.chunks.iter().map(|(input, _)| *input);
        head.into_iter().chain(chunks).chain(self.end.map(|(input, _)| input))
    }
}

/// Skips the remaining inputs of an exchange if the program drops its response.
struct Running {
    shared: Arc<Shared>,
    exchange: Exchange,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.exchange.inputs().for_each(|input| self.shared.timeline.skip(input.position));
    }
}

impl Running {
    async fn release(&self, input: Input) {
        let missing = self.shared.timeline.release(input).await;
        let missing = self.shared.describe_missing(&missing);
        self.shared.state.lock().divergences.extend(missing);
    }

    /// Returns the next part of the body.
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        if let Some((input, data)) = self.exchange.chunks.front().cloned() {
            self.release(input).await;
            self.exchange.chunks.pop_front();
            return Some(Ok(Frame::data(data)));
        }
        let Some((input, is_broken)) = self.exchange.end else {
            // The recording does not contain this response.
            return std::future::pending().await;
        };
        self.release(input).await;
        self.exchange.end = None;
        is_broken.then(|| Err("the recorded connection broke".into()))
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replay({} of {} inputs)", self.0.timeline.released(), self.0.timeline.inputs())
    }
}

impl Replay {
    /// Reads a recording. An incomplete last entry, which a killed program leaves, is ignored.
    ///
    /// # Errors
    /// Returns [`RecordingError::Io`] if the file cannot be read. Returns [`RecordingError::Unusable`] if it
    /// is not a recording of this version, or if it is damaged.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = fs::read(path).map_err(|source| RecordingError::Io { path: path.to_owned(), source })?;
        let read = read_recording(&file);
        let Contents { default_namespace, exchanges, due, requests } =
            read.map_err(|source| RecordingError::Unusable { path: path.to_owned(), source })?;
        let mut state = State::default();
        for (request, exchange) in exchanges.into_values() {
            state.left.entry(request).or_default().push_back(exchange);
        }
        let (timeline, state) = (Timeline::new(due), Mutex::new(state));
        Ok(Self(Arc::new(Shared { default_namespace, timeline, requests, state })))
    }

    /// Returns a client that receives the recorded responses. It has the default namespace of the recorded
    /// client.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn client(&self) -> Client {
        let shared = Arc::clone(&self.0);
        let send = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            Arc::clone(&shared).respond(format!("{} {}", request.method(), route(path)))
        });
        Client::new(send, &*self.0.default_namespace)
    }

    /// Waits until the program has received all inputs.
    ///
    /// If the program does not request an input, the replay waits for the request until ten minutes of
    /// tokio's time after the time of the input. Then it continues with a later input that the program has
    /// requested. Without such an input, this method returns the error.
    ///
    /// # Errors
    /// Returns [`ReplayError::Diverged`] if the program sent other requests than the recorded ones, or did
    /// not receive all inputs.
    ///
    /// # Cancel safety
    /// The future does not change any state.
    pub async fn finished(&self) -> Result<(), ReplayError> {
        let missing = self.0.timeline.finished().await;
        let mut divergences = self.divergences();
        divergences.extend(self.0.describe_missing(&missing));
        if divergences.is_empty() { Ok(()) } else { Err(ReplayError::Diverged { divergences }) }
    }

    /// Returns the methods and URLs of all requests of the program so far.
    pub fn requests(&self) -> Vec<String> {
        self.0.state.lock().sent.clone()
    }

    /// Returns the differences between the program and the recording so far. These are requests that the
    /// recording does not contain, and inputs that the program did not receive before a later input.
    /// [`finished`](Self::finished) also checks that the program received the last inputs.
    pub fn divergences(&self) -> Vec<String> {
        self.0.state.lock().divergences.clone()
    }
}

impl Shared {
    /// Returns a text for each request with missing inputs.
    fn describe_missing(&self, positions: &[usize]) -> Vec<String> {
        let mut counts = BTreeMap::<_, usize>::new();
        for request in positions.iter().filter_map(|position| self.requests.get(*position)) {
            *counts.entry(request).or_default() += 1;
        }
        let text = |(request, count)| format!("{request}: the program did not receive {count} of its inputs");
        counts.into_iter().map(text).collect()
    }

    async fn respond(
        self: Arc<Self>,
        route: String,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = BoxError> + use<>>, BoxError> {
        let exchange = {
            let mut state = self.state.lock();
            state.sent.push(route.clone());
            let exchange = state.left.get_mut(&route).and_then(VecDeque::pop_front);
            if exchange.is_none() {
                state.divergences.push(format!("{route} is not in the recording"));
            }
            exchange
        };
        let Some(exchange) = exchange else { return Err(format!("{route} is not in the recording").into()) };
        let mut running = Running { shared: self, exchange };
        let Some((input, status, content_type)) = running.exchange.head.clone() else {
            return match running.next().await {
                Some(Err(error)) => Err(error),
                _ => Err("the recorded request had no response".into()),
            };
        };
        running.release(input).await;
        running.exchange.head = None;
        let body =
            stream::unfold(running, |mut running| async move { Some((running.next().await?, running)) });
        let response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
        Ok(response.body(StreamBody::new(body.boxed()))?)
    }
}

/// The contents of a recording.
#[derive(Default)]
struct Contents {
    default_namespace: String,
    /// The recorded requests with their methods and URLs, by number.
    exchanges: BTreeMap<u64, (String, Exchange)>,
    /// The time of each input since the start of the recording.
    due: Vec<Duration>,
    /// The request of each input.
    requests: Vec<Arc<str>>,
}

impl Contents {
    /// Adds an input of a request.
    fn add(&mut self, number: u64, since: Duration, change: impl FnOnce(&mut Exchange, Input)) {
        let Some((request, exchange)) = self.exchanges.get_mut(&number) else { return };
        let due = self.due.last().map_or(since, |last| since.max(*last + Duration::from_millis(1)));
        let input = Input { position: self.due.len(), due };
        self.due.push(due);
        self.requests.push(request.as_str().into());
        change(exchange, input);
    }
}

fn read_recording(file: &[u8]) -> Result<Contents, FrameError> {
    let (mut contents, mut has_start) = (Contents::default(), false);
    for entry in Entries::new(file)? {
        let since = |micros: u64| Duration::from_millis(micros / 1000);
        match entry? {
            Entry::Start { default_namespace } => {
                (contents.default_namespace, has_start) = (default_namespace, true);
            }
            Entry::Request { number, method, path } => {
                let request = format!("{method} {}", route(&path));
                contents.exchanges.insert(number, (request, Exchange::default()));
            }
            Entry::Response { number, at, status, content_type } => {
                let set =
                    |exchange: &mut Exchange, input| exchange.head = Some((input, status, content_type));
                contents.add(number, since(at), set);
            }
            Entry::Chunk { number, at, text } => contents
                .add(number, since(at), |exchange, input| exchange.chunks.push_back((input, text.into()))),
            Entry::End { number, at } => {
                contents.add(number, since(at), |exchange, input| exchange.end = Some((input, false)));
            }
            Entry::Broken { number, at } => {
                contents.add(number, since(at), |exchange, input| exchange.end = Some((input, true)));
            }
        }
    }
    if has_start { Ok(contents) } else { Err(FrameError::Damaged("its first entry is missing")) }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, path::PathBuf};

    use http_body_util::Full;
    use tempfile::TempDir;

    use super::*;
    use crate::Recording;

    /// Records requests to these paths, one each second.
    async fn record(paths: &[&str]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let respond = async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Full::new("{}".into())));
        let client = Client::new(tower::service_fn(respond), "team");
        let (recording, client) = Recording::start(&path, client).unwrap();
        request(&client, paths).await;
        recording.finish().await.unwrap();
        (folder, path)
    }

    async fn request(client: &Client, paths: &[&str]) {
        for path in paths {
            client.request_text(Request::get(*path).body(Vec::new()).unwrap()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_of_replay_has_the_recorded_default_namespace() {
        let (_folder, path) = record(&["/a"]).await;
        let replay = Replay::open(&path).unwrap();
        assert_eq!(replay.client().default_namespace(), "team");
        request(&replay.client(), &["/a"]).await;
        replay.finished().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn replay_without_the_last_requests_ends_with_one_message() {
        let (_folder, path) = record(&["/a", "/b", "/b", "/c"]).await;
        let replay = Replay::open(&path).unwrap();
        request(&replay.client(), &["/a"]).await;
        let error = replay.finished().await.unwrap_err().to_string();
        let expected = "the program does not behave as in the recording: \
            GET /b: the program did not receive 6 of its inputs; \
            GET /c: the program did not receive 3 of its inputs; \
            replay the recorded version of the program, or record it again";
        assert_eq!(error, expected);
        assert!(replay.divergences().is_empty(), "the future changes no state");
    }

    #[tokio::test(start_paused = true)]
    async fn replay_without_a_request_in_the_middle_continues_and_fails() {
        let (_folder, path) = record(&["/a", "/b", "/c"]).await;
        let replay = Replay::open(&path).unwrap();
        let finished = tokio::spawn({
            let replay = replay.clone();
            async move { replay.finished().await }
        });
        request(&replay.client(), &["/a", "/c"]).await;
        let Err(ReplayError::Diverged { divergences }) = finished.await.unwrap() else { panic!() };
        assert_eq!(divergences, ["GET /b: the program did not receive 3 of its inputs"]);
    }

    #[tokio::test(start_paused = true)]
    async fn replay_with_another_request_fails() {
        let (_folder, path) = record(&["/a"]).await;
        let replay = Replay::open(&path).unwrap();
        request(&replay.client(), &["/a"]).await;
        let other = replay.client().request_text(Request::get("/z").body(Vec::new()).unwrap()).await;
        other.unwrap_err();
        let error = replay.finished().await.unwrap_err().to_string();
        assert!(error.contains("GET /z is not in the recording"), "{error}");
    }
}
