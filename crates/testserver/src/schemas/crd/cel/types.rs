//! The types of CEL expressions: the types that a schema declares, and the overloads of functions.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::schemas::crd::cel::names::{escape, escape_reserved};
use crate::schemas::crd::schema::node::{self, Additional, flag, text};

/// A type of a value or of a parameter.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Dyn,
    Named(&'static str),
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    Object(Arc<ObjectType>),
    /// A type parameter of an overload.
    Param(usize),
}

/// The types of the type parameters of an overload.
pub(super) type Bound = [Option<Type>; PARAMS];

impl Type {
    /// Returns whether a value of another type can be used as this type.
    pub(super) fn accepts(&self, other: &Self) -> bool {
        self.binds(other, &mut [const { None }; PARAMS])
    }

    /// Returns whether a value can be an argument for a parameter of this type. The first argument binds a
    /// type parameter.
    pub(super) fn binds(&self, argument: &Self, bound: &mut Bound) -> bool {
        match (self, argument) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Param(index), _) => match bound.get(*index).cloned().flatten() {
                Some(known) => known.binds(argument, bound),
                // The other arguments determine the type.
                None if matches!(argument, Self::Named("null")) => true,
                None => bound.get_mut(*index).is_some_and(|slot| slot.replace(argument.clone()).is_none()),
            },
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.binds(b, bound),
            (Self::Map(a, b), Self::Map(c, d)) => a.binds(c, bound) && b.binds(d, bound),
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            (Self::Named("null"), kind) | (kind, Self::Named("null")) => kind.is_nullable(),
            (Self::Named(a), Self::Named(b)) => a == b,
            _ => false,
        }
    }

    /// Returns whether a null can be used as this type.
    fn is_nullable(&self) -> bool {
        match self {
            Self::Object(_) | Self::Optional(_) | Self::Dyn | Self::Param(_) => true,
            Self::Named(name) => matches!(*name, "null" | "timestamp" | "duration") || name.contains('.'),
            Self::List(_) | Self::Map(..) => false,
        }
    }

    /// Returns the type without type parameters.
    pub(super) fn filled(&self, bound: &Bound) -> Self {
        let inner = |kind: &Arc<Self>| Arc::new(kind.filled(bound));
        match self {
            Self::Param(index) => bound.get(*index).cloned().flatten().unwrap_or(Self::Dyn),
            Self::List(items) => Self::List(inner(items)),
            Self::Optional(value) => Self::Optional(inner(value)),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            Self::Dyn | Self::Named(_) | Self::Object(_) => self.clone(),
        }
    }
}

/// The type of an object with fixed fields.
#[derive(Debug)]
pub(super) struct ObjectType {
    pub name: String,
    /// The types by escaped name.
    pub fields: BTreeMap<String, Type>,
}

impl ObjectType {
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).or_else(|| self.fields.get(&escape_reserved(name)?))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Named(name) => f.write_str(name),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(object) => f.write_str(&object.name),
        }
    }
}

/// Returns the type of the values of a schema. Returns `None` if rules cannot use these values, for
/// example if the schema has no type.
pub(super) fn declared(schema: &Json, is_resource: bool, name: &str) -> Option<Type> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(Type::Dyn);
    }
    match text(schema, "type") {
        "array" => {
            let items = node::items(schema)?;
            Some(Type::List(Arc::new(declared(items, node::is_embedded(items), &format!("{name}.@idx"))?)))
        }
        "object" => match node::additional(schema) {
            Additional::Schema(values) => {
                let values = declared(values, node::is_embedded(values), &format!("{name}.@elem"))?;
                Some(Type::Map(Arc::new(Type::Named("string")), Arc::new(values)))
            }
            Additional::Unknown | Additional::Unspecified => {
                let declare = |(field, schema): (&String, &Json)| {
                    let field = escape(field)?;
                    let kind = declared(schema, node::is_embedded(schema), &format!("{name}.{field}"))?;
                    Some((field, kind))
                };
                let mut fields: BTreeMap<_, _> = node::properties(schema).filter_map(declare).collect();
                if is_resource {
                    add_type_and_metadata(&mut fields, name);
                }
                Some(Type::Object(Arc::new(ObjectType { name: name.into(), fields })))
            }
        },
        "string" => Some(Type::Named(match text(schema, "format") {
            "byte" => "bytes",
            "duration" => "duration",
            "date" | "date-time" => "timestamp",
            _ => "string",
        })),
        "boolean" => Some(Type::Named("bool")),
        "number" => Some(Type::Named("double")),
        "integer" => Some(Type::Named("int")),
        _ => None,
    }
}

/// Declares kind, apiVersion and metadata, which each resource has.
fn add_type_and_metadata(fields: &mut BTreeMap<String, Type>, name: &str) {
    let text = || Type::Named("string");
    let metadata = ["name", "generateName"].map(|field| (field.to_owned(), text()));
    let metadata = ObjectType { name: format!("{name}.metadata"), fields: metadata.into() };
    fields.extend([("kind".into(), text()), ("apiVersion".into(), text())]);
    fields.insert("metadata".into(), Type::Object(Arc::new(metadata)));
}

/// An overload of a function or method.
#[derive(Debug)]
pub(super) struct Overload {
    pub is_method: bool,
    /// The types of the target and of the arguments.
    pub params: Vec<Type>,
    pub result: Type,
    /// False if this server refuses the overload, which the real server supports.
    pub is_supported: bool,
}

/// The number of different type parameters in one overload.
pub(super) const PARAMS: usize = 3;

/// The overloads by name.
pub(super) static FUNCTIONS: LazyLock<HashMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&str, Vec<Overload>> = HashMap::new();
    let lines = include_str!("functions.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (names, signature) = line.split_once(' ').unwrap_or((line, ""));
        let (params, result) = signature.split_once("= ").unwrap_or(("", signature));
        let (result, is_supported) = result.strip_suffix(" !").map_or((result, true), |plain| (plain, false));
        for (name, params) in names.split('|').flat_map(|name| alternatives(params).map(move |p| (name, p))) {
            let method = name.strip_prefix('.');
            functions.entry(method.unwrap_or(name)).or_default().push(Overload {
                is_method: method.is_some(),
                params,
                result: parse(result),
                is_supported,
            });
        }
    }
    functions
});

/// Returns the parameters of each overload. A parameter has one or more types, separated by `/`.
fn alternatives(params: &'static str) -> impl Iterator<Item = Vec<Type>> {
    let add = |all: Vec<Vec<Type>>, param: &'static str| {
        let with = |first: Vec<Type>| param.split('/').map(move |one| [&first[..], &[parse(one)]].concat());
        all.into_iter().flat_map(with).collect()
    };
    params.split_whitespace().fold(vec![Vec::new()], add).into_iter()
}

fn parse(text: &'static str) -> Type {
    let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(items) = inner("list(") {
        return Type::List(Arc::new(parse(items)));
    }
    if let Some(value) = inner("optional(") {
        return Type::Optional(Arc::new(parse(value)));
    }
    // The keys of maps are simple types.
    if let Some((key, value)) = inner("map(").and_then(|both| both.split_once(',')) {
        return Type::Map(Arc::new(parse(key)), Arc::new(parse(value)));
    }
    match text {
        "dyn" => Type::Dyn,
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "C" => Type::Param(2),
        name => Type::Named(name),
    }
}
