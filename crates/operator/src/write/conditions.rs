//! Conditions of a status. The functions behave like the functions of apimachinery's `meta`
//! package.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Creates a condition with the current time as its transition time, and without an observed
/// generation.
///
/// `status` is `True`, `False` or `Unknown`. `reason` is a non-empty word in CamelCase.
pub fn new_condition(
    type_: impl Into<String>,
    status: impl Into<String>,
    reason: impl Into<String>,
    message: impl Into<String>,
) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::now()),
    }
}

/// Sets a condition, as `meta.SetStatusCondition` does, and returns whether anything changed.
///
/// `new` replaces the condition of the same type. If both have the same status, the old transition
/// time is retained. Otherwise the transition time of `new` is used.
///
/// ```
/// # use kube_operator::{is_condition_true, new_condition, set_condition};
/// # let mut conditions = Vec::new();
/// assert!(set_condition(&mut conditions, new_condition("Ready", "True", "AllIsWell", "")));
/// assert!(is_condition_true(&conditions, "Ready"));
/// assert!(!set_condition(&mut conditions, new_condition("Ready", "True", "AllIsWell", "")), "nothing to write");
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(before) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    let last_transition_time = if before.status == new.status {
        before.last_transition_time.clone()
    } else {
        new.last_transition_time.clone()
    };
    let after = Condition { last_transition_time, ..new };
    let is_changed = *before != after;
    *before = after;
    is_changed
}

/// Removes the condition of this type, and returns whether it existed.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Returns the condition of this type, if it exists.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether the condition of this type exists and is `True`.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, status: &str, reason: &str) -> Condition {
        let last_transition_time = Time(Timestamp::from_second(second).unwrap());
        Condition { last_transition_time, ..new_condition("Ready", status, reason, "") }
    }

    #[test]
    fn transition_time_changes_only_with_status() {
        let mut conditions = vec![new_condition("Other", "True", "R", "")];
        let mut set = |new: Condition| {
            let changes = set_condition(&mut conditions, new);
            (changes, conditions[1].last_transition_time.0.as_second(), conditions[1].clone())
        };
        assert_eq!(set(at(1, "False", "R")), (true, 1, at(1, "False", "R")));
        assert_eq!(set(at(2, "False", "R")), (false, 1, at(1, "False", "R")));
        assert_eq!(set(at(3, "False", "S")), (true, 1, at(1, "False", "S")));
        let message = |second| Condition { message: "m".to_owned(), ..at(second, "False", "S") };
        assert_eq!(set(message(4)), (true, 1, message(1)));
        let observed = |second| Condition { observed_generation: Some(7), ..message(second) };
        assert_eq!(set(observed(5)), (true, 1, observed(1)));
        assert_eq!(set(observed(6)), (false, 1, observed(1)));
        assert_eq!(set(at(7, "True", "S")), (true, 7, at(7, "True", "S")));
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn conditions_are_found_and_removed_by_type() {
        let mut conditions = vec![at(1, "True", "R"), new_condition("Other", "Unknown", "R", "")];
        assert!(is_condition_true(&conditions, "Ready"));
        assert!(!is_condition_true(&conditions, "Other") && !is_condition_true(&conditions, "None"));
        assert_eq!(find_condition(&conditions, "Other").unwrap().status, "Unknown");
        assert_eq!(find_condition(&conditions, "None"), None);
        assert!(remove_condition(&mut conditions, "Ready") && !remove_condition(&mut conditions, "Ready"));
        assert_eq!(conditions.len(), 1);
    }
}
