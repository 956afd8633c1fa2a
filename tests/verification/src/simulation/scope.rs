//! The objects of an informer, and the events that a write causes. A selector turns changes into
//! additions and deletions.

use kube_testserver::{Request, RequestMatch};

use super::{
    history::Uids,
    workload::{PLURAL, State, place, value},
};
use crate::properties::{Key, Object, Observation};

/// One namespace or all namespaces, with or without a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) namespace: Option<&'static str>,
    /// Only objects with the label.
    pub(super) labelled: bool,
    /// Statuses are seen.
    pub(super) status: bool,
}

impl Scope {
    /// The label selector.
    pub(super) fn selector(&self) -> &'static str {
        if self.labelled { "on=yes" } else { "" }
    }

    /// Returns a match for the requests of this informer. Each informer has a different path or
    /// selector.
    pub(super) fn requests(&self) -> RequestMatch {
        let scope = *self;
        RequestMatch::any().when(move |request| scope.asks(request))
    }

    /// Returns whether a request is from this informer.
    pub(super) fn asks(&self, request: &Request) -> bool {
        request.info.resource == PLURAL
            && request.info.namespace.as_deref() == self.namespace
            && request.query.contains("labelSelector=") == self.labelled
    }

    fn contains(&self, key: Key, state: &State) -> bool {
        self.namespace.is_none_or(|namespace| namespace == place(key).0) && (state.labelled || !self.labelled)
    }

    /// The object that a cache of this scope has of a state.
    fn object(&self, key: Key, state: &State, uids: &Uids) -> Object {
        let write = if self.status { state.write.max(state.status) } else { state.write };
        let value = value(write, state.deleted.as_ref());
        Object { key, uid: uids.number(&state.uid), version: state.version, value }
    }

    /// Returns the observation of a write at a version, if there is one.
    pub(super) fn observes(
        &self,
        key: Key,
        before: Option<&State>,
        after: Option<&State>,
        version: u64,
        uids: &Uids,
    ) -> Option<Observation<'static>> {
        let seen = |state: &&State| self.contains(key, state);
        match (before.filter(seen), after.filter(seen)) {
            (_, Some(state)) => {
                let object = self.object(key, state, uids);
                Some(Observation::Written { object, decodable: !state.bad })
            }
            (Some(_), None) => Some(Observation::Deleted { key, version }),
            (None, None) => None,
        }
    }
}
