//! `Condition` and `Goal`: the end of `watch --until`.

use std::{collections::HashSet, str::FromStr};

use kube_informer::{Event, ObjectKey};
use serde_json::Value;

use crate::{
    changes::{Pattern, text_of},
    feed::{CachedObject, object_value},
};

/// The condition of `--until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The object exists.
    Exists,
    /// The object was deleted.
    Deleted,
    /// A condition in `status.conditions` has this status, and describes the current generation.
    Status { name: String, status: String },
    /// A field has a value for which the comparison is true.
    Field { path: Pattern, operator: Operator, value: String },
    /// The object contains the field.
    Present(Pattern),
}

/// A comparison of a field with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The operators, the longer ones first.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
];

/// Names that users write without `condition=`. Fields with these names do not exist, so the command would
/// wait indefinitely.
const COMMON_CONDITIONS: [&str; 7] =
    ["Ready", "Available", "Complete", "Failed", "Progressing", "Initialized", "Established"];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "create" => return Ok(Self::Exists),
            "delete" => return Ok(Self::Deleted),
            _ => {}
        }
        if let Some(condition) = text.strip_prefix("condition=") {
            let (name, status) = condition.split_once('=').unwrap_or((condition, "True"));
            if name.is_empty() || status.is_empty() {
                return Err("use condition=NAME or condition=NAME=STATUS".to_owned());
            }
            return Ok(Self::Status { name: name.to_owned(), status: status.to_owned() });
        }
        if let Some(name) = COMMON_CONDITIONS.iter().find(|name| name.eq_ignore_ascii_case(text)) {
            return Err(format!("use condition={name}"));
        }
        let Some((at, sign, operator)) = operator(text) else { return text.parse().map(Self::Present) };
        let (path, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        let value = value.trim_matches('"').to_owned();
        Ok(Self::Field { path: path.parse()?, operator, value })
    }
}

/// Finds the first operator outside of brackets.
fn operator(text: &str) -> Option<(usize, &'static str, Operator)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => {
                let found = OPERATORS.iter().find(|(sign, _)| text[at..].starts_with(sign));
                if let Some((sign, operator)) = found {
                    return Some((at, sign, *operator));
                }
            }
            _ => {}
        }
    }
    None
}

impl Operator {
    /// Compares numbers by their values, and other texts by their characters. Texts can be equal only if all
    /// their characters are: the texts 1.1 and 1.10 are different versions. Their order is the order of their
    /// numbers.
    fn holds(self, field: &Value, wanted: &str) -> bool {
        let text = text_of(field);
        let is_equality = matches!(self, Self::Equal | Self::NotEqual);
        let number = text.parse::<f64>().ok().filter(|_| field.is_number() || !is_equality);
        let numbers = number.filter(|_| text != wanted).zip(wanted.parse::<f64>().ok());
        let order = match numbers {
            Some((field, wanted)) => field.partial_cmp(&wanted),
            None => Some(text.as_str().cmp(wanted)),
        };
        match self {
            Self::Equal => order.is_some_and(|order| order.is_eq()),
            Self::NotEqual => order.is_none_or(|order| order.is_ne()),
            Self::Less => order.is_some_and(|order| order.is_lt()),
            Self::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Self::Greater => order.is_some_and(|order| order.is_gt()),
            Self::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}

impl Condition {
    /// Returns whether an existing object fulfils the condition.
    fn holds(&self, object: &Value) -> bool {
        match self {
            Self::Exists => true,
            Self::Deleted => false,
            Self::Status { name, status } => has_status(object, name, status),
            Self::Field { path, operator, value } => {
                path.values(object).into_iter().any(|field| operator.holds(field, value))
            }
            Self::Present(path) => path.values(object).iter().any(|field| !field.is_null()),
        }
    }
}

/// Returns whether a condition has a status, and the controller has seen the current generation.
fn has_status(object: &Value, name: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    let is_current =
        |holder: &Value| holder["observedGeneration"].as_i64().is_none_or(|seen| seen >= generation);
    let is_named =
        |value: &Value, name: &str| value.as_str().is_some_and(|own| own.eq_ignore_ascii_case(name));
    let mut matching = conditions
        .filter(|condition| is_named(&condition["type"], name) && is_named(&condition["status"], status));
    is_current(&object["status"]) && matching.any(is_current)
}

/// Follows the selected objects until they fulfil a condition.
#[derive(Debug)]
pub(super) struct Goal {
    condition: Condition,
    is_any: bool,
    /// The minimum number of objects: the number of names in the command line, or one.
    expected: usize,
    /// The existing objects that do not fulfil the condition. For `delete`, these are the objects in
    /// the first lists.
    unmet: HashSet<(usize, ObjectKey)>,
    objects: usize,
    deleted: usize,
}

impl Goal {
    pub(super) fn new(condition: Condition, is_any: bool, expected: usize) -> Self {
        Self { condition, is_any, expected, unmet: HashSet::new(), objects: 0, deleted: 0 }
    }

    /// Follows an event. `is_initial` is true until all targets are listed.
    pub(super) fn observe(&mut self, target: usize, event: &Event<CachedObject>, is_initial: bool) {
        let (object, key) = (event.entry(), (target, event.key().clone()));
        match event {
            Event::Deleted { .. } => {
                self.deleted += usize::from(self.unmet.remove(&key));
                self.objects = self.objects.saturating_sub(1);
                return;
            }
            Event::Added { .. } => self.objects += 1,
            Event::Updated { .. } => {}
        }
        let is_unmet = match self.condition {
            Condition::Deleted => is_initial || self.unmet.contains(&key),
            Condition::Exists => false,
            // The condition of an unreadable object is unknown.
            _ => !object_value(object).is_ok_and(|object| self.condition.holds(&object)),
        };
        if is_unmet {
            self.unmet.insert(key);
        } else {
            self.unmet.remove(&key);
        }
    }

    /// Returns whether the goal is reached. `is_listed` is true when all targets are listed.
    pub(super) fn is_reached(&self, is_listed: bool) -> bool {
        match (&self.condition, self.is_any) {
            (Condition::Deleted, true) => is_listed && (self.deleted > 0 || self.unmet.is_empty()),
            (Condition::Deleted, false) => is_listed && self.unmet.is_empty(),
            (_, true) => self.objects > self.unmet.len(),
            (_, false) => is_listed && self.objects >= self.expected && self.unmet.is_empty(),
        }
    }

    /// Returns the reason why the goal is not reached.
    pub(super) fn missing(&self) -> String {
        if self.condition != Condition::Deleted && self.objects < self.expected {
            return format!("{} of {} objects exist", self.objects, self.expected);
        }
        let names: Vec<String> = self.unmet.iter().take(3).map(|(_, key)| key.to_string()).collect();
        let more = self.unmet.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more} did not fulfil the condition", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(condition: &str, object: &Value) -> bool {
        condition.parse::<Condition>().unwrap().holds(object)
    }

    #[test]
    fn fields_are_compared() {
        let object = json!({"spec": {"replicas": 10, "paused": false}, "status": {"phase": "Running"}});
        for condition in [
            "spec.replicas>=3",
            "spec.replicas > 9",
            "spec.replicas=10",
            "spec.replicas!=3",
            "status.phase=Running",
            "status.phase == \"Running\"",
            "spec.paused=false",
            "status.phase",
        ] {
            assert!(holds(condition, &object), "{condition}");
        }
        for condition in
            ["spec.replicas<10", "spec.replicas<=9", "status.phase=Pending", "status.reason", "x!=1"]
        {
            assert!(!holds(condition, &object), "{condition}");
        }
    }

    #[test]
    fn texts_of_equal_numbers_are_not_equal() {
        let object = json!({"text": "1.10", "number": 1.5, "large": 9_007_199_254_740_993_u64});
        for condition in ["text=1.10", "text!=1.1", "text>1.05", "number=1.50", "large=9007199254740993"] {
            assert!(holds(condition, &object), "{condition}");
        }
        for condition in ["text=1.1", "text!=1.10", "number!=1.50", "number=1.6"] {
            assert!(!holds(condition, &object), "{condition}");
        }
    }

    #[test]
    fn condition_describes_current_generation() {
        let object = |generation: i64| {
            json!({
                "metadata": {"generation": generation},
                "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]},
            })
        };
        assert!(holds("condition=Ready", &object(2)));
        assert!(holds("condition=ready=true", &object(2)));
        assert!(!holds("condition=Ready", &object(3)));
        assert!(!holds("condition=Ready=False", &object(2)));
    }

    #[test]
    fn list_item_can_contain_operator() {
        let object = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(holds("status.conditions[type=Ready].status=True", &object));
        assert!(!holds("status.conditions[type=Ready].status=False", &object));
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        for text in ["", "=1", "condition=", "condition==True", "a..b=1"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
        assert_eq!("ready".parse::<Condition>(), Err("use condition=Ready".to_owned()));
    }

    #[test]
    fn goal_without_objects_waits_unless_it_is_delete() {
        let goal = |condition: &str| Goal::new(condition.parse().unwrap(), false, 1);
        assert!(!goal("create").is_reached(true));
        assert!(!goal("delete").is_reached(false));
        assert!(goal("delete").is_reached(true));
    }
}
