//! Checks an expression when the CRD is written: names of variables, fields and functions. The types of
//! operands are not checked; the evaluation for an object reports them.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::Value as Json;

use crate::schemas::crd::cel::functions::{is_supported, is_unsupported};
use crate::schemas::crd::cel::names::{escape, escape_reserved};
use crate::schemas::crd::schema::node::{self, Additional, flag, text};

/// The names of the types, which are values of the type `type`.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// The known properties of a value.
#[derive(Clone, Copy)]
pub(super) enum Known<'a> {
    Nothing,
    Literal(&'static str),
    Schema(&'a Json),
    Metadata,
}

impl Known<'_> {
    /// Returns whether the value has certainly another type than `wanted`, which is `bool` or `string`.
    pub(super) fn is_not(self, wanted: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Literal(kind) => kind != wanted,
            Self::Schema(schema) => {
                let kind = text(schema, "type").trim_end_matches("ean");
                kind != wanted && !flag(schema, "x-kubernetes-int-or-string")
            }
            Self::Metadata => true,
        }
    }
}

/// Returns whether rules can use the values of a schema.
pub(super) fn is_declared(schema: &Json) -> bool {
    match (text(schema, "type"), node::additional(schema)) {
        _ if flag(schema, "x-kubernetes-int-or-string") => true,
        ("array", _) => node::items(schema).is_some_and(is_declared),
        ("object", Additional::Schema(values)) => is_declared(values),
        (kind, _) => !kind.is_empty(),
    }
}

/// Checks an expression for values of a schema. `is_root` is true for the schema of a resource.
///
/// # Errors
/// Returns all errors.
pub(super) fn check<'a>(
    tree: &'a IdedExpr,
    schema: &'a Json,
    is_root: bool,
) -> Result<Known<'a>, Vec<String>> {
    let variables = ["self", "oldSelf"].map(|name| (name, Known::Schema(schema)));
    let resource = is_root.then_some(schema);
    let mut checker = Checker { variables: variables.into(), resource, errors: Vec::new() };
    let known = checker.node(tree);
    if checker.errors.is_empty() { Ok(known) } else { Err(checker.errors) }
}

struct Checker<'a> {
    /// The variables in scope. The last variable with a name hides the others.
    variables: Vec<(&'a str, Known<'a>)>,
    /// The schema of the resource, if it is in scope.
    resource: Option<&'a Json>,
    errors: Vec<String>,
}

impl<'a> Checker<'a> {
    fn fail(&mut self, text: String) -> Known<'a> {
        self.errors.push(text);
        Known::Nothing
    }

    fn undeclared(&mut self, name: &str) -> Known<'a> {
        self.fail(format!("undeclared reference to '{name}' (in container '')"))
    }

    fn node(&mut self, tree: &'a IdedExpr) -> Known<'a> {
        match &tree.expr {
            Expr::Literal(literal) => Known::Literal(match literal {
                LiteralValue::Boolean(_) => "bool",
                LiteralValue::String(_) => "string",
                _ => "other",
            }),
            Expr::Ident(name) => match self.variable(name) {
                Some(known) => known,
                None if TYPE_NAMES.contains(&name.as_str()) => Known::Nothing,
                None => self.undeclared(name),
            },
            Expr::Select(select) => {
                let operand = self.node(&select.operand);
                let known = self.select(operand, &select.field);
                if select.test { Known::Literal("bool") } else { known }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::List(list) => {
                self.nodes(&list.elements);
                Known::Literal("list")
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    self.node(&entry.key);
                    self.node(&entry.value);
                }
                Known::Literal("map")
            }
            Expr::Struct(all) => self.undeclared(&all.type_name),
            Expr::Unspecified => Known::Nothing,
        }
    }

    fn nodes(&mut self, trees: &'a [IdedExpr]) {
        for tree in trees {
            self.node(tree);
        }
    }

    fn variable(&self, name: &str) -> Option<Known<'a>> {
        self.variables.iter().rev().find(|(other, _)| *other == name).map(|(_, known)| *known)
    }

    fn select(&mut self, operand: Known<'a>, field: &str) -> Known<'a> {
        let found = match operand {
            Known::Schema(schema) => self.field(schema, field),
            Known::Metadata => ["name", "generateName"].contains(&field).then_some(Known::Nothing),
            Known::Literal(_) | Known::Nothing => Some(Known::Nothing),
        };
        found.unwrap_or_else(|| self.fail(format!("undefined field '{field}'")))
    }

    /// Returns a field of the values of a schema, by its escaped name.
    fn field(&self, schema: &'a Json, name: &str) -> Option<Known<'a>> {
        let is_resource =
            node::is_embedded(schema) || self.resource.is_some_and(|resource| std::ptr::eq(resource, schema));
        match (node::additional(schema), name) {
            _ if flag(schema, "x-kubernetes-int-or-string") => Some(Known::Nothing),
            (Additional::Schema(values), _) => Some(Known::Schema(values)),
            (_, "metadata") if is_resource => Some(Known::Metadata),
            (_, "kind" | "apiVersion") if is_resource => Some(Known::Literal("string")),
            _ => {
                let names = [Some(name.to_owned()), escape_reserved(name)];
                let is_named = |field: &str| escape(field).is_some_and(|field| names.contains(&Some(field)));
                let mut properties = node::properties(schema).filter(|(_, schema)| is_declared(schema));
                properties.find(|(field, _)| is_named(field)).map(|(_, schema)| Known::Schema(schema))
            }
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Known<'a> {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (
                operators::OPT_SELECT,
                None,
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }],
            ) => {
                let operand = self.node(operand);
                self.select(operand, field.inner())
            }
            (operators::INDEX | operators::OPT_INDEX, None, [container, key]) => {
                self.node(key);
                match self.node(container) {
                    Known::Schema(schema) => element(schema),
                    _ => Known::Nothing,
                }
            }
            ("optMap" | "optFlatMap", Some(target), [IdedExpr { expr: Expr::Ident(variable), .. }, body]) => {
                let value = self.node(target);
                self.variables.push((variable, value));
                self.node(body);
                self.variables.pop();
                Known::Nothing
            }
            (name, None, args) if !name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                self.nodes(args);
                Known::Nothing
            }
            (name, target, args) => self.function(name, target, args),
        }
    }

    fn function(&mut self, name: &str, target: Option<&'a IdedExpr>, args: &'a [IdedExpr]) -> Known<'a> {
        let space = target.and_then(|target| match &target.expr {
            Expr::Ident(space) if self.variable(space).is_none() => Some(space),
            _ => None,
        });
        let (full, target) = match (space, target) {
            (Some(space), _) => (format!("{space}.{name}"), None),
            (None, Some(_)) => (format!(".{name}"), target),
            (None, None) => (name.to_owned(), None),
        };
        if is_unsupported(&full, args.len()) {
            let count = args.len() + usize::from(target.is_some());
            let name = full.trim_start_matches('.');
            let text =
                format!("kube-testserver does not support the function '{name}' with {count} parameters");
            return self.fail(text);
        }
        let known = target.map(|target| self.node(target));
        self.nodes(args);
        if !is_supported(&full, args.len()) {
            return self.fail(format!("found no function '{full}' with {} arguments", args.len()));
        }
        // The value of an optional value has the same fields.
        known.filter(|_| name == "value").unwrap_or(Known::Nothing)
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Known<'a> {
        let item = match self.node(&all.iter_range) {
            Known::Schema(schema) if text(schema, "type") == "array" => element(schema),
            _ => Known::Nothing,
        };
        self.node(&all.accu_init);
        self.variables.extend([(all.accu_var.as_str(), Known::Nothing), (all.iter_var.as_str(), item)]);
        self.node(&all.loop_cond);
        self.node(&all.loop_step);
        self.variables.pop();
        self.node(&all.result);
        self.variables.pop();
        Known::Nothing
    }
}

/// Returns the items of a list, or the values of a map.
fn element(schema: &Json) -> Known<'_> {
    match (node::items(schema), node::additional(schema)) {
        (Some(element), _) | (None, Additional::Schema(element)) => Known::Schema(element),
        _ => Known::Nothing,
    }
}
