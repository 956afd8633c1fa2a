//! `OptionalInformers`: the informers that a manager does not need.

use std::{collections::BTreeSet, sync::Arc};

use kube_informer::InformerStatus;

/// The names of informers without which a manager starts and is ready.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionalInformers(Arc<BTreeSet<String>>);

impl OptionalInformers {
    pub(super) fn add(&mut self, name: &str) {
        Arc::make_mut(&mut self.0).insert(name.to_owned());
    }

    pub(crate) fn contains(&self, informer: &InformerStatus) -> bool {
        self.0.contains(&informer.name)
    }
}
