//! The location of a validation error: the field, the schema node, and its position in the order of
//! errors.

use serde_json::Value;

/// A step on the path from the object to the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// The checks of one schema node, in the order of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckOrder {
    Type,
    AnyOf,
    OneOf,
    AllOf,
    Not,
    MaxLength,
    MinLength,
    Pattern,
    Format,
    Range,
    MultipleOf,
    Minimum,
    Maximum,
    Items,
    MinItems,
    MaxItems,
    UniqueItems,
    Enum,
    MinProperties,
    MaxProperties,
    Forbidden,
    Fields,
    Required,
}

/// An `allOf` on the path, with one failed part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Junction {
    pub steps: Vec<Step>,
    pub order: Order,
    pub part: usize,
    pub parts: usize,
}

/// The sort key of an error: the check and the name of each node on the path.
pub(crate) type Order = Vec<(CheckOrder, String)>;

/// The location of an error.
#[derive(Clone, Debug)]
pub(crate) struct ErrorLocation<'a> {
    pub steps: Vec<Step>,
    pub node: &'a Value,
    pub order: Order,
    pub junctions: Vec<Junction>,
}

impl<'a> ErrorLocation<'a> {
    /// Follows the validator's paths through the (translated) schema and the object.
    pub(crate) fn find(root: &'a Value, schema: &[String], instance: &[String]) -> Self {
        let mut location = Self { steps: Vec::new(), node: root, order: Vec::new(), junctions: Vec::new() };
        let (mut keywords, mut instance) = (schema.iter().map(String::as_str), instance.iter().cloned());
        while let Some(keyword) = keywords.next() {
            let key = match keyword {
                "properties" | "allOf" | "anyOf" | "oneOf" => keywords.next(),
                _ => None,
            };
            let inner = location.node.get(keyword);
            let inner = match key {
                Some(key) => {
                    inner.and_then(|inner| inner.get(key).or_else(|| inner.get(key.parse::<usize>().ok()?)))
                }
                None => inner,
            };
            let Some(inner) = inner.filter(|inner| inner.is_object()) else { break };
            match keyword {
                "properties" | "additionalProperties" => {
                    let Some(name) = instance.next() else { break };
                    location.order.push((CheckOrder::Fields, name.clone()));
                    location.steps.push(Step::Field(name));
                }
                "items" => {
                    let Some(index) = instance.next().and_then(|index| index.parse().ok()) else { break };
                    location.order.push((CheckOrder::Items, format!("{index:010}")));
                    location.steps.push(Step::Item(index));
                }
                "allOf" => location.join(key.and_then(|key| key.parse().ok()).unwrap_or_default()),
                "anyOf" => location.order.push((CheckOrder::AnyOf, String::new())),
                "oneOf" => location.order.push((CheckOrder::OneOf, String::new())),
                _ => break,
            }
            location.node = inner;
        }
        location
    }

    fn join(&mut self, part: usize) {
        let parts = self.node.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        let junction = Junction { steps: self.steps.clone(), order: self.order.clone(), part, parts };
        self.junctions.push(junction);
        self.order.push((CheckOrder::AllOf, format!("{part:010}")));
    }

    /// Returns the sort key of an error of this check.
    pub(crate) fn order_of(&self, check: CheckOrder) -> Order {
        self.order.iter().cloned().chain([(check, String::new())]).collect()
    }
}

/// Formats the path for messages.
pub(crate) fn name(steps: &[Step]) -> String {
    let mut name = String::new();
    for step in steps {
        match step {
            Step::Field(field) if name.is_empty() => name.push_str(field),
            Step::Field(field) => name.extend([".", field]),
            Step::Item(index) => name.push_str(&format!("[{index}]")),
        }
    }
    name
}
