//! Checks the types of an expression, with messages like those of cel-go.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, operators,
};
use std::sync::Arc;

use crate::schemas::crd::cel::operations::call;
use crate::schemas::crd::cel::types::{FUNCTIONS, Overload, PARAMS, Type};

/// The names of the types, which are values of the type `type`.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// Checks an expression in which the variables have these types. Returns its type.
///
/// # Errors
/// Returns all errors.
pub(super) fn check(tree: &IdedExpr, variables: Vec<(&str, Type)>) -> Result<Type, Vec<String>> {
    let mut checker = Checker { variables, errors: Vec::new(), allows_mixed: false };
    let kind = checker.node(tree);
    if checker.errors.is_empty() { Ok(kind) } else { Err(checker.errors) }
}

struct Checker<'a> {
    /// The variables in scope. The last variable with a name hides the others.
    variables: Vec<(&'a str, Type)>,
    errors: Vec<String>,
    /// True in the arguments of `format`, where the elements of a list may have different types.
    allows_mixed: bool,
}

impl<'a> Checker<'a> {
    fn fail(&mut self, text: String) -> Type {
        self.errors.push(text);
        Type::Dyn
    }

    fn node(&mut self, tree: &'a IdedExpr) -> Type {
        match &tree.expr {
            Expr::Literal(literal) => Type::Named(literal_type(literal)),
            Expr::Ident(name) => match self.variable(name) {
                Some(kind) => kind,
                None if TYPE_NAMES.contains(&name.as_str()) => Type::Named("type"),
                None => self.fail(format!("undeclared reference to '{name}' (in container '')")),
            },
            Expr::Select(select) => {
                let operand = self.node(&select.operand);
                let kind = self.select(&operand, &select.field);
                if select.test { Type::Named("bool") } else { kind }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::List(list) => {
                let mut items = None;
                for (index, element) in list.elements.iter().enumerate() {
                    let kind = self.node(element);
                    self.join(&mut items, present(kind, list.optional_indices.contains(&index)));
                }
                Type::List(Arc::new(items.unwrap_or(Type::Dyn)))
            }
            Expr::Map(map) => self.map(map),
            Expr::Struct(all) => {
                self.fail(format!("undeclared reference to '{}' (in container '')", all.type_name))
            }
            Expr::Unspecified => Type::Dyn,
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        self.variables.iter().rev().find(|(other, _)| *other == name).map(|(_, kind)| kind.clone())
    }

    fn map(&mut self, map: &'a MapExpr) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.node(&entry.key);
            self.join(&mut keys, key);
            let value = self.node(&entry.value);
            self.join(&mut values, present(value, entry.optional));
        }
        let [keys, values] = [keys, values].map(|kind| Arc::new(kind.unwrap_or(Type::Dyn)));
        Type::Map(keys, values)
    }

    /// Adds an element to the common type of a literal list or map.
    fn join(&mut self, common: &mut Option<Type>, kind: Type) {
        match common {
            None => *common = Some(kind),
            Some(common) if common.accepts(&kind) => {}
            Some(common) if self.allows_mixed => *common = Type::Dyn,
            Some(common) => {
                self.fail(format!("expected type '{common}' but found '{kind}'"));
            }
        }
    }

    fn select(&mut self, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Optional(inner) => Type::Optional(Arc::new(self.select(inner, field))),
            Type::Map(_, values) => (**values).clone(),
            Type::Object(object) => match object.field(field) {
                Some(kind) => kind.clone(),
                None => self.fail(format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => self.fail(format!("type '{other}' does not support field selection")),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Type {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, args) => {
                args.iter().for_each(|arg| self.expect_bool(arg));
                Type::Named("bool")
            }
            (operators::OPT_SELECT, None, [operand, field]) => {
                let operand = self.node(operand);
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else { return Type::Dyn };
                match self.select(&operand, field.inner()) {
                    kind @ Type::Optional(_) => kind,
                    kind => Type::Optional(Arc::new(kind)),
                }
            }
            (
                name @ ("optMap" | "optFlatMap"),
                Some(target),
                [IdedExpr { expr: Expr::Ident(variable), .. }, body],
            ) => {
                let inner = match self.node(target) {
                    Type::Optional(inner) => (*inner).clone(),
                    Type::Dyn => Type::Dyn,
                    other => return self.no_overload(name, true, &[other]),
                };
                self.variables.push((variable, inner));
                let kind = self.node(body);
                self.variables.pop();
                if name == "optMap" { Type::Optional(Arc::new(kind)) } else { kind }
            }
            (name, target, args) => {
                let qualified =
                    target.and_then(|target| self.namespace(target)).map(|space| format!("{space}.{name}"));
                match qualified.filter(|name| FUNCTIONS.contains_key(name.as_str())) {
                    Some(name) => self.function(&name, None, args),
                    None => self.function(name, target, args),
                }
            }
        }
    }

    /// Returns the name before a function such as `sets.contains`.
    fn namespace<'b>(&self, target: &'b IdedExpr) -> Option<&'b str> {
        match &target.expr {
            Expr::Ident(name) if self.variable(name).is_none() => Some(name),
            _ => None,
        }
    }

    fn expect_bool(&mut self, tree: &'a IdedExpr) {
        let kind = self.node(tree);
        if !Type::Named("bool").accepts(&kind) {
            self.fail(format!("expected type 'bool' but found '{kind}'"));
        }
    }

    fn function(&mut self, name: &str, target: Option<&'a IdedExpr>, args: &'a [IdedExpr]) -> Type {
        let count = args.len() + usize::from(target.is_some());
        let fits =
            |overload: &&Overload| overload.is_method == target.is_some() && overload.params.len() == count;
        let overloads = FUNCTIONS.get(name);
        if overloads.and_then(|all| all.iter().find(fits)).is_some_and(|first| !first.is_supported) {
            let text =
                format!("kube-testserver does not support the function '{name}' with {count} parameters");
            return self.fail(text);
        }
        let outer = std::mem::replace(&mut self.allows_mixed, name == "format");
        let kinds: Vec<Type> = target.into_iter().chain(args).map(|arg| self.node(arg)).collect();
        self.allows_mixed = outer;
        let Some(overloads) = overloads else {
            return self.fail(format!("undeclared reference to '{name}' (in container '')"));
        };
        self.check_literal(name, args);
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(fits) {
            let mut bound = [const { None }; PARAMS];
            if overload.params.iter().zip(&kinds).all(|(param, kind)| param.binds(kind, &mut bound)) {
                let found = overload.result.filled(&bound);
                result = Some(match result {
                    Some(other) if other.to_string() != found.to_string() => Type::Dyn,
                    _ => found,
                });
            }
        }
        result.unwrap_or_else(|| self.no_overload(name, target.is_some(), &kinds))
    }

    fn no_overload(&mut self, name: &str, is_method: bool, kinds: &[Type]) -> Type {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        let signature = match kinds.split_first() {
            Some((target, args)) if is_method => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", kinds.join(", ")),
        };
        self.fail(format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    /// Rejects literal arguments that cannot be parsed.
    fn check_literal(&mut self, name: &str, args: &[IdedExpr]) {
        let [IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }, ..] = args else { return };
        let text = text.inner();
        let is_invalid = match name {
            "matches" => regex::Regex::new(text).is_err(),
            "duration" | "timestamp" => call(name, None, vec![Value::String(Arc::new(text.into()))]).is_err(),
            _ => false,
        };
        if is_invalid {
            self.fail(format!("invalid {name} argument"));
        }
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Type {
        let range = self.node(&all.iter_range);
        let initial = self.node(&all.accu_init);
        let item = match &range {
            Type::List(items) => (**items).clone(),
            Type::Map(keys, _) => (**keys).clone(),
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fail(text)
            }
        };
        self.variables.extend([(all.accu_var.as_str(), initial.clone()), (all.iter_var.as_str(), item)]);
        self.expect_bool(&all.loop_cond);
        let step = self.node(&all.loop_step);
        if !initial.accepts(&step) {
            self.fail(format!("expected type '{initial}' but found '{step}'"));
        }
        self.variables.pop();
        if let (Some((_, result)), Type::List(_)) = (self.variables.last_mut(), &initial) {
            // The initial list is empty, so it has no type of items.
            *result = step;
        }
        let result = self.node(&all.result);
        self.variables.pop();
        result
    }
}

/// Returns the type of an element that is omitted if it is optional and absent.
fn present(kind: Type, is_optional: bool) -> Type {
    match kind {
        Type::Optional(inner) if is_optional => (*inner).clone(),
        kind => kind,
    }
}

fn literal_type(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    }
}
