//! Between the machines and the server: slow, lossy, and cut for a while. It has the world's clock, and nobody's pause stops it.

use std::{error::Error, sync::Arc, time::Duration};

use fastrand::Rng;
use futures_util::{Stream, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Bytes;
use kube_testserver::ApiService;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tower::ServiceExt;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;
type Frames = Box<dyn Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + Unpin>;
pub(crate) type Answer = Result<Response<StreamBody<Frames>>, BoxError>;

/// The way from one machine to the server. Clones are the same way.
#[derive(Clone)]
pub(crate) struct Network {
    world: Handle,
    service: ApiService,
    state: Arc<Mutex<State>>,
}

struct State {
    rng: Rng,
    is_bad: bool,
    /// By the world's clock.
    cut_off_until: Option<Instant>,
}

/// What becomes of one request.
struct Luck {
    there: Duration,
    back: Duration,
    is_lost: bool,
    answer_is_lost: bool,
}

impl Network {
    /// Inside of the world's runtime.
    pub(crate) fn new(service: ApiService, rng: Rng) -> Self {
        let state = State { rng, is_bad: true, cut_off_until: None };
        Self { world: Handle::current(), service, state: Arc::new(Mutex::new(state)) }
    }

    /// Nothing gets through until then, in either direction; then all that is on its way does.
    pub(crate) fn cut_off(&self, until: Instant) {
        self.state.lock().cut_off_until = Some(until);
    }

    /// From now on all is well.
    pub(crate) fn heals(&self) {
        let mut state = self.state.lock();
        (state.is_bad, state.cut_off_until) = (false, None);
    }

    fn luck(&self) -> Luck {
        let State { rng, is_bad, .. } = &mut *self.state.lock();
        let mut takes = || {
            let most = if *is_bad && rng.u8(..10) == 0 { 6000 } else { 150 };
            Duration::from_millis(rng.u64(..most))
        };
        let (there, back) = (takes(), takes());
        let mut is_lost = || *is_bad && rng.u8(..50) == 0;
        Luck { there, back, is_lost: is_lost(), answer_is_lost: is_lost() }
    }

    /// Watches lag more than answers, so that what was written is not shown for a while.
    fn shown_after(&self) -> Duration {
        let State { rng, is_bad, .. } = &mut *self.state.lock();
        Duration::from_millis(if *is_bad { rng.u64(..1200) } else { 0 })
    }

    async fn passes(&self) {
        loop {
            let until = self.state.lock().cut_off_until;
            match until.filter(|until| Instant::now() < *until) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Takes a request that has left its process: it comes to the server also if nobody waits for the answer any more.
    pub(crate) fn takes(&self, request: Request<Bytes>, reply: oneshot::Sender<Answer>) {
        let (network, luck) = (self.clone(), self.luck());
        let uri = request.uri();
        // Of the Lease nothing is shown late, as others would wait for longer then.
        let lags = uri.query().unwrap_or_default().contains("watch=") && !uri.path().contains("/leases");
        self.world.spawn(async move {
            sleep(luck.there).await;
            network.passes().await;
            if luck.is_lost {
                // Nobody is there any more where this fails, here and below.
                let _gone = reply.send(Err("the connection has broken".into()));
                return;
            }
            let answer = network.service.clone().oneshot(request.map(Full::new)).await;
            sleep(luck.back).await;
            network.passes().await;
            let (head, mut body) = match answer {
                Ok(answer) if !luck.answer_is_lost => answer.into_parts(),
                _ => {
                    let _gone = reply.send(Err("the connection has broken before the answer".into()));
                    return;
                }
            };
            let (frames, received) = mpsc::channel(16);
            let _gone = reply.send(Ok(Response::from_parts(head, StreamBody::new(stream_of(received)))));
            while let Some(frame) = tokio::select! {
                () = frames.closed() => None,
                frame = body.frame() => frame,
            } {
                if lags {
                    sleep(network.shown_after()).await;
                }
                network.passes().await;
                if frames.send(frame.map_err(Into::into)).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn stream_of(received: mpsc::Receiver<Result<Frame<Bytes>, BoxError>>) -> Frames {
    let next = async |mut received: mpsc::Receiver<_>| Some((received.recv().await?, received));
    Box::new(Box::pin(stream::unfold(received, next)))
}
