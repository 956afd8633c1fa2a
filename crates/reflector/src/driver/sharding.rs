//! Executes the outputs of [`Slots`] for a reflector of some slots.

use std::sync::Arc;

use kube_listwatch::{ListPart, ListWatchError, ListerWatcher, Target, Verb};
use kube_object::{Delta, NoCache, ObjectId, Shard, SlotSet};
use tokio::{sync::watch, time::Instant};

use super::{
    Driver, Request,
    gain_request::{GainArrival, GainRequest},
};
use crate::{
    AfterBackoff, Deadline, FirstList, Input, Marker, Output, Position, ReflectorOptions, RestartCause, Sink,
    State, separate_nameless,
    slots::{Route, Slots, SlotsInput, SlotsOutput},
};

/// The slots of a sharded reflector, and the list of added slots.
pub(super) struct Sharding<T> {
    /// The division into slots. The set of slots in this value is empty.
    division: Shard,
    wanted: watch::Receiver<SlotSet>,
    slots: Slots,
    pub(super) gain: GainRequest<T>,
}

/// A change of the wanted slots, or a result of the list of added slots.
pub(super) enum ShardingArrival<T> {
    Wanted,
    Gain(GainArrival<T>),
}

impl<T> Sharding<T> {
    pub(super) fn new(
        division: Shard,
        mut wanted: watch::Receiver<SlotSet>,
        options: &ReflectorOptions,
    ) -> Self {
        let slots = Slots::new(*wanted.borrow_and_update());
        Self { division, wanted, slots, gain: GainRequest::new(options) }
    }

    fn shard(&self, slots: SlotSet) -> Shard {
        Shard { slots, ..self.division }
    }

    /// Returns whether an item of the list of all slots is retained.
    pub(super) fn lists(&self, id: &ObjectId) -> bool {
        self.slots.lists(self.division.slot_of(&id.as_id()))
    }

    fn gains(&self, id: &ObjectId) -> bool {
        self.slots.gains(self.division.slot_of(&id.as_id()))
    }

    pub(super) fn route(&self, id: &ObjectId) -> Route {
        self.slots.route(self.division.slot_of(&id.as_id()), &id.version)
    }

    /// Waits for a change of the wanted slots.
    pub(super) async fn wanted(wanted: &mut watch::Receiver<SlotSet>) {
        if wanted.changed().await.is_err() {
            std::future::pending::<()>().await; // the sender was dropped
        }
    }

    /// Returns the parts for which the driver waits separately.
    pub(super) fn parts(&mut self) -> (&mut watch::Receiver<SlotSet>, &mut GainRequest<T>) {
        (&mut self.wanted, &mut self.gain)
    }
}

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    /// Starts the requests. A sharded reflector without slots sends none.
    pub(super) fn start(&mut self) {
        match (&self.sharding, self.reflector.resume.take()) {
            (None, None) => self.step(Input::Start, || None),
            (None, Some(version)) => self.step(Input::Resume(&version), || None),
            (Some(_), _) => self.slots(SlotsInput::Start),
        }
    }

    /// Passes an input to the slots. Has no effect on a reflector of all objects.
    pub(super) fn slots(&mut self, input: SlotsInput<'_>) {
        let Some(sharding) = &mut self.sharding else { return };
        for output in sharding.slots.step(input, &self.reflector.options) {
            self.execute(output);
        }
    }

    /// Reports the position after all inputs of an arrival.
    pub(super) fn settle(&mut self) {
        if self.sharding.is_some() {
            let position = position(&self.machine).cloned();
            self.slots(SlotsInput::Settled(position.as_ref()));
        }
    }

    pub(super) fn sharding_arrival(&mut self, arrival: ShardingArrival<T>) {
        match arrival {
            ShardingArrival::Wanted => {
                if let Some(sharding) = &mut self.sharding {
                    let wanted = *sharding.wanted.borrow_and_update();
                    self.slots(SlotsInput::Wanted(wanted));
                }
            }
            ShardingArrival::Gain(GainArrival::Part(part)) => self.gain_part(part),
            ShardingArrival::Gain(GainArrival::Fired(deadline)) => {
                if deadline == Deadline::List {
                    let target = Target { verb: Verb::List, url: self.reflector.source.path() };
                    let after = self.reflector.options.list_deadline;
                    self.reflector.reports.failed(&ListWatchError::TimedOut { target, after }, false);
                }
                self.slots(SlotsInput::Gain(Input::Fired(deadline)));
            }
        }
    }

    fn execute(&mut self, output: SlotsOutput) {
        match output {
            SlotsOutput::Start => self.step(Input::Start, || None),
            SlotsOutput::Stop => self.stop(),
            SlotsOutput::Rewatch => {
                self.watch_over(RestartCause::Requested);
                self.step(Input::Rewatch, || None);
            }
            SlotsOutput::Relist => {
                self.watch_over(RestartCause::Requested);
                self.step(Input::Relist, || None);
            }
            SlotsOutput::Hold(slots) => self.hold(slots, None),
            SlotsOutput::Gain(output) => self.execute_gain(output),
            SlotsOutput::DropGain => {
                if let Some(sharding) = &mut self.sharding {
                    sharding.gain.close();
                }
            }
            SlotsOutput::Fill { filled, gained, version } => self.hold(filled, Some((gained, version))),
        }
    }

    /// Pushes the slots in the cache, with the state of the gained slots.
    fn hold(&mut self, slots: SlotSet, gained: Option<(SlotSet, kube_object::ResourceVersion)>) {
        let Some(sharding) = &mut self.sharding else { return };
        let shard = sharding.shard(slots);
        let gained = match gained {
            None => Vec::new(),
            Some((slots, version)) => {
                let shard = sharding.shard(slots);
                sharding.gain.take_state(&shard, &version)
            }
        };
        self.outgoing.push(Delta::Hold { shard, gained });
    }

    /// Closes the main request. A later start must not return an older state.
    fn stop(&mut self) {
        self.watch_over(RestartCause::Requested);
        self.replace_request(Request::None);
        self.machine = State::Idle;
        let first_list = &mut self.reflector.options.first_list;
        if *first_list == FirstList::Any {
            *first_list = FirstList::Consistent;
        }
        self.reflector.reports.phase(&self.machine);
    }

    /// Executes an output of the list of added slots.
    fn execute_gain(&mut self, output: Output) {
        let Some(sharding) = &mut self.sharding else { return };
        let now = Instant::now();
        match output {
            Output::Count(cause) => {
                self.reflector.reports.list_begun(cause);
                sharding.gain.began = now;
            }
            Output::List { request, .. } => {
                let shard = sharding.shard(sharding.slots.requested_gain());
                let source = source_of(&self.reflector.source, &shard);
                sharding.gain.request(Some(source.list(request, Arc::new(NoCache))));
            }
            Output::Arm(deadline) => {
                let after = self.reflector.options.page_timeout(now - sharding.gain.began);
                sharding.gain.arm(deadline, now + after);
            }
            Output::BackOff(at_least) => {
                let over = sharding.gain.backoff.next(now, at_least, &mut self.rng);
                sharding.gain.close();
                sharding.gain.arm(Deadline::Backoff, over);
            }
            Output::Mark(Marker::Begin { .. }) => sharding.gain.restart(),
            Output::AbandonPages { pages } => self.abandon_pages(pages),
            // The other outputs belong to a watch, or delete the objects of all slots.
            _ => {}
        }
    }

    fn gain_part(&mut self, part: Option<Result<ListPart<T>, ListWatchError>>) {
        match part {
            Some(Ok(ListPart::Items { mut items, mut nameless })) => {
                separate_nameless(&mut items, &mut nameless);
                let complete = nameless.is_empty();
                self.unreadable.nameless(nameless);
                if let Some(sharding) = &self.sharding {
                    items.retain(|item| sharding.gains(item.id()));
                }
                let items: Vec<_> = items.into_iter().map(|item| self.listed(item)).collect();
                self.report_unreadable();
                if let Some(sharding) = &mut self.sharding {
                    sharding.gain.add_items(items);
                }
                self.slots(SlotsInput::Gain(Input::Items { complete }));
            }
            Some(Ok(ListPart::OtherSlots { .. })) => {
                self.slots(SlotsInput::Gain(Input::Items { complete: true }));
            }
            Some(Ok(ListPart::End(end))) => {
                self.reflector.reports.succeeded();
                let input = Input::PageEnd { version: &end.version, next: end.next.as_deref() };
                self.slots(SlotsInput::Gain(input));
            }
            Some(Err(error)) => self.gain_failed(&error),
            None => self.gain_failed(&ListWatchError::list_function(super::received::NO_LIST_END)),
        }
    }

    fn gain_failed(&mut self, error: &ListWatchError) {
        self.reflector.reports.failed(error, false);
        self.slots(SlotsInput::Gain(Input::Failed(error.class(), error.retry_after())));
    }

    /// Returns the source of the next main request. The source contains the requested slots, or all objects.
    pub(super) fn source(&self, is_later_page: bool) -> Arc<dyn ListerWatcher<T>> {
        let source = &self.reflector.source;
        match &self.sharding {
            None => Arc::clone(source),
            Some(sharding) => source_of(source, &sharding.shard(sharding.slots.requested(is_later_page))),
        }
    }
}

/// Returns a source of only this shard, if the source supports it. Otherwise, the driver removes the objects
/// of other slots.
fn source_of<T: 'static>(source: &Arc<dyn ListerWatcher<T>>, shard: &Shard) -> Arc<dyn ListerWatcher<T>> {
    source.for_shard(shard).unwrap_or_else(|| Arc::clone(source))
}

/// Returns the position of the watch, or of the watch after the backoff.
fn position(machine: &State) -> Option<&Position> {
    match machine {
        State::Watching(watching) => Some(&watching.position),
        State::Waiting(waiting) => match &waiting.then {
            AfterBackoff::Watch(position) => Some(position),
            AfterBackoff::List { .. } => None,
        },
        State::Idle | State::Listing(_) | State::Streaming(_) => None,
    }
}
