//! Evaluates expressions within a budget. The interpreter of the `cel` crate has no limits.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, operators,
};
use kube_cel::cel::objects::{Key, Map};

use crate::schemas::crd::cel::check::TYPE_NAMES;
use crate::schemas::crd::cel::operations::{
    Evaluated, Failure, apply, cost, error, failure, field, literal_value, no_overload, option, optional,
    type_value,
};

/// Evaluates an expression. Subtracts its cost from `budget`.
///
/// # Errors
/// Fails if the expression has no value, or if the budget is spent.
pub(super) fn evaluate(
    tree: &IdedExpr,
    variables: &[(&'static str, Value)],
    budget: &mut usize,
) -> Evaluated {
    let mut evaluator = Evaluator { variables: variables.to_vec(), budget };
    // A function of the libraries may panic, for example for times out of range.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| evaluator.node(tree)));
    result.unwrap_or_else(|_| error("a function failed unexpectedly"))
}

struct Evaluator<'a> {
    variables: Vec<(&'a str, Value)>,
    budget: &'a mut usize,
}

impl<'a> Evaluator<'a> {
    fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        *self.budget = self.budget.checked_sub(steps).ok_or(Failure::OverBudget)?;
        Ok(())
    }

    fn node(&mut self, tree: &'a IdedExpr) -> Evaluated {
        self.spend(1)?;
        match &tree.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => match self.variables.iter().rev().find(|(other, _)| other == name) {
                Some((_, value)) => Ok(value.clone()),
                None if TYPE_NAMES.contains(&name.as_str()) => Ok(type_value(name)),
                None => error(&format!("no such attribute(s): {name}")),
            },
            Expr::Select(select) => {
                let operand = self.node(&select.operand)?;
                let found = field(&operand, &select.field)?;
                match (select.test, optional(&operand)) {
                    (true, _) => Ok(Value::Bool(found.is_some())),
                    (false, Some(_)) => Ok(option(found)),
                    (false, None) => {
                        found.map_or_else(|| error(&format!("no such key: {}", select.field)), Ok)
                    }
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let value = self.node(element)?;
                    match optional(&value).filter(|_| list.optional_indices.contains(&index)) {
                        Some(inner) => items.extend(inner.value().cloned()),
                        None => items.push(value),
                    }
                }
                Ok(Value::List(items.into()))
            }
            Expr::Map(map) => self.map(map),
            Expr::Struct(_) | Expr::Unspecified => no_overload(),
        }
    }

    fn map(&mut self, map: &'a MapExpr) -> Evaluated {
        let mut entries = HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return no_overload() };
            let (key, value) = (self.node(&entry.key)?, self.node(&entry.value)?);
            let Ok(key) = TryInto::<Key>::try_into(key) else { return error("unsupported key type") };
            match optional(&value).filter(|_| entry.optional) {
                Some(inner) => entries.extend(inner.value().cloned().map(|value| (key, value))),
                None => drop(entries.insert(key, value)),
            }
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (operators::CONDITIONAL, None, [condition, yes, no]) => match self.node(condition)? {
                Value::Bool(true) => self.node(yes),
                Value::Bool(false) => self.node(no),
                _ => no_overload(),
            },
            (operators::LOGICAL_AND, None, [left, right]) => self.logical(left, right, false),
            (operators::LOGICAL_OR, None, [left, right]) => self.logical(left, right, true),
            (operators::NOT_STRICTLY_FALSE, None, [condition]) => match self.node(condition) {
                Err(Failure::OverBudget) => Err(Failure::OverBudget),
                result => Ok(Value::Bool(result != Ok(Value::Bool(false)))),
            },
            (operators::ADD, None, [IdedExpr { expr: Expr::Ident(name), .. }, list]) if name == "@result" => {
                self.append(list)
            }
            (
                operators::OPT_SELECT,
                None,
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }],
            ) => {
                let operand = self.node(operand)?;
                Ok(option(field(&operand, name.inner())?))
            }
            (
                name @ ("optMap" | "optFlatMap"),
                Some(target),
                [IdedExpr { expr: Expr::Ident(variable), .. }, body],
            ) => {
                let target = self.node(target)?;
                let Some(inner) = optional(&target) else { return no_overload() };
                let Some(value) = inner.value() else { return Ok(target) };
                self.variables.push((variable, value.clone()));
                let result = self.node(body);
                self.variables.pop();
                if name == "optMap" { Ok(option(Some(result?))) } else { result }
            }
            (name, target, args) => self.function(name, target, args),
        }
    }

    /// Evaluates `&&` and `||`. An error has no effect if the other side decides the result.
    fn logical(&mut self, left: &'a IdedExpr, right: &'a IdedExpr, decisive: bool) -> Evaluated {
        let left = self.node(left);
        if left == Ok(Value::Bool(decisive)) || left == Err(Failure::OverBudget) {
            return left;
        }
        match (left, self.node(right)) {
            (_, right) if right == Ok(Value::Bool(decisive)) || right == Err(Failure::OverBudget) => right,
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            _ => no_overload(),
        }
    }

    /// Evaluates `@result + list`, the step of `map` and `filter`, without a copy of the result.
    fn append(&mut self, list: &'a IdedExpr) -> Evaluated {
        let added = self.node(list)?;
        let slot = self.variables.iter_mut().rev().find(|(name, _)| *name == "@result");
        let result = slot.map_or(Value::Null, |(_, value)| std::mem::replace(value, Value::Null));
        match (result, added) {
            (Value::List(mut result), Value::List(added)) => {
                Arc::make_mut(&mut result).extend(added.iter().cloned());
                Ok(Value::List(result))
            }
            (result, added) => (result + added).map_err(|error| failure(&error)),
        }
    }

    fn function(&mut self, name: &str, target: Option<&'a IdedExpr>, args: &'a [IdedExpr]) -> Evaluated {
        let space = target.and_then(|target| match &target.expr {
            Expr::Ident(space) if self.variables.iter().all(|(name, _)| name != space) => Some(space),
            _ => None,
        });
        let qualified = space.map(|space| format!("{space}.{name}"));
        let target = if space.is_some() { None } else { target };
        let target = target.map(|target| self.node(target)).transpose()?;
        let args: Vec<Value> = args.iter().map(|arg| self.node(arg)).collect::<Result<_, _>>()?;
        let name = qualified.as_deref().unwrap_or(name);
        self.spend(cost(name, target.as_ref(), &args))?;
        apply(name, target, args)
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Evaluated {
        let items: Vec<Value> = match self.node(&all.iter_range)? {
            Value::List(list) => list.to_vec(),
            Value::Map(map) => map.map.keys().map(Value::from).collect(),
            _ => return no_overload(),
        };
        self.spend(items.len())?;
        let initial = self.node(&all.accu_init)?;
        let depth = self.variables.len();
        self.variables.extend([(all.accu_var.as_str(), initial), (all.iter_var.as_str(), Value::Null)]);
        let result = self.iterate(all, items, depth);
        self.variables.truncate(depth);
        result
    }

    fn iterate(&mut self, all: &'a ComprehensionExpr, items: Vec<Value>, depth: usize) -> Evaluated {
        // The error of a step is the value of the result, because a later item can decide the result.
        let mut failed = None;
        for item in items {
            if failed.is_none() && self.node(&all.loop_cond)? == Value::Bool(false) {
                break;
            }
            self.set(depth + 1, item);
            match (self.node(&all.loop_step), &failed) {
                (Ok(value), _) if failed.is_none() || decides(all, &value) => {
                    self.set(depth, value);
                    failed = None;
                }
                (Err(Failure::OverBudget), _) => return Err(Failure::OverBudget),
                (Err(failure), None) => failed = Some(failure),
                _ => {}
            }
        }
        match failed {
            Some(failure) => Err(failure),
            None => self.node(&all.result),
        }
    }

    fn set(&mut self, index: usize, value: Value) {
        if let Some((_, slot)) = self.variables.get_mut(index) {
            *slot = value;
        }
    }
}

/// Returns whether a step of `all` or `exists` decides the result, whatever the other steps return.
fn decides(all: &ComprehensionExpr, value: &Value) -> bool {
    match &all.loop_step.expr {
        Expr::Call(step) if step.func_name == operators::LOGICAL_AND => *value == Value::Bool(false),
        Expr::Call(step) if step.func_name == operators::LOGICAL_OR => *value == Value::Bool(true),
        _ => false,
    }
}
