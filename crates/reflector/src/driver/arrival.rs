//! Waits for the next result of a request, or for a signal.

use std::{future::poll_fn, pin::pin, task::Poll};

use futures_util::StreamExt;
use kube_listwatch::{ListPart, ListWatchError, WatchEvent};
use kube_object::ResourceVersion;

use super::{
    Driver, Request,
    sharding::{Sharding, ShardingArrival},
};
use crate::{Deadline, Sink};

/// A result of the open request, or a signal.
pub(super) enum Arrival<T> {
    Part(Option<Result<ListPart<T>, ListWatchError>>),
    Events(Option<Result<Vec<WatchEvent<T>>, ListWatchError>>),
    Fired(Deadline),
    ServerVersion(ResourceVersion),
    RelistRequested,
    Sharding(ShardingArrival<T>),
    SinkClosed,
}

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    /// Waits for the next arrival. A deadline has precedence over data, because an endless body must not
    /// delay it.
    pub(super) async fn arrival(&mut self) -> Arrival<T> {
        let first = self.deadlines.first();
        let fired = async {
            match first {
                Some((at, deadline)) => {
                    self.alarm.wait_until(at).await;
                    deadline
                }
                None => std::future::pending().await,
            }
        };
        let read = async {
            match &mut self.request {
                Request::None => std::future::pending().await,
                Request::List(parts) => Arrival::Part(parts.next().await),
                Request::Watch { events, .. } => Arrival::Events(events.next().await),
            }
        };
        let check = &mut self.version_check;
        let checked = async {
            match check {
                Some(check) => check.await,
                None => std::future::pending().await,
            }
        };
        let relist = &mut self.reflector.relist;
        let requested = async {
            if relist.changed().await.is_err() {
                std::future::pending::<()>().await; // the sender was dropped
            }
        };
        let (wanted, gain) = self.sharding.as_mut().map(Sharding::parts).unzip();
        let wanted = async {
            match wanted {
                Some(wanted) => Sharding::<T>::wanted(wanted).await,
                None => std::future::pending().await,
            }
        };
        let gained = async {
            match gain {
                Some(gain) => Arrival::Sharding(ShardingArrival::Gain(gain.next().await)),
                None => std::future::pending().await,
            }
        };
        let read = in_turn(&mut self.gain_is_first, gained, read);
        tokio::select! {
            biased;
            () = self.reflector.sink.closed() => Arrival::SinkClosed,
            () = wanted => Arrival::Sharding(ShardingArrival::Wanted),
            deadline = fired => Arrival::Fired(deadline),
            () = requested => Arrival::RelistRequested,
            version = checked => Arrival::ServerVersion(version),
            arrival = read => arrival,
        }
    }
}

/// Returns the output of the future that is ready first. If both are ready, the futures take turns, because
/// the watch and the list of added slots must not delay each other.
async fn in_turn<O>(
    one_is_first: &mut bool,
    one: impl Future<Output = O>,
    other: impl Future<Output = O>,
) -> O {
    let (mut one, mut other) = (pin!(one), pin!(other));
    *one_is_first = !*one_is_first;
    poll_fn(|cx| {
        if !*one_is_first && let Poll::Ready(output) = other.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        match one.as_mut().poll(cx) {
            Poll::Pending if *one_is_first => other.as_mut().poll(cx),
            polled => polled,
        }
    })
    .await
}
