//! Admission webhooks: mutating webhooks before an object is validated, then validating webhooks.

mod hook;
mod review;
mod run;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::access::users::User;
use crate::schemas::kinds::kind::ScalePaths;
use crate::state::Shared;
use crate::write::Target;
use crate::write::strict::Warnings;
use hook::Hook;

/// The request that the webhooks review. Writes of the server itself have none, and call no webhooks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub user: User,
    pub dry_run: bool,
    /// The options in the query or body of the request.
    pub options: Value,
    /// True for a delete of a collection, whose reviews contain no name.
    pub is_collection: bool,
    pub warnings: Warnings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> String {
        format!("{self:?}").to_uppercase()
    }
}

pub(crate) struct Admission<'a> {
    pub shared: &'a Shared,
    pub target: &'a Target,
    /// The name of the object. Empty if the server has not generated it yet.
    pub name: String,
    caller: &'a Caller,
    operation: Operation,
    subresource: &'static str,
    mutating: Vec<Hook>,
    validating: Vec<Hook>,
}

impl<'a> Admission<'a> {
    /// Returns the webhooks for a write. Returns `None` if no rule matches.
    pub(crate) fn of(
        shared: &'a Shared,
        target: &'a Target,
        operation: Operation,
        subresource: &'static str,
        caller: Option<&'a Caller>,
    ) -> Option<Self> {
        let caller = caller?;
        let find = |plural| hook::matching(shared, plural, target.kind(), operation, subresource);
        let [mutating, validating] =
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"].map(find);
        let is_reviewed = !mutating.is_empty() || !validating.is_empty();
        is_reviewed.then(|| Self {
            shared,
            target,
            name: target.name.clone(),
            caller,
            operation,
            subresource,
            mutating,
            validating,
        })
    }

    /// Returns whether webhooks may change the object.
    pub(crate) fn mutates(&self) -> bool {
        !self.mutating.is_empty()
    }

    fn scale(&self) -> Option<&ScalePaths> {
        self.target.kind().scale.as_ref().filter(|_| self.subresource == "scale")
    }

    /// Returns the group, the version and the name of the kind that a client of this version writes.
    fn object_kind<'k>(&'k self, version: &'k str) -> [&'k str; 3] {
        let kind = self.target.kind();
        match self.subresource {
            "scale" => ["autoscaling", "v1", "Scale"],
            "binding" => ["", "v1", "Binding"],
            "eviction" => ["policy", "v1", "Eviction"],
            _ => [&kind.group, version, &kind.kind],
        }
    }
}
