//! The CEL rules of a schema (`x-kubernetes-validations`): the check of the rules when a CRD is written, and
//! their evaluation when a custom resource is written.

mod check;
mod compile;
mod eval;
mod functions;
mod names;
mod operations;
mod parse;
mod run;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::IdedExpr;

pub(crate) use compile::compile;
pub(crate) use run::condition;

/// The compiled rules of a node in the schema, and of the nodes below it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    own: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

impl Rules {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.properties.is_empty() && self.items.is_none() && self.additional.is_none()
    }
}

#[derive(Debug)]
struct Rule {
    program: IdedExpr,
    message_program: Option<IdedExpr>,
    uses_old_self: bool,
    /// True if `oldSelf` is an optional value.
    optional_old_self: bool,
    /// The message, or the expression if the rule has no message.
    label: String,
    has_message: bool,
    reason: String,
    /// The path below the node. Empty if the rule has no `fieldPath`.
    field_path: String,
}
