//! Operators and functions on values. The functions that are not here are those of `cel` and `kube-cel`.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::objects::{Key, Opaque, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Value};
use regex::{Regex, RegexBuilder};

use crate::schemas::crd::cel::names::escape_reserved;

/// The number of characters or bytes that cost as much as one step, as in Kubernetes.
const BYTES_PER_STEP: usize = 10;

/// The maximum size of a compiled pattern. A larger pattern needs too much time.
const PATTERN_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failure {
    OverBudget,
    Error(String),
}

pub(super) type Evaluated = Result<Value, Failure>;

#[derive(Debug, PartialEq, Eq)]
struct TypeName(String);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

pub(super) fn call(name: &str, target: Option<Value>, args: Vec<Value>) -> Evaluated {
    let mut scope = LIBRARY.new_inner_scope();
    let mut bind = |name: String, value: Value| {
        scope.add_variable_from_value(name.as_str(), value);
        IdedExpr { id: 0, expr: Expr::Ident(name) }
    };
    let target = target.map(|value| Box::new(bind("@target".into(), value)));
    let args = args.into_iter().enumerate().map(|(index, value)| bind(format!("@{index}"), value)).collect();
    let call = CallExpr { func_name: name.into(), target, args };
    scope.resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }).map_err(|error| failure(&error))
}

pub(super) fn error<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::Error(text.into()))
}

pub(super) fn no_overload<T>() -> Result<T, Failure> {
    error("no such overload")
}

pub(super) fn failure(error: &ExecutionError) -> Failure {
    Failure::Error(match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".into(),
        ExecutionError::Overflow(..) => "integer overflow".into(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".into(),
    })
}

pub(super) fn apply(name: &str, target: Option<Value>, args: Vec<Value>) -> Evaluated {
    match (name, target.as_ref(), args.as_slice()) {
        ("dyn", None, [value]) => Ok(value.clone()),
        ("type", None, [value]) => Ok(type_value(type_name(value))),
        (operators::LOGICAL_NOT, None, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        (operators::NEGATE, None, [Value::Int(number)]) => match number.checked_neg() {
            Some(number) => Ok(Value::Int(number)),
            None => error("integer overflow"),
        },
        (operators::NEGATE, None, [Value::Float(number)]) => Ok(Value::Float(-number)),
        (operators::INDEX, None, [container, key]) => index(container, key),
        (operators::OPT_INDEX, None, [container, key]) => match index(container, key) {
            Ok(value) => Ok(if optional(container).is_some() { value } else { option(Some(value)) }),
            Err(_) => Ok(option(None)),
        },
        (operators::IN, None, [item, container]) => {
            contains(item, container).map_or_else(no_overload, |is| Ok(Value::Bool(is)))
        }
        ("size", Some(value), []) | ("size", None, [value]) => size(value),
        ("matches", Some(Value::String(text)), [Value::String(pattern)])
        | ("matches", None, [Value::String(text), Value::String(pattern)]) => matches(text, pattern),
        ("bool", None, [Value::Bool(value)]) => Ok(Value::Bool(*value)),
        ("bool", None, [Value::String(text)]) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => error("type conversion error from 'string' to 'bool'"),
        },
        ("string", None, [Value::Bool(value)]) => Ok(Value::String(Arc::new(value.to_string()))),
        (_, None, [left, right]) if is_operator(name) => operator(name, left, right),
        _ => match optional_function(name, target.as_ref(), &args) {
            Some(result) => result,
            None => {
                let is_text = matches!(args.as_slice(), [Value::String(_)]);
                let result = call(name, target, args);
                if result.is_err() && is_text && ["int", "uint", "double"].contains(&name) {
                    return error(&format!("type conversion error from 'string' to '{name}'"));
                }
                result
            }
        },
    }
}

/// Matches a text. A rule usually has one pattern for many texts, so the last pattern is kept.
fn matches(text: &str, pattern: &str) -> Evaluated {
    thread_local! {
        static LAST: RefCell<Option<(String, Regex)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((_, regex)) = last.as_ref().filter(|(known, _)| known == pattern) {
            return Ok(Value::Bool(regex.is_match(text)));
        }
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        let Ok(regex) = built else {
            return error(&format!("invalid or large regular expression {pattern:?}"));
        };
        let is_match = regex.is_match(text);
        *last = Some((pattern.to_owned(), regex));
        Ok(Value::Bool(is_match))
    })
}

fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
}

pub(super) fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeName(name.into())))
}

pub(super) fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Double(number) => Value::Float(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::String(Arc::new(text.inner().to_owned())),
        LiteralValue::UInt(number) => Value::UInt(*number.inner()),
    }
}

pub(super) fn option(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

pub(super) fn optional(value: &Value) -> Option<&OptionalValue> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref(),
        _ => None,
    }
}

/// Returns a field of an object, or an entry of a map.
pub(super) fn field(operand: &Value, name: &str) -> Result<Option<Value>, Failure> {
    match operand {
        Value::Map(map) => {
            let reserved = || map.map.get(&Key::from(escape_reserved(name)?));
            Ok(map.map.get(&Key::from(name)).or_else(reserved).cloned())
        }
        _ => match optional(operand) {
            Some(inner) => inner.value().map_or(Ok(None), |inner| field(inner, name)),
            None => no_overload(),
        },
    }
}

fn index(container: &Value, key: &Value) -> Evaluated {
    match (container, key) {
        (Value::List(list), Value::Int(index)) => {
            let item = usize::try_from(*index).ok().and_then(|index| list.get(index));
            item.map_or_else(|| error(&format!("index out of bounds: {index}")), |item| Ok(item.clone()))
        }
        (Value::Map(map), key) => {
            let Ok(key) = TryInto::<Key>::try_into(key.clone()) else { return no_overload() };
            map.map.get(&key).map_or_else(|| error(&format!("no such key: {key}")), |value| Ok(value.clone()))
        }
        _ => match optional(container) {
            Some(inner) => Ok(option(inner.value().and_then(|inner| index(inner, key).ok()))),
            None => no_overload(),
        },
    }
}

fn contains(item: &Value, container: &Value) -> Option<bool> {
    match container {
        Value::List(list) => Some(list.contains(item)),
        Value::Map(map) => {
            let key: Result<Key, _> = item.clone().try_into();
            Some(key.is_ok_and(|key| map.map.contains_key(&key)))
        }
        _ => None,
    }
}

fn size(value: &Value) -> Evaluated {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => length(value),
        _ => return no_overload(),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn operator(name: &str, left: &Value, right: &Value) -> Evaluated {
    let compared = |is: fn(Ordering) -> bool| match (left, right) {
        (Value::Float(left), Value::Float(right)) => Ok(Value::Bool(left.partial_cmp(right).is_some_and(is))),
        (Value::Bytes(left), Value::Bytes(right)) => Ok(Value::Bool(is(left.cmp(right)))),
        _ => left.partial_cmp(right).map_or_else(no_overload, |order| Ok(Value::Bool(is(order)))),
    };
    let result = match name {
        operators::EQUALS => return Ok(Value::Bool(left == right)),
        operators::NOT_EQUALS => return Ok(Value::Bool(left != right)),
        operators::LESS => return compared(Ordering::is_lt),
        operators::LESS_EQUALS => return compared(Ordering::is_le),
        operators::GREATER => return compared(Ordering::is_gt),
        operators::GREATER_EQUALS => return compared(Ordering::is_ge),
        operators::ADD => match (left, right) {
            (Value::Bytes(left), Value::Bytes(right)) => {
                Ok(Value::Bytes(Arc::new([left.as_slice(), right].concat())))
            }
            _ => left.clone() + right.clone(),
        },
        operators::SUBSTRACT => left.clone() - right.clone(),
        operators::MULTIPLY => left.clone() * right.clone(),
        operators::DIVIDE => left.clone() / right.clone(),
        operators::MODULO => left.clone() % right.clone(),
        _ => return no_overload(),
    };
    result.map_err(|error| failure(&error))
}

fn optional_function(name: &str, target: Option<&Value>, args: &[Value]) -> Option<Evaluated> {
    let target = target.and_then(optional).map(OptionalValue::value);
    Some(match (name, target, args) {
        ("optional.none", None, []) => Ok(option(None)),
        ("optional.of", None, [value]) => Ok(option(Some(value.clone()))),
        ("optional.ofNonZeroValue", None, [value]) => Ok(option((!is_zero(value)).then(|| value.clone()))),
        ("hasValue", Some(value), []) => Ok(Value::Bool(value.is_some())),
        ("value", Some(value), []) => {
            value.map_or_else(|| error("optional.none() dereference"), |v| Ok(v.clone()))
        }
        ("or", Some(value), [other]) => {
            Ok(value.map_or_else(|| other.clone(), |value| option(Some(value.clone()))))
        }
        ("orValue", Some(value), [other]) => Ok(value.unwrap_or(other).clone()),
        _ => return None,
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Float(number) => *number == 0.0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => length(value) == 0,
        _ => false,
    }
}

fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        _ => "google.protobuf",
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        _ => 1,
    }
}

/// Returns the number of bytes that an operation on a value reads.
fn weight(value: &Value) -> usize {
    match value {
        Value::List(list) => list.iter().fold(BYTES_PER_STEP, |sum, item| sum.saturating_add(weight(item))),
        Value::Map(map) => map.map.iter().fold(BYTES_PER_STEP, |sum, (key, value)| {
            sum.saturating_add(key.to_string().len()).saturating_add(weight(value))
        }),
        _ => length(value),
    }
}

/// Returns the maximum cost of a function, before it is called.
pub(super) fn cost(name: &str, target: Option<&Value>, args: &[Value]) -> usize {
    let values = || target.into_iter().chain(args);
    let sum = || values().fold(0_usize, |sum, value| sum.saturating_add(weight(value)));
    // The result or the time of these functions grows with the product of the arguments.
    let product = || values().fold(1_usize, |product, value| product.saturating_mul(weight(value) + 1));
    match (name, args) {
        (operators::INDEX | operators::OPT_INDEX | "size" | "type" | "dyn", _) => 0,
        ("value" | "orValue" | "or" | "hasValue" | "optional.of" | "optional.none", _) => 0,
        ("lists.range", [Value::Int(count)]) => usize::try_from(*count).unwrap_or(0),
        ("replace" | "join" | "matches" | "find" | "findAll", _) => product() / BYTES_PER_STEP,
        ("sets.contains" | "sets.equivalent" | "sets.intersects", _) => product() / BYTES_PER_STEP,
        ("distinct" | "flatten" | "sort" | "isSorted", _) => {
            sum().saturating_mul(target.map_or(1, length)) / BYTES_PER_STEP
        }
        _ => sum() / BYTES_PER_STEP,
    }
}
