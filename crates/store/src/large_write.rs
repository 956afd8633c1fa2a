//! `LargeWrite`: a write whose work depends on the number of objects. The work for each object runs
//! outside of all locks.

use std::sync::Arc;

use kube_object::{Delta, Event, Listed, Object, ResourceVersion, Shard};

use crate::{
    Store,
    current::Current,
    reentrancy::WriteMark,
    replace::Relist,
    root::{ApplyOutcome, Root},
};

/// Applies a large [`Delta::End`], [`Delta::Clear`] or [`Delta::Hold`], or a [`Delta::Begin`] that discards a
/// large relist, in two steps. [`Store::begin_large_write`] creates it.
///
/// [`prepare`](Self::prepare) processes each object without a lock, so it can run on another thread.
/// [`publish`](Self::publish) makes the result visible atomically, in constant time. Drop the
/// `LargeWrite` on a thread that may block, because the drop can free a million objects.
pub struct LargeWrite<T> {
    store: Store<T>,
    change: LargeChange,
    /// The objects that a `Hold` adds.
    gained: Vec<Listed<T>>,
    /// The relist that the write applies or discards.
    relist: Option<Relist<T>>,
    /// The state that was copied for `prepared`. While this reference exists, no write changes the state in
    /// place.
    before: Arc<Root<T>>,
    prepared: Option<Prepared<T>>,
}

#[derive(Debug, Clone)]
enum LargeChange {
    /// Discards the relist in progress and starts another relist.
    Begin {
        without_reuse: bool,
    },
    End {
        version: ResourceVersion,
        complete: bool,
    },
    Clear,
    /// Removes the objects of lost slots, and adds the objects of gained slots.
    Hold {
        shard: Shard,
    },
}

/// The new state. After it was published, the old state.
struct Prepared<T> {
    state: Current<T>,
    outcome: ApplyOutcome<T>,
}

impl LargeChange {
    /// Returns `None` if the work of the batch depends only on its size.
    fn of<T>(batch: &[Delta<T>]) -> Option<Self> {
        match batch {
            [Delta::Begin { without_reuse }] => Some(Self::Begin { without_reuse: *without_reuse }),
            [Delta::End { version, complete }] => {
                Some(Self::End { version: version.clone(), complete: *complete })
            }
            [Delta::Clear] => Some(Self::Clear),
            [Delta::Hold { shard, .. }] => Some(Self::Hold { shard: *shard }),
            _ => None,
        }
    }

    /// Returns the number of slots and collected changes that the write visits or frees.
    fn size<T: Object>(&self, root: &Root<T>, relist: Option<&Relist<T>>) -> usize {
        let slots = match self {
            Self::Begin { .. } => 0,
            Self::Hold { shard } if root.keeps_all(shard) => 0,
            Self::Clear if root.objects.len() == 0 => 0,
            // Also the free slots are visited.
            Self::Clear | Self::End { .. } | Self::Hold { .. } => root.objects.used(),
        };
        slots.max(relist.map_or(0, Relist::len))
    }
}

impl<T: Object> Store<T> {
    /// Starts a write in two steps if the batch is large. Returns the write if both conditions hold:
    /// - The batch is a single delta: an `End`, a `Clear`, a `Begin` that discards a relist in progress, or a
    ///   `Hold` outside of a relist.
    /// - The delta processes at least `min_objects` objects. For an `End` or a `Clear`, this number
    ///   includes deleted objects, because the store keeps their memory for reuse.
    ///
    /// The caller must then call [`LargeWrite::prepare`] and [`LargeWrite::publish`] instead of
    /// [`apply`](Store::apply).
    ///
    /// Otherwise returns `None`. The caller must then [`apply`](Store::apply) the batch.
    ///
    /// Between this call and [`LargeWrite::publish`], the caller must not apply other deltas.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn begin_large_write(&self, batch: &[Delta<T>], min_objects: usize) -> Option<LargeWrite<T>> {
        let change = LargeChange::of(batch)?;
        let before = self.root();
        let (mut writer, _mark) = self.lock_writer();
        let fits = match (&change, &writer.relist) {
            (LargeChange::Clear, _) => true,
            (LargeChange::Hold { .. }, relist) => relist.is_none(),
            (LargeChange::Begin { .. } | LargeChange::End { .. }, relist) => relist.is_some(),
        };
        let gained = match batch {
            [Delta::Hold { gained, .. }] => gained.as_slice(),
            _ => &[],
        };
        if !fits || change.size(&before, writer.relist.as_ref()) + gained.len() < min_objects {
            return None;
        }
        let gained = gained.to_vec();
        let store = Store { shared: Arc::clone(&self.shared), keep_alive: None };
        Some(LargeWrite { store, change, gained, relist: writer.relist.take(), before, prepared: None })
    }
}

impl<T: Object> LargeWrite<T> {
    /// Applies the write to a copy of the current state, and returns the events in the order of the
    /// changes. Runs the index functions. Frees a discarded relist. Deliver the events only after
    /// [`publish`](Self::publish) has returned true.
    pub fn prepare(&mut self) -> Vec<Event<T>> {
        let functions = self.store.lock_writer().0.functions.clone();
        let Current { root: before, mut table } = self.store.shared.current.read().clone();
        self.before = before;
        let _mark = WriteMark::new(self.store.address());
        let mut root = Root::clone(&self.before);
        let mut outcome = ApplyOutcome::new(0);
        match (&self.change, &self.relist) {
            (LargeChange::End { version, complete }, Some(relist)) => {
                relist.apply(version.clone(), *complete, &functions, &mut root, &mut outcome);
            }
            (LargeChange::Clear, _) => root.clear(&mut outcome),
            (LargeChange::Hold { shard }, _) => {
                root.gain(*shard, self.gained.clone(), &functions, &mut outcome);
            }
            (LargeChange::Begin { .. } | LargeChange::End { .. }, _) => {}
        }
        if !matches!(self.change, LargeChange::End { .. }) {
            self.relist = None;
        }
        let events = std::mem::take(&mut outcome.events);
        table.apply(&events);
        self.prepared = Some(Prepared { state: Current { root: Arc::new(root), table }, outcome });
        events
    }

    /// Makes the prepared state visible, in constant time.
    ///
    /// Returns false if the store has changed since [`prepare`](Self::prepare), for example because
    /// an index was added. The caller must then call `prepare` again. If the store is closed, the
    /// call has no effect and returns true.
    pub fn publish(&mut self) -> bool {
        let Some(Prepared { state, outcome }) = &mut self.prepared else { return false };
        if self.store.is_closed() {
            return true;
        }
        let (mut writer, _mark) = self.store.lock_writer();
        let mut current = self.store.shared.current.write();
        if !Arc::ptr_eq(&current.root, &self.before) {
            return false;
        }
        // The old state is dropped with this value.
        std::mem::swap(&mut *current, state);
        drop(current);
        if let LargeChange::Begin { without_reuse } = self.change {
            writer.relist = Some(Relist::new(without_reuse));
        }
        self.store.count(outcome);
        self.store.shared.changed.notify_waiters();
        true
    }
}

impl<T> std::fmt::Debug for LargeWrite<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LargeWrite").field("change", &self.change).finish_non_exhaustive()
    }
}
