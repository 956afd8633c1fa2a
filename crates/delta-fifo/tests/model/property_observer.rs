//! Reports the events of a handler to the checkers of the properties.

use kube_informer_properties::{
    CacheState, Cause, Content, Event as CheckerEvent, Judge, Mark, Object, Observation,
};
use kube_object::{Entry, Event};

use crate::world::World;

/// The only handler of a cache. Panics when a property is violated.
pub(crate) struct PropertyObserver {
    judge: Judge,
    running: bool,
    synced: bool,
}

impl PropertyObserver {
    /// Registers a handler with a cache of these objects.
    pub(crate) fn new(mark: usize, world: &World) -> Self {
        let mut observer = Self { judge: Judge::new(), running: false, synced: false };
        world.alive.values().for_each(|entry| observer.report_write(entry));
        observer.report_cache(world, None, Cause::Relist { fresh: false });
        observer.observe(Observation::InformerSynced);
        observer.observe(Observation::HandlerAdded { handler: 0, mark });
        observer
    }

    fn observe(&mut self, observation: Observation<'_>) {
        self.judge.observe(observation).unwrap_or_else(|broken| panic!("{broken}"));
    }

    fn report_write(&mut self, entry: &Entry<()>) {
        self.observe(Observation::Written { object: object(entry), decodable: true });
    }

    fn report_cache(&mut self, world: &World, events: Option<&[CheckerEvent]>, cause: Cause) {
        let objects: Vec<Object> = world.alive.values().map(object).collect();
        let mark = Mark { epoch: 0, version: Some(world.clock) };
        // Intermediate states of the server are not reported, because they are equal to the cache.
        let state =
            CacheState { objects: &objects, stale: &[], mark, events, cause, content: Content::Unknown };
        self.observe(Observation::Cache(state));
    }

    /// Reports a write on the server that the cache contains.
    pub(crate) fn report_changes(&mut self, events: &[Event<()>], world: &World) {
        for event in events {
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => self.report_write(object),
                Event::Deleted { last, .. } => {
                    let Object { key, version, .. } = object(last);
                    self.observe(Observation::Deleted { key, version });
                }
            }
        }
        let checker_events: Vec<CheckerEvent> = events.iter().map(checker_event).collect();
        self.report_cache(world, Some(&checker_events), Cause::Changes);
    }

    pub(crate) fn resynced(&mut self) {
        self.observe(Observation::Resynced { handler: 0 });
    }

    /// Reports a handler call, after the return of the previous one.
    pub(crate) fn called(&mut self, event: &Event<()>) {
        self.returned();
        self.observe(Observation::Called { handler: 0, event: checker_event(event), view: None });
        self.running = true;
    }

    pub(crate) fn returned(&mut self) {
        if std::mem::take(&mut self.running) {
            self.observe(Observation::Returned { handler: 0 });
        }
    }

    pub(crate) fn synced(&mut self, synced: bool) {
        if synced && !std::mem::replace(&mut self.synced, true) {
            self.observe(Observation::HandlerSynced { handler: 0 });
        }
    }

    pub(crate) fn drained(&mut self) {
        self.observe(Observation::Drained { handler: 0 });
    }
}

fn object(entry: &Entry<()>) -> Object {
    let number =
        |text: &str| text.rsplit('-').next().and_then(|digits| digits.parse().ok()).expect("a number");
    let version = entry.id.version.to_string().parse().expect("a number");
    // The version identifies the value, because each write has another version.
    Object {
        key: number(entry.key().name()) as u32,
        uid: number(&entry.id.uid.to_string()),
        version,
        value: version,
    }
}

fn checker_event(event: &Event<()>) -> CheckerEvent {
    match event {
        Event::Added { object: new, initial } => {
            CheckerEvent::Added { object: object(new), initial: *initial }
        }
        Event::Updated { old, new } => CheckerEvent::Updated { old: object(old), new: object(new) },
        Event::Deleted { last, removal } => CheckerEvent::Deleted { last: object(last), removal: *removal },
    }
}
