//! Compiles the rules of a schema, with the errors of kube-apiserver for a CRD.

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value as Json;

use crate::schemas::crd::cel::check::check;
use crate::schemas::crd::cel::names::escape;
use crate::schemas::crd::cel::parse::parse;
use crate::schemas::crd::cel::types::{Type, declared};
use crate::schemas::crd::cel::{Rule, Rules};
use crate::schemas::crd::check::field_path;
use crate::schemas::crd::schema::node::{self, Additional, flag, properties, text};
use crate::status::Cause;

/// Compiles the rules of the schema at the field `at`. Returns the causes for invalid rules.
pub(crate) fn compile(schema: &Json, at: &str) -> (Rules, Vec<Cause>) {
    let mut causes = Vec::new();
    let place = Place { at: at.into(), kind: declared(schema, true, "selfType"), uncorrelated: None };
    (node(schema, &place, &mut causes), causes)
}

/// The position of a node in the schema.
struct Place {
    at: String,
    /// The type of the values. `None` if rules cannot use them.
    kind: Option<Type>,
    /// The field of the first list or map above the node whose old and new items cannot be matched.
    uncorrelated: Option<String>,
}

impl Place {
    fn below(&self, part: &str, kind: Option<Type>, is_matched: bool) -> Self {
        let uncorrelated = self.uncorrelated.clone().or_else(|| (!is_matched).then(|| self.at.clone()));
        Self { at: format!("{}.{part}", self.at), kind, uncorrelated }
    }
}

fn node(schema: &Json, place: &Place, causes: &mut Vec<Cause>) -> Rules {
    let mut rules = Rules::default();
    if let Some(items) = node::items(schema) {
        let kind = match &place.kind {
            Some(Type::List(items)) => Some((**items).clone()),
            _ => declared(items, node::is_embedded(items), "selfType"),
        };
        let is_matched = text(schema, "x-kubernetes-list-type") == "map";
        rules.items = below(items, &place.below("items", kind, is_matched), causes);
    }
    for (name, property) in properties(schema) {
        let field = match (&place.kind, escape(name)) {
            (Some(Type::Object(object)), Some(field)) => object.fields.get(&field).cloned(),
            _ => None,
        };
        let kind = field.or_else(|| declared(property, node::is_embedded(property), "selfType"));
        let part = format!("properties[{name}]");
        if let Some(below) = below(property, &place.below(&part, kind, true), causes) {
            rules.properties.insert(name.clone(), *below);
        }
    }
    if let Additional::Schema(values) = node::additional(schema) {
        let kind = match &place.kind {
            Some(Type::Map(_, values)) => Some((**values).clone()),
            _ => declared(values, node::is_embedded(values), "selfType"),
        };
        rules.additional = below(values, &place.below("additionalProperties", kind, true), causes);
    }
    let own = schema.get("x-kubernetes-validations").and_then(Json::as_array).into_iter().flatten();
    for (index, rule) in own.enumerate() {
        let at = format!("{}.x-kubernetes-validations[{index}]", place.at);
        rules.own.extend(compile_rule(rule, schema, place, &at, causes));
    }
    rules
}

fn below(schema: &Json, place: &Place, causes: &mut Vec<Cause>) -> Option<Box<Rules>> {
    Some(Box::new(node(schema, place, causes))).filter(|rules| !rules.is_empty())
}

fn compile_rule(
    rule: &Json,
    schema: &Json,
    place: &Place,
    at: &str,
    causes: &mut Vec<Cause>,
) -> Option<Rule> {
    let source = text(rule, "rule");
    let Some(kind) = &place.kind else {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                      unable to convert structural schema to CEL declarations";
        causes.push(Cause::internal(at.rsplit_once('[').map_or(at, |(field, _)| field), detail));
        return None;
    };
    let optional_old_self = flag(rule, "optionalOldSelf");
    let expression = |source: &str, wanted: &'static str, failed: &str, mistyped: &str| {
        let program = parse(source, |tree| typed(tree, kind, optional_old_self));
        match program {
            Ok((tree, kind)) if kind == wanted => Ok(tree),
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

/// Returns a checked expression, and the name of its type.
fn typed(tree: IdedExpr, kind: &Type, optional_old_self: bool) -> Result<(IdedExpr, String), Vec<String>> {
    let old = if optional_old_self { Type::Optional(kind.clone().into()) } else { kind.clone() };
    let found = check(&tree, vec![("self", kind.clone()), ("oldSelf", old)])?;
    Ok((tree, found.to_string()))
}

fn uses_old_self(tree: &IdedExpr) -> bool {
    tree.references().has_variable("oldSelf")
}
