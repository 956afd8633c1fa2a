//! `Recording`: writes the responses that a client receives to a file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter},
    mem,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{self, BoxFuture},
};
use http::{Request, Response, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube_client::{Client, client::Body};
use kube_informer::{FrameReader, FrameWriter};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;

use super::{
    COMPLETE, ENTRY, FORMAT, RecordingError,
    entry::Entry,
    redactor::{Hook, Redactor},
};

/// The default limit for the size of a file, in bytes.
const MAX_FILE_BYTES: usize = 256 << 20;

/// The maximum size of one body, or of one event of a watch, in bytes.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Records the inputs of a program: the responses to its requests, the events of its watches, and their
/// times.
///
/// All requests of the program must use the client that [`start`](Self::start) returns. Add other layers
/// around this client. Pass it to
/// [`Manager::new`](crate::Manager::new), or to the controllers of kube-runtime. [`Replay`](super::Replay)
/// replays the file in a test.
///
/// ```no_run
/// # use kube_client::Client;
/// # use kube_operator::{Manager, ManagerOptions, Recording, shutdown_signal};
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (recording, client) = Recording::start("operator.recording".as_ref(), client)?;
/// let manager = Manager::new(client, ManagerOptions::default())?;
/// let stopped = manager.run(shutdown_signal()).await;
/// recording.finish().await?; // also if the manager failed
/// stopped?;
/// # Ok(()) }
/// ```
///
/// # Contents
/// The file contains the methods and URLs of requests, and never their headers and bodies. The file also
/// contains the bodies of responses. Placeholders replace the values of Secrets and tokens, and the values of
/// kinds that [`mark_sensitive`](kube_informer::mark_sensitive) marks. In other objects, they replace the
/// same values of at least 8 characters, and texts of at least 4 characters that equal a value. In sensitive
/// objects, numbers become 0, and booleans become false. Messages of error responses follow the rules of the
/// logs of this crate. Only the owner can read the file.
///
/// Until [`finish`](Self::finish), the file has the suffix `.partial`. In a partial file, an object that
/// arrived before a Secret can still contain a copy of its values.
///
/// # Limits
/// The recording stops at 256 MiB, at a response or an event of a watch with more than 64 MiB, and after an
/// error of the disk. The program continues, and [`finish`](Self::finish) returns the error. Bodies that are
/// not JSON are not recorded. Writes to the file are buffered, and block the thread for a short time.
#[derive(Clone)]
pub struct Recording(Arc<Shared>);

struct Shared {
    path: PathBuf,
    /// The file until `finish`.
    partial: PathBuf,
    started: Instant,
    requests: AtomicU64,
    state: Mutex<State>,
}

enum State {
    Recording(Box<Open>),
    Stopped(io::Error),
    /// `finish` was called. All its calls have the same result.
    Finished(Finished),
}

type Finished = future::Shared<BoxFuture<'static, Result<(), Arc<io::Error>>>>;

struct Open {
    writer: FrameWriter<BufWriter<File>>,
    redactor: Redactor,
    /// The remaining size of the file, in bytes.
    left: usize,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Recording").field(&self.0.path).finish()
    }
}

impl Recording {
    /// Creates the file with the suffix `.partial`, and returns a client whose responses are recorded.
    ///
    /// # Errors
    /// Returns [`RecordingError::Io`] if the file cannot be created, or if the path is not a regular file.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn start(path: &Path, client: Client) -> Result<(Self, Client), RecordingError> {
        Self::start_with(path, client, None)
    }

    /// Does the same as [`start`](Self::start), and calls `redact` with the plural name of the resource and
    /// each object before the object is recorded. The function can remove further values. The program still
    /// receives the unchanged object.
    ///
    /// The function runs while a lock is held, so it must not wait. Unlike a value of a Secret, a removed
    /// value is not searched in other objects.
    ///
    /// # Errors
    /// Returns [`RecordingError::Io`] if the file cannot be created, or if the path is not a regular file.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn start_with_redaction(
        path: &Path,
        client: Client,
        redact: impl FnMut(&str, &mut serde_json::Value) + Send + 'static,
    ) -> Result<(Self, Client), RecordingError> {
        Self::start_with(path, client, Some(Box::new(redact)))
    }

    fn start_with(path: &Path, client: Client, hook: Option<Hook>) -> Result<(Self, Client), RecordingError> {
        let failed = |source| RecordingError::Io { path: path.to_owned(), source };
        if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
            // The complete recording would replace a device such as /dev/null.
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let partial = with_suffix(path, ".partial");
        let writer = create(&partial).map_err(failed)?;
        let mut open = Open { writer, redactor: Redactor::new(hook), left: MAX_FILE_BYTES };
        open.add(&Entry::Start { default_namespace: client.default_namespace().to_owned() })
            .map_err(failed)?;
        let (path, started, state) = (path.to_owned(), Instant::now(), State::Recording(Box::new(open)));
        let (requests, state) = (AtomicU64::new(0), Mutex::new(state));
        let recording = Self(Arc::new(Shared { path, partial, started, requests, state }));
        let client = recording.record(client);
        Ok((recording, client))
    }

    /// Stops the recording, and writes the file. Later responses are not recorded. Another call returns the
    /// result of the first call.
    ///
    /// A value of a Secret can also be part of an object that the program received before the Secret. This
    /// method therefore reads all entries again, and replaces the values in each entry. It uses the thread
    /// pool of tokio for blocking work, so the program is not delayed.
    ///
    /// # Errors
    /// Returns [`RecordingError::Io`] if this or an earlier write failed. The earlier entries are in the
    /// file with the suffix `.partial`. A file of an earlier recording at this path remains.
    ///
    /// # Cancel safety
    /// If the future was polled and is dropped, the file is still written, and another call waits for it.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn finish(&self) -> Result<(), RecordingError> {
        let finished = self.0.finish();
        finished.await.map_err(|error| RecordingError::Io {
            path: self.0.path.clone(),
            source: io::Error::new(error.kind(), error),
        })
    }

    /// Stops the recording, and removes the file with the suffix `.partial`. A file of an earlier recording
    /// at this path remains. After [`finish`](Self::finish), this method does nothing.
    ///
    /// # Errors
    /// Returns [`RecordingError::Io`] if the file cannot be removed.
    pub fn discard(self) -> Result<(), RecordingError> {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Finished(_)) {
            return Ok(());
        }
        // Closes the file, and drops the values of Secrets.
        *state = State::Stopped(io::Error::other("the recording was discarded"));
        match fs::remove_file(&self.0.partial) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(RecordingError::Io { path: self.0.partial.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of values of Secrets, and of other sensitive objects, that were replaced so far.
    /// Returns `None` if the recording has stopped.
    pub fn hidden_values(&self) -> Option<u64> {
        match &*self.0.state.lock() {
            State::Recording(open) => Some(open.redactor.hidden()),
            State::Stopped(_) | State::Finished(_) => None,
        }
    }

    fn record(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let recording = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, recording) = (client.clone(), recording.clone());
            async move {
                let (number, resource) = recording.begin(&request);
                let is_watch = request
                    .uri()
                    .query()
                    .unwrap_or_default()
                    .split('&')
                    .any(|part| part.starts_with("watch="));
                match client.send(request).await {
                    Ok(response) => Ok(recording.respond(response, number, resource, is_watch)),
                    Err(error) => {
                        recording.add(|at| Entry::Broken { number, at });
                        Err(BoxError::from(error))
                    }
                }
            }
        });
        Client::new(send, namespace)
    }

    /// Records a request. Returns its number and its resource.
    fn begin(&self, request: &Request<Body>) -> (u64, String) {
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let method = request.method().as_str();
        self.add(|_| Entry::Request { number, method: method.to_owned(), path: path.to_owned() });
        (number, resource(request.uri().path()).to_owned())
    }

    fn respond(
        &self,
        response: Response<Body>,
        number: u64,
        resource: String,
        is_watch: bool,
    ) -> Response<Recorded> {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let (status, content_type) = (response.status(), content_type.unwrap_or_default().to_owned());
        self.add(|at| Entry::Response { number, at, status: status.as_u16(), content_type });
        let is_watch = is_watch && status.is_success();
        let recording = self.clone();
        response.map(|body| Recorded { body, recording, number, resource, is_watch, bytes: Vec::new() })
    }

    fn add(&self, entry: impl FnOnce(u64) -> Entry) {
        self.0.state.lock().write(|open| open.add(&entry(self.0.micros())));
    }

    fn add_body(&self, number: u64, resource: &str, body: &[u8], end: &str) {
        let at = self.0.micros();
        self.0.state.lock().write(|open| match open.redactor.redact(resource, body) {
            Some(text) => open.add(&Entry::Chunk { number, at, text: text + end }),
            None => Ok(()),
        });
    }

    fn stop(&self, error: io::Error) {
        self.0.state.lock().write(|_| Err(error));
    }
}

impl Shared {
    /// Returns the time since the start of the recording, in microseconds.
    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Starts to write the file. Holds the lock only while it changes the state, because requests of the
    /// program need this lock.
    fn finish(&self) -> Finished {
        // Panics before the state changes.
        let runtime = tokio::runtime::Handle::current();
        let mut state = self.state.lock();
        let finished = match mem::replace(&mut *state, State::Stopped(io::ErrorKind::Interrupted.into())) {
            State::Finished(finished) => finished,
            State::Stopped(error) => future::ready(Err(Arc::new(error))).boxed().shared(),
            State::Recording(open) => {
                let (path, partial) = (self.path.clone(), self.partial.clone());
                let task = runtime.spawn_blocking(move || open.rewrite(&path, &partial));
                let result = async move { task.await.map_err(io::Error::other).flatten().map_err(Arc::new) };
                result.boxed().shared()
            }
        };
        *state = State::Finished(finished.clone());
        finished
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a file that only the owner can read. Another file with this name can have other permissions.
fn create(path: &Path) -> io::Result<FrameWriter<BufWriter<File>>> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    FrameWriter::new(BufWriter::new(options.open(path)?), FORMAT)
}

impl State {
    /// Writes to the file while the recording runs. An error stops the recording, and drops the values of
    /// Secrets.
    fn write(&mut self, write: impl FnOnce(&mut Open) -> io::Result<()>) {
        let Self::Recording(open) = self else { return };
        if let Err(error) = write(open) {
            tracing::warn!(%error, "recording stopped; the program continues");
            *self = Self::Stopped(error);
        }
    }
}

impl Open {
    fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let payload = serde_json::to_vec(entry)?;
        if payload.len() > self.left {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the recording reached 256 MiB"));
        }
        self.left = self.left.saturating_sub(self.writer.write(ENTRY, &payload)?);
        Ok(())
    }

    /// Copies the entries of the partial file, and replaces all known values.
    fn rewrite(mut self, path: &Path, partial: &Path) -> io::Result<()> {
        self.writer.flush()?;
        let temporary = with_suffix(path, ".tmp");
        let file = fs::read(partial)?;
        let mut writer = create(&temporary)?;
        for frame in FrameReader::new(&file, FORMAT).map_err(io::Error::other)? {
            let (tag, payload) = frame.map_err(io::Error::other)?;
            let mut entry: Entry = serde_json::from_slice(payload)?;
            if let Entry::Chunk { text, .. } = &mut entry
                && let Some(redacted) = self.redactor.redact_again(text)
            {
                *text = redacted;
            }
            writer.write(tag, &serde_json::to_vec(&entry)?)?;
        }
        writer.write(COMPLETE, &[])?;
        writer.flush()?;
        fs::rename(&temporary, path)?;
        fs::remove_file(partial)
    }
}

/// Returns the plural name of the resource in a path.
fn resource(path: &str) -> &str {
    let mut parts = path.trim_start_matches('/').split('/');
    let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
    let mut rest = parts.skip(skipped);
    match (rest.next(), rest.next(), rest.next()) {
        (Some("namespaces"), Some(_), Some(resource)) => resource,
        (resource, ..) => resource.unwrap_or_default(),
    }
}

/// A body that is recorded while the program reads it.
struct Recorded {
    body: Body,
    recording: Recording,
    number: u64,
    resource: String,
    is_watch: bool,
    /// The incomplete event of a watch, or the body so far.
    bytes: Vec<u8>,
}

impl Recorded {
    fn read(&mut self, mut data: &[u8]) {
        while let Some(end) = self.is_watch.then(|| data.iter().position(|byte| *byte == b'\n')).flatten() {
            self.push(&data[..=end]);
            let line = std::mem::take(&mut self.bytes);
            self.recording.add_body(self.number, &self.resource, &line, "\n");
            data = &data[end + 1..];
        }
        self.push(data);
    }

    fn push(&mut self, data: &[u8]) {
        if self.bytes.len() + data.len() > MAX_BODY_BYTES {
            self.bytes = Vec::new();
            return self.recording.stop(io::Error::other("a response is larger than 64 MiB"));
        }
        self.bytes.extend_from_slice(data);
    }

    fn end(&mut self, is_complete: bool) {
        let (number, bytes) = (self.number, std::mem::take(&mut self.bytes));
        if is_complete && !bytes.is_empty() {
            self.recording.add_body(number, &self.resource, &bytes, "");
        }
        self.recording
            .add(|at| if is_complete { Entry::End { number, at } } else { Entry::Broken { number, at } });
    }
}

impl HttpBody for Recorded {
    type Data = Bytes;
    type Error = kube_client::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.read(data);
                }
            }
            Poll::Ready(Some(Err(_))) => self.end(false),
            Poll::Ready(None) => self.end(true),
            Poll::Pending => {}
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
