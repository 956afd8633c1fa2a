//! The network between the machines and the server. It delays and loses messages and can be
//! partitioned. It uses the clock of the world, which pauses do not affect.

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
pub(crate) type NetworkResponse = Result<Response<StreamBody<Frames>>, BoxError>;

/// The connection of one machine to the server. Clones share it.
#[derive(Clone)]
pub(crate) struct Network {
    world: Handle,
    service: ApiService,
    state: Arc<Mutex<NetworkState>>,
}

struct NetworkState {
    rng: Rng,
    has_faults: bool,
    /// Time of the world.
    disconnected_until: Option<Instant>,
}

/// Delays and losses of one request.
struct Transit {
    there: Duration,
    back: Duration,
    is_lost: bool,
    response_is_lost: bool,
}

impl Network {
    /// Must be called inside of the runtime of the world.
    pub(crate) fn new(service: ApiService, rng: Rng) -> Self {
        let state = NetworkState { rng, has_faults: true, disconnected_until: None };
        Self { world: Handle::current(), service, state: Arc::new(Mutex::new(state)) }
    }

    /// Holds all messages in both directions until this time.
    pub(crate) fn disconnect(&self, until: Instant) {
        self.state.lock().disconnected_until = Some(until);
    }

    /// Removes all faults.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock();
        (state.has_faults, state.disconnected_until) = (false, None);
    }

    fn draw_transit(&self) -> Transit {
        let NetworkState { rng, has_faults, .. } = &mut *self.state.lock();
        let mut draw_delay = || {
            let most = if *has_faults && rng.u8(..10) == 0 { 6000 } else { 150 };
            Duration::from_millis(rng.u64(..most))
        };
        let (there, back) = (draw_delay(), draw_delay());
        let mut is_lost = || *has_faults && rng.u8(..50) == 0;
        Transit { there, back, is_lost: is_lost(), response_is_lost: is_lost() }
    }

    /// Returns the additional delay of a watch event. Watches lag, and a cache therefore misses recent
    /// writes.
    fn watch_delay(&self) -> Duration {
        let NetworkState { rng, has_faults, .. } = &mut *self.state.lock();
        Duration::from_millis(if *has_faults { rng.u64(..1200) } else { 0 })
    }

    async fn wait_for_connection(&self) {
        loop {
            let until = self.state.lock().disconnected_until;
            match until.filter(|until| Instant::now() < *until) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Delivers a request to the server, even if the sender has stopped waiting.
    pub(crate) fn deliver(&self, request: Request<Bytes>, reply: oneshot::Sender<NetworkResponse>) {
        let (network, transit) = (self.clone(), self.draw_transit());
        let uri = request.uri();
        // Events of the Lease are not delayed, because candidates would wait longer.
        let lags = uri.query().unwrap_or_default().contains("watch=") && !uri.path().contains("/leases");
        self.world.spawn(async move {
            sleep(transit.there).await;
            network.wait_for_connection().await;
            if transit.is_lost {
                // This send and the sends below fail if the sender has stopped waiting.
                let _gone = reply.send(Err("connection closed".into()));
                return;
            }
            let answer = network.service.clone().oneshot(request.map(Full::new)).await;
            sleep(transit.back).await;
            network.wait_for_connection().await;
            let (head, mut body) = match answer {
                Ok(answer) if !transit.response_is_lost => answer.into_parts(),
                _ => {
                    let _gone = reply.send(Err("connection closed before the response".into()));
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
                    sleep(network.watch_delay()).await;
                }
                network.wait_for_connection().await;
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
