//! The table `rules.txt`: the rules of single fields. The header of the file explains them.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::schemas::kinds::kind::Kind;
use crate::schemas::rules::formats::Format;
use crate::schemas::types::{Base, Empty, Field, Shape, Types};

/// A rule of a field. The rules of a field apply in their order.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Required,
    Enum(Vec<&'static str>),
    Min(i64),
    Max(i64),
    Is(&'static Format),
    /// The items, or this field of the items, must differ.
    Unique(&'static str),
    Immutable,
    /// An update keeps a value that is not empty.
    Once,
    /// An update keeps the fields of this object, except these.
    Mutable(Vec<&'static str>),
    Labels,
    /// The following rules report the containing object instead of the field.
    AtParent,
    /// The following rules report the list instead of its items.
    Whole,
    /// An unsupported value is reported as invalid.
    Invalid,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub field: Field,
    pub rules: Vec<Rule>,
    /// True if the paths of nested fields do not contain this field.
    pub collapses: bool,
    /// True if the empty text has no rules.
    pub is_optional: bool,
}

/// The fields with rules or nested messages, by the index of their message in `Types`.
#[derive(Debug, Default)]
pub(super) struct Table {
    kinds: Vec<&'static str>,
    plans: Vec<Vec<Plan>>,
}

impl Table {
    pub(super) fn get() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Self::parse(include_str!("rules.txt")))
    }

    pub(super) fn has_rules(&self, kind: &Kind) -> bool {
        self.kinds.contains(&kind.kind.as_str()) && kind.group != "events.k8s.io"
    }

    pub(super) fn plans(&self, message: usize) -> &[Plan] {
        self.plans.get(message).map_or(&[], Vec::as_slice)
    }

    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut lines: HashMap<&str, &str> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("kinds", kinds)) => table.kinds.extend(kinds.split(' ')),
                Some((fields, rules)) => lines.extend(fields.split(',').map(|field| (field, rules))),
                None => {}
            }
        }
        let types = Types::get();
        table.plans = (0..)
            .map_while(|place| types.message(place))
            .map(|message| {
                let fields =
                    message.json_fields().filter(|field| !matches!(field.name, "metadata" | "status"));
                let plans = fields.map(|field| {
                    let words = lines.get(format!("{}.{}", message.name, field.name).as_str());
                    Plan::new(field, words.copied().unwrap_or_default())
                });
                plans
                    .filter(|plan| !plan.rules.is_empty() || matches!(plan.field.base, Base::Message(_)))
                    .collect()
            })
            .collect();
        table
    }
}

impl Plan {
    /// Returns whether a rule applies to a new object without the field.
    pub(super) fn applies_to_null(&self) -> bool {
        self.field.shape == Shape::Value || self.rules.iter().any(|rule| matches!(rule, Rule::Required))
    }

    fn new(field: &Field, words: &'static str) -> Self {
        let mut plan = Self {
            field: *field,
            rules: Vec::new(),
            collapses: false,
            is_optional: field.shape == Shape::Value && field.empty != Empty::Kept,
        };
        let mut permitted = field.facts.permitted;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let (word, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse().unwrap_or_default();
            match word {
                "required" => plan.rules.push(Rule::Required),
                "enum" => {
                    permitted = None;
                    plan.is_optional = false;
                    if !value.is_empty() {
                        plan.rules.push(Rule::Enum(value.split(',').collect()));
                    }
                }
                "min" => plan.rules.push(Rule::Min(number())),
                "max" => plan.rules.push(Rule::Max(number())),
                "unique" => plan.rules.push(Rule::Unique(value)),
                "immutable" => plan.rules.push(Rule::Immutable),
                "once" => plan.rules.push(Rule::Once),
                "mutable" => plan.rules.push(Rule::Mutable(value.split(',').collect())),
                "labels" => plan.rules.push(Rule::Labels),
                "parent" => plan.rules.push(Rule::AtParent),
                "whole" => plan.rules.push(Rule::Whole),
                "invalid" => plan.rules.push(Rule::Invalid),
                "optional" => plan.is_optional = true,
                "collapse" => plan.collapses = true,
                _ => plan.rules.extend(Format::of(word).map(Rule::Is)),
            }
        }
        plan.rules.extend(permitted.map(|values| Rule::Enum(values.split(',').collect())));
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_names_existing_fields_and_rules() {
        const WORDS: [&str; 14] = [
            "required",
            "enum",
            "min",
            "max",
            "unique",
            "immutable",
            "once",
            "mutable",
            "labels",
            "parent",
            "whole",
            "invalid",
            "optional",
            "collapse",
        ];
        let types = Types::get();
        let messages: Vec<_> = (0..).map_while(|place| types.message(place)).collect();
        let lines = include_str!("rules.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#') && !line.starts_with("kinds ")) {
            let (fields, rules) = line.split_once(' ').expect("fields and rules");
            for field in fields.split(',') {
                let (message, name) = field.split_once('.').expect("a message and a field");
                let mut named = messages.iter().filter(|known| known.name == message);
                assert!(named.any(|known| known.known(name).is_some()), "{field}");
            }
            for rule in rules.split(' ') {
                let word = rule.split('=').next().unwrap_or_default();
                assert!(WORDS.contains(&word) || Format::of(word).is_some(), "{line}");
            }
        }
    }
}
