//! Compiles the rules of a schema, with the errors of kube-apiserver for a CRD.

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value as Json;

use crate::schemas::crd::cel::check::{check, is_declared};
use crate::schemas::crd::cel::parse::parse;
use crate::schemas::crd::cel::{Rule, Rules};
use crate::schemas::crd::check::field_path;
use crate::schemas::crd::schema::node::{self, Additional, flag, properties, text};
use crate::status::Cause;

/// Compiles the rules of the schema at the field `at`. Returns the causes for invalid rules.
pub(crate) fn compile(schema: &Json, at: &str) -> (Rules, Vec<Cause>) {
    let mut causes = Vec::new();
    let place = Place { at: at.into(), is_root: true, uncorrelated: None };
    (node(schema, &place, &mut causes), causes)
}

struct Place {
    at: String,
    is_root: bool,
    /// The field of the first list or map above the node whose old and new items cannot be matched.
    uncorrelated: Option<String>,
}

fn node(schema: &Json, place: &Place, causes: &mut Vec<Cause>) -> Rules {
    let mut rules = Rules::default();
    let mut below = |schema: &Json, part: &str, is_matched: bool| {
        let uncorrelated = place.uncorrelated.clone().or_else(|| (!is_matched).then(|| place.at.clone()));
        let place = Place { at: format!("{}.{part}", place.at), is_root: false, uncorrelated };
        Some(Box::new(node(schema, &place, causes))).filter(|rules| !rules.is_empty())
    };
    if let Some(items) = node::items(schema) {
        rules.items = below(items, "items", text(schema, "x-kubernetes-list-type") == "map");
    }
    for (name, property) in properties(schema) {
        if let Some(below) = below(property, &format!("properties[{name}]"), true) {
            rules.properties.insert(name.clone(), *below);
        }
    }
    if let Additional::Schema(values) = node::additional(schema) {
        rules.additional = below(values, "additionalProperties", true);
    }
    let own = schema.get("x-kubernetes-validations").and_then(Json::as_array).into_iter().flatten();
    for (index, rule) in own.enumerate() {
        let at = format!("{}.x-kubernetes-validations[{index}]", place.at);
        rules.own.extend(compile_rule(rule, schema, place, &at, causes));
    }
    rules
}

fn compile_rule(
    rule: &Json,
    schema: &Json,
    place: &Place,
    at: &str,
    causes: &mut Vec<Cause>,
) -> Option<Rule> {
    let source = text(rule, "rule");
    if !is_declared(schema) {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                      unable to convert structural schema to CEL declarations";
        causes.push(Cause::internal(at.rsplit_once('[').map_or(at, |(field, _)| field), detail));
        return None;
    }
    let optional_old_self = flag(rule, "optionalOldSelf");
    let expression = |source: &str, wanted: &'static str, failed: &str, mistyped: &str| {
        let program = parse(source, |tree| {
            let is_mistyped = check(&tree, schema, place.is_root)?.is_not(wanted);
            Ok((tree, is_mistyped))
        });
        match program {
            Ok((tree, false)) => Ok(tree),
            Ok(_) => Err(mistyped.to_owned()),
            Err(error) => Err(format!("{failed}compilation failed: {error}")),
        }
    };
    let mut reject = |field: &str, detail: &str| {
        causes.push(Cause::invalid(&format!("{at}.{field}"), &rule.to_string(), detail));
    };
    let program = expression(source, "bool", "", "cel expression must evaluate to a bool");
    let program = program.map_err(|detail| reject("rule", &detail)).ok();
    let message_program =
        Some(text(rule, "messageExpression")).filter(|text| !text.is_empty() && program.is_some());
    let message_program = message_program.and_then(|source| {
        let program =
            expression(source, "string", "messageExpression ", "messageExpression must evaluate to a string");
        program.map_err(|detail| reject("messageExpression", &detail)).ok()
    });
    let uses_old_self = program.as_ref().is_some_and(uses_old_self);
    if let Some(path) = place.uncorrelated.as_ref().filter(|_| uses_old_self) {
        let detail =
            format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
        causes.push(Cause::invalid(&format!("{at}.rule"), &Json::from(source).to_string(), &detail));
    }
    if let Some(set) = rule.get("optionalOldSelf").filter(|set| set.is_boolean() && !uses_old_self) {
        let detail = "may not be set if oldSelf is not used in rule";
        causes.push(Cause::invalid(&format!("{at}.optionalOldSelf"), &set.to_string(), detail));
    }
    let message = text(rule, "message").trim();
    Some(Rule {
        program: program?,
        message_program,
        uses_old_self,
        optional_old_self,
        label: if message.is_empty() { source.trim() } else { message }.into(),
        has_message: !message.is_empty(),
        reason: text(rule, "reason").into(),
        field_path: field_path::parse(text(rule, "fieldPath"), schema).unwrap_or_default(),
    })
}

fn uses_old_self(tree: &IdedExpr) -> bool {
    tree.references().has_variable("oldSelf")
}
