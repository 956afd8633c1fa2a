//! Lists and watches the chosen resources, until the end or until Ctrl-C.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::future::join_all;
use kube_client::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    churn::{Churn, WatchEnd, observe, reason},
    listing::{ListSettings, Listed, Source, Target, list},
    progress::Progress,
    report::Failure,
};

/// The reason of a resource that was not listed before Ctrl-C.
const INTERRUPTED: &str = "interrupted";

/// The measurements until the end, or until Ctrl-C.
pub(super) struct Measured {
    pub(super) listed: Vec<(Listed, Option<Churn>)>,
    pub(super) failures: Vec<Failure>,
    pub(super) is_interrupted: bool,
}

/// Returns the result of `work`. Returns `None` if `interrupt` completes first, or at the same time.
pub(super) async fn unless_interrupted<T>(
    interrupt: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = interrupt => None,
        result = work => Some(result),
    }
}

/// Lists all targets, one after the other. Then watches all targets for `duration`. `interrupt` stops the
/// measurement, and the result contains the previous measurements.
pub(super) async fn measure(
    client: &Client,
    targets: Vec<Target>,
    settings: &ListSettings,
    duration: Option<Duration>,
    mut interrupt: Pin<&mut impl Future<Output = ()>>,
) -> Measured {
    let (progress, mut all, mut failures) = (Progress::new(), Vec::new(), Vec::new());
    let mut is_interrupted = false;
    for target in targets {
        let failure = |reason: String| Failure { resource: target.name(), reason };
        if is_interrupted {
            failures.push(failure(INTERRUPTED.to_owned()));
            continue;
        }
        progress.start(&target.name());
        let source = target.source(client, settings);
        let listed = list(&target, &source, settings, &progress);
        match unless_interrupted(interrupt.as_mut(), listed).await {
            Some(Ok(listed)) => all.push((listed, source)),
            Some(Err(error)) => failures.push(failure(reason(&error))),
            None => {
                is_interrupted = true;
                failures.push(failure(INTERRUPTED.to_owned()));
            }
        }
    }
    let Some(duration) = duration.filter(|_| !is_interrupted) else {
        let listed = all.into_iter().map(|(listed, _)| (listed, None)).collect();
        return Measured { listed, failures, is_interrupted };
    };
    progress.start("watching");
    let (listed, is_interrupted) = watch(all, settings, duration, interrupt).await;
    Measured { listed, failures, is_interrupted }
}

/// Watches all resources for `duration`. The second value is whether `interrupt` stopped the watches.
async fn watch(
    all: Vec<(Listed, Source)>,
    settings: &ListSettings,
    duration: Duration,
    interrupt: Pin<&mut impl Future<Output = ()>>,
) -> (Vec<(Listed, Option<Churn>)>, bool) {
    let end = WatchEnd { at: Instant::now() + duration, stop: CancellationToken::new() };
    let observed = all.into_iter().map(|(mut listed, source)| {
        let end = end.clone();
        async move {
            let churn = observe(&mut listed, &source, settings, &end).await;
            (listed, Some(churn))
        }
    });
    let mut observed = pin!(join_all(observed));
    match unless_interrupted(interrupt, observed.as_mut()).await {
        Some(listed) => (listed, false),
        None => {
            end.stop.cancel();
            (observed.await, true)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn interrupt_has_precedence_over_completed_work() {
        for _ in 0..64 {
            assert_eq!(unless_interrupted(pin!(ready(())), ready(1)).await, None);
        }
        assert_eq!(unless_interrupted(pin!(std::future::pending()), ready(1)).await, Some(1));
    }
}
