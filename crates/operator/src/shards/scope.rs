//! The permit of the running reconcile. The guarded client reads it.

use std::sync::Arc;

use kube_object::Slot;

use super::owned::SlotPermit;

tokio::task_local! {
    static PERMIT: Arc<SlotPermit>;
}

/// Reports that a write of a sharded controller was not sent or was cancelled, because another process may
/// own the slot of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotLost {
    /// The write was not sent.
    #[error(
        "write not sent: this process no longer owns the slot {0} of the shard group; the next owner reconciles the object"
    )]
    NotOwner(Slot),
    /// The write was cancelled. The server may have applied it.
    #[error(
        "write cancelled: this process lost the slot {0} while the request was in flight; the server may have applied the write"
    )]
    InFlight(Slot),
}

/// Runs a future whose writes require the permit.
pub(crate) async fn with_permit<F: Future>(permit: Arc<SlotPermit>, work: F) -> F::Output {
    PERMIT.scope(permit, work).await
}

/// Returns the permit of the running reconcile. A task that the reconcile spawns has no permit.
pub(crate) fn current_permit() -> Option<Arc<SlotPermit>> {
    PERMIT.try_with(Arc::clone).ok()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use http::Request;
    use kube_client::{Client, client::Body};
    use tokio::{
        sync::watch,
        time::{Instant, advance},
    };
    use tower::BoxError;

    use super::*;
    use crate::{
        Leadership, OwnedSlots,
        election::leadership::LeaderState,
        shards::{
            member::{Held, Phase},
            owned::{Ownership, Shared},
        },
    };

    /// Sends a PUT, and returns the error.
    async fn write(client: &Client) -> Option<SlotLost> {
        let request = Request::put("/a").body(Body::from(b"{}".to_vec())).unwrap();
        match client.send(request).await {
            Ok(_) => None,
            Err(kube_client::Error::Service(error)) => Some(*error.downcast().unwrap()),
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn write_in_reconcile_requires_the_slot_and_not_leadership() {
        let server = tower::service_fn(async |request: Request<Body>| {
            request.into_body().collect_bytes().await.map_err(BoxError::from)?;
            Ok::<_, BoxError>(http::Response::new(Body::empty()))
        });
        let (_sender, state) = watch::channel(LeaderState::Following(None));
        let client = Leadership::new(state).guard(Client::new(server, "default"));
        let shared = Shared::new("operator");
        let (slot, owned) = (Slot(3), OwnedSlots { shared: Arc::clone(&shared) });
        let slots = |phase| BTreeMap::from([(slot, Held { epoch: 7, phase })]);
        let until = Some(Instant::now() + Duration::from_secs(10));
        let ownership = |phase| Ownership { slots: slots(phase), until, ..Ownership::default() };
        shared.ownership.send_replace(ownership(Phase::Active));
        let permit = Arc::new(owned.permit(slot).unwrap());
        let write = async || with_permit(Arc::clone(&permit), write(&client)).await;
        assert_eq!(write().await, None);
        shared.ownership.send_replace(ownership(Phase::Stopping));
        assert_eq!(write().await, None, "running work continues");
        advance(Duration::from_secs(10)).await;
        assert_eq!(write().await, Some(SlotLost::NotOwner(slot)), "the Lease has expired");

        // Another claim of the same slot has another epoch.
        let slots = BTreeMap::from([(slot, Held { epoch: 8, phase: Phase::Active })]);
        let until = Some(Instant::now() + Duration::from_secs(10));
        shared.ownership.send_replace(Ownership { slots, until, ..Ownership::default() });
        assert_eq!(write().await, Some(SlotLost::NotOwner(slot)));
        let request = Request::put("/a").body(Body::from(b"{}".to_vec())).unwrap();
        assert!(client.send(request).await.is_err(), "without a permit, a write requires leadership");
    }
}
