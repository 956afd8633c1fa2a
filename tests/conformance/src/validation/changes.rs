//! The changes of a value that make an object invalid, or that an update may not make.

use serde_json::{Value, json};

/// Names of maps from text to text or quantities.
const MAPS: [&str; 14] = [
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "selector",
    "requests",
    "limits",
    "capacity",
    "data",
    "binaryData",
    "parameters",
    "overhead",
    "hard",
    "stringData",
];

/// Pairs of valid values of the same field.
const PAIRS: &[[&str; 2]] = &[
    ["Always", "Never"],
    ["ClusterIP", "NodePort"],
    ["LoadBalancer", "ClusterIP"],
    ["ExternalName", "ClusterIP"],
    ["RollingUpdate", "Recreate"],
    ["RollingUpdate", "OnDelete"],
    ["Never", "OnFailure"],
    ["TCP", "UDP"],
    ["Parallel", "OrderedReady"],
    ["Indexed", "NonIndexed"],
    ["Local", "Cluster"],
    ["ClientIP", "None"],
    ["Prefix", "Exact"],
    ["In", "Exists"],
    ["In", "Gt"],
    ["Exists", "In"],
    ["Equal", "Exists"],
    ["NoExecute", "NoSchedule"],
    ["Utilization", "Value"],
    ["AverageValue", "Utilization"],
    ["Value", "AverageValue"],
    ["Resource", "Pods"],
    ["Filesystem", "Block"],
    ["Retain", "Delete"],
    ["WaitForFirstConsumer", "Immediate"],
    ["ReadWriteOnce", "ReadWriteOncePod"],
    ["Role", "ClusterRole"],
    ["ServiceAccount", "User"],
    ["FailJob", "FailIndex"],
    ["None", "ClusterFirst"],
    ["Localhost", "RuntimeDefault"],
    ["linux", "windows"],
    ["Ingress", "Egress"],
    ["IPv4", "IPv6"],
    ["SingleStack", "RequireDualStack"],
    ["Cluster", "Namespace"],
];

/// A change of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Remove,
    /// An empty text.
    Blank,
    /// A text that no rule permits.
    Bogus,
    /// A valid text of the same field.
    Swap(&'static str),
    /// A negative number.
    Negative,
    Zero,
    /// A number that is too large for most fields.
    Large,
    /// The opposite of a bool.
    Flip,
    /// An empty list or map.
    Clear,
    /// A list with its first item twice.
    Repeat,
    /// A map with an invalid key.
    BadKey,
    /// A similar value, which is often valid.
    Similar,
}

impl Change {
    pub(super) fn name(self) -> String {
        if let Self::Swap(text) = self {
            return format!("swap={text}");
        }
        format!("{self:?}").to_lowercase()
    }

    /// Returns the changes of a value in a new object.
    pub(super) fn for_create(pointer: &str, value: &Value) -> Vec<Self> {
        match value {
            Value::String(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                vec![Self::Bogus, Self::Negative]
            }
            Value::String(text) => [Self::Bogus, Self::Blank].into_iter().chain(swaps(text)).collect(),
            Value::Number(_) => vec![Self::Negative, Self::Zero, Self::Large],
            Value::Bool(_) => vec![Self::Flip],
            Value::Array(_) => vec![Self::Clear, Self::Repeat],
            Value::Object(_) if is_map(pointer, value) => vec![Self::BadKey, Self::Clear],
            Value::Object(_) => vec![Self::Clear],
            Value::Null => Vec::new(),
        }
    }

    /// Returns the changes of a value in a stored object.
    pub(super) fn for_update(pointer: &str, value: &Value) -> Vec<Self> {
        match value {
            Value::String(text) => [Self::Similar].into_iter().chain(swaps(text)).collect(),
            Value::Number(_) | Value::Array(_) => vec![Self::Similar],
            Value::Bool(_) => vec![Self::Flip],
            Value::Object(_) if is_map(pointer, value) => vec![Self::Similar],
            Value::Object(_) | Value::Null => Vec::new(),
        }
    }

    /// Returns the new value; `None` if the change removes the value.
    pub(super) fn apply(self, value: &Value) -> Option<Value> {
        let new = match (self, value) {
            (Self::Remove, _) => return None,
            (Self::Blank, _) => "".into(),
            (Self::Bogus, _) => "Bad!".into(),
            (Self::Swap(text), _) => text.into(),
            (Self::Negative, Value::String(_)) => "-1".into(),
            (Self::Negative, _) => (-1).into(),
            (Self::Zero, _) => 0.into(),
            (Self::Large, _) => 100_000.into(),
            (Self::Flip, value) => (value == false).into(),
            (Self::Clear, Value::Array(_)) => json!([]),
            (Self::Clear, _) => json!({}),
            (Self::Repeat | Self::Similar, Value::Array(items)) => {
                items.iter().chain(items.first()).cloned().collect()
            }
            (Self::BadKey | Self::Similar, Value::Object(fields)) => {
                let mut fields = fields.clone();
                let key = if self == Self::BadKey { "Bad key!" } else { "new" };
                let value = fields.values().next().cloned().unwrap_or_default();
                fields.insert(key.into(), value);
                fields.into()
            }
            (Self::Similar, Value::Number(number)) => (number.as_i64().unwrap_or_default() + 1).into(),
            (Self::Similar, Value::String(text)) => similar(text).into(),
            (_, value) => value.clone(),
        };
        Some(new)
    }
}

/// Doubles a number such as `1Gi`, and extends any other text.
fn similar(text: &str) -> String {
    if text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(['.', '-']) {
        format!("1{text}")
    } else {
        format!("{text}x")
    }
}

fn swaps(text: &str) -> impl Iterator<Item = Change> {
    PAIRS.iter().filter(move |[value, _]| *value == text).map(|[_, other]| Change::Swap(other))
}

fn is_map(pointer: &str, value: &Value) -> bool {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    let fields = value.as_object().into_iter().flatten();
    MAPS.contains(&name) && fields.into_iter().all(|(_, value)| value.is_string())
}
