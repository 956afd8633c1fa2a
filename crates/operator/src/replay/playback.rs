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
use kube_informer::{FrameError, FrameReader};
use parking_lot::Mutex;
use tower::BoxError;

use super::{
    ENTRY, FORMAT_VERSION, RecordingError,
    entry::{Entry, route},
    timeline::{Input, Timeline},
};

/// Replays a [`Recording`](super::Recording) in a test. A clone shares the replay.
///
/// The client of the replay returns the recorded response to each request. Inputs
/// arrive in their recorded order, and at their recorded times in tokio's time. With a paused clock, a replay
/// takes no real time, and each replay of the same program receives the same inputs. The times are
/// milliseconds, and no two inputs have the same time.
///
/// Requests are equal if their methods and URLs are equal, without `timeoutSeconds` and the names of Events.
/// Replay the code that was recorded, with the same identity in an election. A program that depends on the
/// wall clock can send other requests. [`divergences`](Self::divergences) lists them.
#[derive(Clone)]
pub struct Replay(Arc<Shared>);

struct Shared {
    inputs: usize,
    timeline: Timeline,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The exchanges that were not replayed yet, by method and URL.
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
        if !self.shared.timeline.release(input).await {
            let text = format!("no request received one of the first {} inputs", input.position);
            self.shared.state.lock().divergences.push(text);
        }
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
        write!(f, "Replay({} of {} inputs)", self.0.timeline.released(), self.0.inputs)
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
        let read = read_exchanges(&file);
        let (exchanges, inputs) =
            read.map_err(|source| RecordingError::Unusable { path: path.to_owned(), source })?;
        let mut state = State::default();
        for (route, exchange) in exchanges {
            state.left.entry(route).or_default().push_back(exchange);
        }
        let (timeline, state) = (Timeline::default(), Mutex::new(state));
        Ok(Self(Arc::new(Shared { inputs, timeline, state })))
    }

    /// Returns a client that receives the recorded responses and has the default namespace `default`.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn client(&self) -> Client {
        let shared = Arc::clone(&self.0);
        let send = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            Arc::clone(&shared).respond(format!("{} {}", request.method(), route(path)))
        });
        Client::new(send, "default")
    }

    /// Waits until the program has received all inputs.
    ///
    /// If the program requests a later input instead of an input, the replay skips the input after ten
    /// minutes of tokio's time. If the program does not request the last input, this future never completes.
    /// Limit the time with `tokio::time::timeout`.
    ///
    /// # Cancel safety
    /// The future does not change any state.
    pub async fn finished(&self) {
        self.0.timeline.until(self.0.inputs).await;
    }

    /// Returns the methods and URLs of all requests of the program so far.
    pub fn requests(&self) -> Vec<String> {
        self.0.state.lock().sent.clone()
    }

    /// Returns the differences between the program and the recording. These are requests that the recording
    /// does not contain, and inputs that the program did not request. The result is empty if the program
    /// behaves as in the recording.
    pub fn divergences(&self) -> Vec<String> {
        self.0.state.lock().divergences.clone()
    }
}

impl Shared {
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

/// Returns the exchanges in the order of their requests, with their methods and URLs, and the number of
/// inputs.
fn read_exchanges(file: &[u8]) -> Result<(Vec<(String, Exchange)>, usize), FrameError> {
    let mut exchanges = BTreeMap::<u64, (String, Exchange)>::new();
    let (mut inputs, mut last, mut first) = (0, Duration::ZERO, None);
    for frame in FrameReader::new(file, FORMAT_VERSION)? {
        let payload = match frame {
            Ok((ENTRY, payload)) => payload,
            Ok(_) => continue,
            Err(FrameError::Truncated) => break,
            Err(error) => return Err(error),
        };
        let entry =
            serde_json::from_slice(payload).map_err(|_| FrameError::Damaged("an entry is malformed"))?;
        let mut input = |at: u64| {
            let since = at.saturating_sub(*first.get_or_insert(at));
            let due = Duration::from_millis(since / 1000).max(last + Duration::from_millis(1));
            last = due;
            inputs += 1;
            Input { position: inputs - 1, due }
        };
        match entry {
            Entry::Request { number, method, path } => {
                exchanges.insert(number, (format!("{method} {}", route(&path)), Exchange::default()));
            }
            Entry::Response { number, at, status, content_type } => {
                let input = input(at);
                edit(&mut exchanges, number, |exchange| exchange.head = Some((input, status, content_type)));
            }
            Entry::Chunk { number, at, text } => {
                let input = input(at);
                edit(&mut exchanges, number, |exchange| exchange.chunks.push_back((input, text.into())));
            }
            Entry::End { number, at } => {
                let input = input(at);
                edit(&mut exchanges, number, |exchange| exchange.end = Some((input, false)));
            }
            Entry::Broken { number, at } => {
                let input = input(at);
                edit(&mut exchanges, number, |exchange| exchange.end = Some((input, true)));
            }
        }
    }
    Ok((exchanges.into_values().collect(), inputs))
}

fn edit(exchanges: &mut BTreeMap<u64, (String, Exchange)>, number: u64, change: impl FnOnce(&mut Exchange)) {
    if let Some((_, exchange)) = exchanges.get_mut(&number) {
        change(exchange);
    }
}
