//! Tests of the limits of rules, and of the features that the server refuses.

use serde_json::{Value, json};

use super::compile;
use super::run::Outcome;
use crate::status::Cause;

/// Evaluates a rule for a value of this schema.
fn run(schema: Value, rule: &str, value: &Value) -> Vec<String> {
    let outcome = run_update(schema, rule, value, None);
    outcome.causes.iter().map(Cause::line).collect()
}

fn run_update(mut schema: Value, rule: &str, value: &Value, before: Option<&Value>) -> Outcome {
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
    let root = json!({"type": "object", "properties": {"x": schema}});
    let (rules, causes) = compile(&root, "schema");
    assert!(causes.is_empty(), "{rule}: {causes:?}");
    let object = |value: &Value| json!({"x": value});
    rules.validate(&root, &object(value), before.map(object).as_ref())
}

/// Returns the error of a rule in a schema.
fn refusal(mut schema: Value, rule: &str) -> String {
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
    let (_, causes) = compile(&json!({"type": "object", "properties": {"x": schema}}), "schema");
    causes.iter().map(Cause::line).collect()
}

fn integers() -> Value {
    json!({"type": "array", "items": {"type": "integer"}})
}

#[test]
fn expensive_rules_end_with_cost_error() {
    let many: Vec<i64> = (0..3000).collect();
    for rule in [
        "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))",
        "self.map(a, self).map(a, self.map(b, a)).size() > 0",
        "lists.range(2147483647).size() > 0",
        "self.map(a, self.map(b, self.map(c, c))) == self.map(a, self.map(b, self.map(c, c)))",
        "self.filter(a, self.exists(b, sets.contains(self, [b]))).size() == 0",
        "self.all(a, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a?){50}a{50}') || self.all(b, b >= 0))",
    ] {
        let lines = run(integers(), rule, &json!(many));
        assert!(lines.concat().contains("the cost budget is spent"), "{rule}: {lines:?}");
    }
}

#[test]
fn growing_texts_end_with_cost_error() {
    let text = "a".repeat(50_000);
    let doubled = format!("['a']{}.size() > 0", ".map(x, x + x)".repeat(60));
    for rule in ["self.replace('a', self).size() > 0", "self.replace('', self).size() > 0", &doubled] {
        let lines = run(json!({"type": "string"}), rule, &json!(text));
        assert!(lines.concat().contains("the cost budget is spent"), "{rule}: {lines:?}");
    }
}

#[test]
fn deep_and_long_rules_are_refused() {
    let integer = || json!({"type": "integer"});
    // Not refused: the parser removes pairs of `!`.
    assert_eq!(refusal(integer(), &format!("{}true", "!".repeat(10_001))), "");
    for rule in [
        format!("{}self > 1{}", "(".repeat(9_000), ")".repeat(9_000)),
        format!("self{} > 1", " + 1".repeat(4_900)),
        format!("self{} > 1", ".a".repeat(9_900)),
        format!("{}1{} == []", "[".repeat(249), "]".repeat(249)),
        format!("{}1 == []", "[".repeat(249)),
        format!("{}1", "self > 1 ? 1 : ".repeat(1_000)),
        format!("{} > 1", "self.map(x, ".repeat(249)),
        format!("self{} > 1", "[0]".repeat(6_000)),
        "\"".repeat(15_000),
        "self > 1 ".repeat(20_000),
        format!("{}1", "1 in ".repeat(3_900)),
    ] {
        assert!(refusal(integer(), &rule).contains("Invalid value"), "{rule:.20}");
    }
}

#[test]
fn deepest_rules_are_evaluated() {
    let lists = format!("{}1{}.size() == 1", "[".repeat(240), "]".repeat(240));
    let conditions = format!("{}true", "self > 1 ? false : ".repeat(240));
    let negated = format!("{}true{}", "!(self > 1 || ".repeat(80), ")".repeat(80));
    let nested = format!("{}true{}", "[1].all(x, ".repeat(60), ")".repeat(60));
    for rule in [lists, conditions, negated, nested] {
        assert_eq!(run(json!({"type": "integer"}), &rule, &json!(1)), [""; 0], "{rule:.20}");
    }
}

#[test]
fn unsupported_functions_are_named() {
    let times = || json!({"type": "string", "format": "date-time"});
    for (schema, rule, name) in [
        (integers(), "self.all(i, v, i < v)", "'all' with 4 parameters"),
        (integers(), "self.sortBy(x, -x).size() > 0", "'sortBy' with 3 parameters"),
        (times(), "self.getHours('Europe/Berlin') > 1", "'getHours' with 2 parameters"),
        (integers(), "optional.unwrap([self]).size() > 0", "'optional.unwrap' with 1 parameters"),
    ] {
        let error = refusal(schema, rule);
        assert!(error.contains(&format!("kube-testserver does not support the function {name}")), "{error}");
    }
}

#[test]
fn extreme_arguments_do_not_end_the_server() {
    let times = json!({"type": "string", "format": "date-time"});
    for rule in [
        "self + duration('2562047h') + duration('2562047h') > self",
        "self - duration('2562047h47m') < self - timestamp('0001-01-01T00:00:00Z') + self",
        "timestamp(9223372036854775807) > self",
        "duration(string(9223372036854775807) + 's') > duration('1s')",
    ] {
        // Each result is permitted, but not a panic.
        let _ = run(times.clone(), rule, &json!("9999-12-31T23:59:59Z"));
    }
    for rule in [
        "self.substring(5, 2) == ''",
        "self.charAt(-1) == ''",
        "self.split('', -5).size() < 0",
        "'%d %s'.format([]) == self",
    ] {
        assert_eq!(run(json!({"type": "string"}), rule, &json!("äöü")).len(), 1, "{rule}");
    }
}
