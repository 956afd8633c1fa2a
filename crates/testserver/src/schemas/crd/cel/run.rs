//! Evaluates the rules of an object, with the errors of kube-apiserver.

use std::collections::HashMap;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value as Json;

use crate::schemas::crd::cel::eval::evaluate;
use crate::schemas::crd::cel::operations::{Failure, option};
use crate::schemas::crd::cel::parse::parse;
use crate::schemas::crd::cel::values::{convert, untyped};
use crate::schemas::crd::cel::{Rule, Rules};
use crate::schemas::crd::schema::lists::key_of;
use crate::schemas::crd::schema::node::{self, Additional, text};
use crate::schemas::crd::schema::path::Path;
use crate::schemas::crd::schema::validate::NO_FIELD;
use crate::status::Cause;

/// The number of steps of one expression, and of all expressions for one object, as in Kubernetes.
const STEPS_PER_EXPRESSION: usize = 1_000_000;
const STEPS_PER_OBJECT: usize = 10_000_000;

/// The maximum length of a message from an expression.
const MAX_MESSAGE: usize = 5 * 1024;

/// The errors of an object.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub causes: Vec<Cause>,
    /// The errors of unchanged values, which an update tolerates.
    pub tolerated: Vec<Cause>,
}

impl Rules {
    /// Evaluates the rules for an object with this schema. `before` is the previous object of an update.
    pub(crate) fn validate(&self, schema: &Json, object: &Json, before: Option<&Json>) -> Outcome {
        let mut run = Run { outcome: Outcome::default(), budget: STEPS_PER_OBJECT };
        let values = Values { new: object, old: before, match_of: before, parent: None };
        // A spent budget ends the validation. The outcome contains its cause.
        let _ = run.node(self, schema, &values, &Path::default());
        run.outcome
    }
}

/// Evaluates a condition over values without types.
///
/// # Errors
/// Returns the error if the expression is invalid, or has no boolean value.
pub(crate) fn condition(source: &str, variables: &[(&'static str, &Json)]) -> Result<bool, String> {
    let program = parse(source, Ok)?;
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, untyped(value))).collect();
    match evaluate(&program, &variables, &mut STEPS_PER_EXPRESSION.clone()) {
        Ok(Value::Bool(value)) => Ok(value),
        Ok(_) => Err("cel expression must evaluate to bool".into()),
        Err(Failure::OverBudget) => Err("operation cancelled: actual cost limit exceeded".into()),
        Err(Failure::Error(error)) => Err(error),
    }
}

#[derive(Clone, Copy)]
struct Values<'a> {
    new: &'a Json,
    /// The value of `oldSelf`.
    old: Option<&'a Json>,
    /// The previous value for ratcheting.
    match_of: Option<&'a Json>,
    /// The new and previous value of the nearest node above that has a previous value.
    parent: Option<(&'a Json, &'a Json)>,
}

impl<'a> Values<'a> {
    fn below(&self, new: &'a Json, find: impl Fn(&'a Json) -> Option<&'a Json>) -> Self {
        let parent = self.match_of.map(|old| (self.new, old)).or(self.parent);
        Self { new, old: self.old.and_then(&find), match_of: self.match_of.and_then(&find), parent }
    }

    fn is_unchanged(&self) -> bool {
        match (self.match_of, self.parent) {
            (Some(old), _) => self.new == old,
            (None, Some((new, old))) => new == old,
            (None, None) => false,
        }
    }
}

struct Exhausted;

struct Run {
    outcome: Outcome,
    budget: usize,
}

impl Run {
    fn node(
        &mut self,
        rules: &Rules,
        schema: &Json,
        values: &Values<'_>,
        path: &Path,
    ) -> Result<(), Exhausted> {
        if values.new.is_null() {
            return Ok(());
        }
        self.own(rules, schema, values, path)?;
        match values.new {
            Json::Array(list) => self.items(rules, schema, list, values, path),
            Json::Object(map) => map.iter().try_for_each(|(key, new)| {
                // Kind and apiVersion of the object are never unchanged, because the version may differ.
                let is_type = path.text().is_empty() && matches!(key.as_str(), "kind" | "apiVersion");
                let mut below = values.below(new, |old| old.get(key).filter(|old| !old.is_null()));
                if is_type {
                    (below.match_of, below.parent) = (None, None);
                }
                match (rules.properties.get(key), node::property(schema, key), node::additional(schema)) {
                    (Some(rules), Some(schema), _) => self.node(rules, schema, &below, &path.field(key)),
                    (_, None, Additional::Schema(schema)) => rules
                        .additional
                        .as_deref()
                        .map_or(Ok(()), |rules| self.node(rules, schema, &below, &path.key(key))),
                    _ => Ok(()),
                }
            }),
            _ => Ok(()),
        }
    }

    fn items(
        &mut self,
        rules: &Rules,
        schema: &Json,
        list: &[Json],
        values: &Values<'_>,
        path: &Path,
    ) -> Result<(), Exhausted> {
        let (Some(rules), Some(items)) = (&rules.items, node::items(schema)) else { return Ok(()) };
        let is_map = text(schema, "x-kubernetes-list-type") == "map";
        // Only the items of lists with keys have previous values.
        let old_items = values.old.or(values.match_of).filter(|_| is_map).and_then(Json::as_array);
        let by_key: HashMap<String, &Json> =
            old_items.into_iter().flatten().map(|old| (key_of(old, schema).to_string(), old)).collect();
        for (index, item) in list.iter().enumerate() {
            let old = if is_map { by_key.get(&key_of(item, schema).to_string()).copied() } else { None };
            let below = values.below(item, |_| old);
            self.node(rules, items, &below, &path.item(index))?;
        }
        Ok(())
    }

    fn own(
        &mut self,
        rules: &Rules,
        schema: &Json,
        values: &Values<'_>,
        path: &Path,
    ) -> Result<(), Exhausted> {
        if rules.own.is_empty() {
            return Ok(());
        }
        let value = convert(values.new, schema);
        let old = values.old.map(|old| convert(old, schema));
        for rule in &rules.own {
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let old = if rule.optional_old_self { Some(option(old.clone())) } else { old.clone() };
            let variables: Vec<_> = [Some(("self", value.clone())), old.map(|old| ("oldSelf", old))]
                .into_iter()
                .flatten()
                .collect();
            let site = Site {
                rule,
                schema,
                values,
                at: if path.text().is_empty() { NO_FIELD } else { path.text() },
            };
            self.rule(&site, &variables)?;
        }
        Ok(())
    }

    fn rule(&mut self, site: &Site<'_>, variables: &[(&'static str, Value)]) -> Result<(), Exhausted> {
        let Site { rule, .. } = site;
        let detail = match self.evaluate(&rule.program, variables) {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => match &rule.message_program {
                Some(program) => self.message(site, program, variables)?,
                None => site.message(),
            },
            Err(failure) => {
                let is_spent = failure == Failure::OverBudget;
                let detail = match failure {
                    Failure::OverBudget => format!("the cost budget is spent after rule: {}", rule.label),
                    Failure::Error(error) if error.starts_with("no such overload") => format!(
                        "'{error}': call arguments did not match a supported operator, function or macro \
                         signature for rule: {}",
                        rule.label
                    ),
                    Failure::Error(error) => format!("{error} evaluating rule: {}", rule.label),
                };
                self.outcome.causes.push(site.error(&detail));
                return if is_spent { Err(Exhausted) } else { Ok(()) };
            }
        };
        let cause = site.cause(&detail);
        self.add(site, cause);
        Ok(())
    }

    /// Returns the message of a failed rule. The result of its expression must be one line.
    fn message(
        &mut self,
        site: &Site<'_>,
        program: &IdedExpr,
        variables: &[(&'static str, Value)],
    ) -> Result<String, Exhausted> {
        match self.evaluate(program, variables) {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let is_usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(if is_usable { text.into() } else { site.message() })
            }
            Err(Failure::OverBudget) => {
                self.add(site, site.error("the cost budget is spent evaluating messageExpression"));
                Err(Exhausted)
            }
            _ => Ok(site.message()),
        }
    }

    fn evaluate(
        &mut self,
        program: &IdedExpr,
        variables: &[(&'static str, Value)],
    ) -> Result<Value, Failure> {
        let limit = self.budget.min(STEPS_PER_EXPRESSION);
        let mut rest = limit;
        let result = evaluate(program, variables, &mut rest);
        self.budget -= if result == Err(Failure::OverBudget) { limit } else { limit - rest };
        result
    }

    /// Adds the cause of a failed rule. An update tolerates it if the value is unchanged.
    fn add(&mut self, site: &Site<'_>, cause: Cause) {
        if !site.rule.uses_old_self && site.values.is_unchanged() {
            self.outcome.tolerated.push(cause);
        } else {
            self.outcome.causes.push(cause);
        }
    }
}

/// A rule, and the value that it validates.
struct Site<'a> {
    rule: &'a Rule,
    schema: &'a Json,
    values: &'a Values<'a>,
    at: &'a str,
}

impl Site<'_> {
    fn message(&self) -> String {
        if self.rule.has_message {
            self.rule.label.clone()
        } else {
            format!("failed rule: {}", self.rule.label)
        }
    }

    /// Reports that a rule has no result.
    fn error(&self, detail: &str) -> Cause {
        Cause::invalid(self.at, &format!("{:?}", text(self.schema, "type")), detail)
    }

    /// Reports that a rule is not satisfied.
    fn cause(&self, detail: &str) -> Cause {
        let at = match (self.rule.field_path.as_str(), self.at) {
            ("", at) => at.to_owned(),
            (path, NO_FIELD) => path.to_owned(),
            (path, at) => format!("{at}.{path}"),
        };
        let shown = match text(self.schema, "type") {
            "object" | "array" => String::new(),
            _ => self.values.new.to_string(),
        };
        match self.rule.reason.as_str() {
            "FieldValueForbidden" => Cause::forbidden(&at, detail),
            "FieldValueRequired" => Cause::required(&at, detail),
            "FieldValueDuplicate" if shown.is_empty() => Cause::duplicate_omitted(&at),
            "FieldValueDuplicate" => Cause::duplicate(&at, &shown),
            _ if shown.is_empty() => Cause::invalid_omitted(&at, detail),
            _ => Cause::invalid(&at, &shown, detail),
        }
    }
}
