//! The served kinds, and the tables of their objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::schemas::kinds::kind::Kind;
use crate::storage::log::TableId;

/// A served kind, and the table of its objects.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub kind: Arc<Kind>,
    pub table: TableId,
    /// The incarnation of the table. It increases if a deleted CRD is created again.
    pub incarnation: u32,
}

/// The served kinds by path.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// The kinds by group, then version, then plural name. Groups and versions without resources are not
    /// included.
    groups: BTreeMap<String, BTreeMap<String, BTreeMap<String, Served>>>,
    /// The table of each custom resource by group and plural. Tables of deleted CRDs stay, because a
    /// restore can restore the CRD.
    custom: BTreeMap<(Box<str>, Box<str>), TableId>,
}

impl Registry {
    pub(crate) fn add(&mut self, served: Served) {
        let kind = &served.kind;
        let versions = self.groups.entry(kind.group.clone()).or_default();
        let resources = versions.entry(kind.version.clone()).or_default();
        resources.insert(kind.plural.clone(), served);
    }

    /// Stops serving a resource in all its versions.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.retain(|kind| kind.group != group || kind.plural != plural);
    }

    pub(crate) fn remove_custom(&mut self) {
        self.retain(|kind| !kind.rules.custom);
    }

    fn retain(&mut self, stays: impl Fn(&Kind) -> bool) {
        for versions in self.groups.values_mut() {
            for resources in versions.values_mut() {
                resources.retain(|_, served| stays(&served.kind));
            }
            versions.retain(|_, resources| !resources.is_empty());
        }
        self.groups.retain(|_, versions| !versions.is_empty());
    }

    /// Returns the table of a custom resource. If it has no table, `make` creates the table.
    pub(crate) fn custom_table(
        &mut self,
        group: &str,
        plural: &str,
        make: impl FnOnce() -> TableId,
    ) -> TableId {
        *self.custom.entry((group.into(), plural.into())).or_insert_with(make)
    }

    pub(crate) fn find_custom_table(&self, group: &str, plural: &str) -> Option<TableId> {
        self.custom.get(&(group.into(), plural.into())).copied()
    }

    /// Returns the tables of all custom resources, including the resources of deleted CRDs.
    pub(crate) fn custom_tables(&self) -> impl Iterator<Item = TableId> {
        self.custom.values().copied()
    }

    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&BTreeMap<String, Served>> {
        self.groups.get(group)?.get(version)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.resources(group, version)?.get(plural)
    }

    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Served> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.resources(group, version)?.values().find(|served| served.kind.kind == kind)
    }

    /// Returns every kind in each of its versions.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.served().map(|served| &*served.kind)
    }

    /// Returns every resource in each of its versions.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Served> {
        self.groups.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }

    /// Returns every resource once, in one of its versions.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Served> {
        self.groups.values().flat_map(|versions| {
            let mut seen = BTreeMap::new();
            for served in versions.values().flat_map(BTreeMap::values) {
                seen.entry(served.kind.plural.as_str()).or_insert(served);
            }
            seen.into_values()
        })
    }
}
