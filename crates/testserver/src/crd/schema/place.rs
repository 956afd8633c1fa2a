//! Where a complaint belongs: the field, the node of the schema, and its turn among the other complaints.

use serde_json::Value;

/// One step from the object towards the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// The order in which kube-apiserver looks at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
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

/// An `allOf` on the way, of which one part failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Junction {
    pub steps: Vec<Step>,
    pub order: Order,
    pub part: usize,
    pub parts: usize,
}

/// Complaints are sorted by this: the turn and the name of each node on the way.
pub(crate) type Order = Vec<(Turn, String)>;

/// Where a complaint belongs.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub steps: Vec<Step>,
    pub node: &'a Value,
    pub order: Order,
    pub junctions: Vec<Junction>,
}

impl<'a> Place<'a> {
    /// Follows the validator's paths through the (translated) schema and the object.
    pub(crate) fn find(root: &'a Value, schema: &[String], instance: &[String]) -> Self {
        let mut place = Self { steps: Vec::new(), node: root, order: Vec::new(), junctions: Vec::new() };
        let (mut keywords, mut instance) = (schema.iter().map(String::as_str), instance.iter().cloned());
        while let Some(keyword) = keywords.next() {
            let key = match keyword {
                "properties" | "allOf" | "anyOf" | "oneOf" => keywords.next(),
                _ => None,
            };
            let inner = place.node.get(keyword);
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
                    place.order.push((Turn::Fields, name.clone()));
                    place.steps.push(Step::Field(name));
                }
                "items" => {
                    let Some(index) = instance.next().and_then(|index| index.parse().ok()) else { break };
                    place.order.push((Turn::Items, format!("{index:010}")));
                    place.steps.push(Step::Item(index));
                }
                "allOf" => place.join(key.and_then(|key| key.parse().ok()).unwrap_or_default()),
                "anyOf" => place.order.push((Turn::AnyOf, String::new())),
                "oneOf" => place.order.push((Turn::OneOf, String::new())),
                _ => break,
            }
            place.node = inner;
        }
        place
    }

    fn join(&mut self, part: usize) {
        let parts = self.node.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        let junction = Junction { steps: self.steps.clone(), order: self.order.clone(), part, parts };
        self.junctions.push(junction);
        self.order.push((Turn::AllOf, format!("{part:010}")));
    }

    /// The order of a complaint of this kind here.
    pub(crate) fn turn(&self, turn: Turn) -> Order {
        self.order.iter().cloned().chain([(turn, String::new())]).collect()
    }
}

/// The path as messages write it.
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
