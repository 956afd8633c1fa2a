//! Generates Pods from a recorded Pod: replaces the parts of its bytes that are unique per Pod.
//!
//! Names, ids, digests, addresses and times are unique. Each is replaced by a value of the same
//! length with the same kind of digits. A generated Pod therefore has the length of the recorded
//! Pod, and does not compress better. Equal texts of a Pod stay equal.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use memchr::memmem;
use serde_json::Value;

/// The number of hexadecimal digits at the end of the name of a Pod.
const NAME_DIGITS: usize = 5;
/// The number of Pods with different names.
pub(crate) const MAX_OBJECTS: usize = 1 << (4 * NAME_DIGITS);
/// The number of Pods per namespace.
const PODS_PER_NAMESPACE: u64 = 100;
/// The number of digits at the end of the name of a node.
const NODE_DIGITS: usize = 3;
/// The maximum age of a Pod: a quarter of a year.
const MAX_AGE_SECONDS: i64 = 90 * 24 * 60 * 60;

/// A range of bytes that is unique per object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniquePart {
    /// The range in the bytes of the object.
    at: Range<usize>,
    kind: Kind,
    /// Equal for all occurrences of a text.
    seed: u64,
}

/// The kind of a unique part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Random digits of this base. Dashes do not change.
    Digits(u8),
    /// The number of the object.
    Number,
    /// The namespace of the object.
    Namespace,
    /// An IPv4 address. The first byte does not change.
    Address,
    /// A time, in seconds since 1970.
    Time(i64),
}

/// A text with a unique end of `tail` bytes.
struct UniqueText<'a> {
    text: &'a str,
    tail: usize,
    kind: Kind,
}

/// Returns the unique parts of an object in JSON, in their order.
pub(crate) fn unique_parts(json: &[u8]) -> Result<Vec<UniquePart>> {
    let object: Value = serde_json::from_slice(json)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).context("the object has no name")?;
    let mut found = vec![UniqueText { text: name, tail: NAME_DIGITS, kind: Kind::Number }];
    find("", &object, &mut found);
    let mut places: Vec<UniquePart> = found.iter().flat_map(|found| found.places(json)).collect();
    places.sort_unstable_by_key(|part| part.at.start);
    places.dedup();
    let overlap = places.windows(2).find(|pair| pair[0].at.end > pair[1].at.start);
    ensure!(overlap.is_none(), "unique parts overlap: {overlap:?}");
    Ok(places)
}

/// Finds the unique texts in the value of a key.
fn find<'a>(key: &str, value: &'a Value, found: &mut Vec<UniqueText<'a>>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| find(key, value, found)),
        Value::Array(items) => items.iter().for_each(|value| find(key, value, found)),
        Value::String(text) => found.extend(UniqueText::of(key, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl<'a> UniqueText<'a> {
    /// Returns the unique part of the text of a key, if it has one.
    fn of(key: &str, text: &'a str) -> Option<Self> {
        let is_token = || text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
        let behind = |separator| text.rsplit(separator).next().unwrap_or_default().len();
        let (tail, kind) = match key {
            "uid" => (text.len(), Kind::Digits(16)),
            "pod-template-hash" | "checksum/config" => (text.len(), Kind::Digits(36)),
            // The value of an environment variable.
            "value" if is_token() => (text.len(), Kind::Digits(36)),
            "containerID" => (behind('/'), Kind::Digits(16)),
            "imageID" => (behind(':'), Kind::Digits(16)),
            "args" if text.starts_with("--id=") => (behind('='), Kind::Digits(16)),
            "args" if text.starts_with("--shard=") => (behind('='), Kind::Digits(10)),
            "nodeName" => (NODE_DIGITS, Kind::Digits(16)),
            "namespace" => (text.len(), Kind::Namespace),
            "hostIP" | "podIP" => (text.len(), Kind::Address),
            _ => (text.len(), Kind::Time(seconds(text)?)),
        };
        Some(Self { text, tail, kind })
    }

    /// Returns all occurrences of this text as a complete word.
    fn places(&self, json: &[u8]) -> impl Iterator<Item = UniquePart> {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let (seed, length) = (hasher.finish(), self.text.len());
        let is_word = move |&start: &usize| {
            let is_in_word =
                |at: Option<usize>| at.and_then(|at| json.get(at)).is_some_and(u8::is_ascii_alphanumeric);
            !is_in_word(start.checked_sub(1)) && !is_in_word(Some(start + length))
        };
        let part =
            move |start| UniquePart { at: start + length - self.tail..start + length, kind: self.kind, seed };
        memmem::find_iter(json, self.text).filter(is_word).map(part)
    }
}

/// Parses a time in the format of Kubernetes.
fn seconds(text: &str) -> Option<i64> {
    let is_time = text.len() == "2026-01-01T00:00:00Z".len() && text.ends_with('Z');
    is_time.then(|| Some(text.parse::<Timestamp>().ok()?.as_second())).flatten()
}

impl UniquePart {
    /// Writes the value of the object with this number. `bytes` starts at byte `skipped` of the
    /// object, before all unique parts.
    pub(crate) fn write(&self, bytes: &mut [u8], skipped: usize, number: u64) {
        let place = &mut bytes[self.at.start - skipped..self.at.end - skipped];
        let rng = |seed| Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match self.kind {
            Kind::Digits(base) => digits(&mut rng(self.seed), base, place),
            Kind::Number => written(place, format_args!("{number:00$x}", self.at.len())),
            Kind::Namespace => {
                written(place, format_args!("t-{:01$}", number / PODS_PER_NAMESPACE, self.at.len() - 2));
            }
            Kind::Address => address(&mut rng(self.seed), place),
            Kind::Time(seconds) => {
                let earlier = SignedDuration::from_secs(seconds - rng(0).i64(0..MAX_AGE_SECONDS));
                written(place, format_args!("{}", Timestamp::UNIX_EPOCH + earlier));
            }
        }
    }
}

/// Writes a text. This cannot fail, because each text has the length of its place.
fn written(mut place: &mut [u8], text: std::fmt::Arguments<'_>) {
    let _ = place.write_fmt(text);
}

fn digits(rng: &mut Rng, base: u8, place: &mut [u8]) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    for byte in place.iter_mut().filter(|byte| **byte != b'-') {
        *byte = DIGITS[usize::from(rng.u8(..base))];
    }
}

fn address(rng: &mut Rng, place: &mut [u8]) {
    for part in place.split_mut(|&byte| byte == b'.').skip(1) {
        let value = match part.len() {
            1 => rng.u8(1..10),
            2 => rng.u8(10..100),
            _ => rng.u8(100..250),
        };
        written(part, format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Pod with each kind of unique part.
    const POD: &str = concat!(
        r#"{"metadata":{"name":"web-a1b2c3d4e5-00007","generateName":"web-a1b2c3d4e5-","namespace":"team-07","#,
        r#""uid":"9bf80227-adc4-416f-8cf7-2af32bada910","creationTimestamp":"2026-11-22T00:48:38Z","#,
        r#""labels":{"pod-template-hash":"a1b2c3d4e5","part-of":"team-07"},"#,
        r#""managedFields":[{"time":"2026-11-22T00:48:38Z","f:podIPs":{"k:{\"ip\":\"10.128.6.21\"}":{}}}]},"#,
        r#""spec":{"nodeName":"node-071","containers":[{"args":["--shard=7"],"env":[{"value":"vq42k0sw41nt"},"#,
        r#"{"value":"eu-west-1"}]}]},"status":{"hostIP":"10.4.6.21","podIP":"10.128.6.21","#,
        r#""startTime":"2026-11-22T00:49:38Z","containerID":"containerd://8406bb2df5af0204","#,
        r#""imageID":"registry/web:a1b2c3d4e5@sha256:2573d213172fe737"}}"#,
    );

    fn generate(number: u64) -> Value {
        let mut bytes = POD.as_bytes()[1..].to_vec();
        unique_parts(POD.as_bytes()).unwrap().iter().for_each(|part| part.write(&mut bytes, 1, number));
        assert_eq!(bytes.len() + 1, POD.len());
        serde_json::from_str(&format!("{{{}", std::str::from_utf8(&bytes).unwrap())).unwrap()
    }

    /// Returns the unique texts of a Pod.
    fn texts(pod: &Value) -> Vec<&str> {
        let at = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap();
        let part = [
            "/metadata/name",
            "/metadata/uid",
            "/metadata/creationTimestamp",
            "/metadata/labels/pod-template-hash",
            "/spec/nodeName",
            "/spec/containers/0/env/0/value",
            "/status/podIP",
            "/status/containerID",
            "/status/imageID",
        ];
        part.map(at).to_vec()
    }

    #[test]
    fn pods_differ_by_number_and_are_reproducible() {
        let (one, other) = (generate(1), generate(2));
        for (one, other) in texts(&one).iter().zip(texts(&other)) {
            assert_ne!(*one, other);
        }
        assert_eq!(generate(1), one);
    }

    #[test]
    fn equal_texts_stay_equal() {
        let pod = generate(0xabc);
        let hash = pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
        assert_eq!(pod["metadata"]["name"], format!("web-{hash}-00abc"));
        assert_eq!(pod["metadata"]["generateName"], format!("web-{hash}-"));
        assert!(
            pod["status"]["imageID"].as_str().unwrap().starts_with(&format!("registry/web:{hash}@sha256:"))
        );
        assert_eq!(pod["metadata"]["namespace"], "t-00027");
        assert_eq!(pod["metadata"]["namespace"], pod["metadata"]["labels"]["part-of"]);
        let managed = &pod["metadata"]["managedFields"][0];
        assert_eq!(pod["metadata"]["creationTimestamp"], managed["time"]);
        let address = pod["status"]["podIP"].as_str().unwrap();
        assert!(managed["f:podIPs"].get(format!(r#"k:{{"ip":"{address}"}}"#)).is_some(), "{managed}");
        let time = |at: &Value| seconds(at.as_str().unwrap()).unwrap();
        assert_eq!(time(&pod["status"]["startTime"]) - time(&managed["time"]), 60);
    }

    #[test]
    fn shared_texts_do_not_change() {
        let pod = generate(7);
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["value"], "eu-west-1");
        assert!(pod["status"]["containerID"].as_str().unwrap().starts_with("containerd://"));
        assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with("node-"));
        assert_eq!(
            generate(MAX_OBJECTS as u64 - 1)["metadata"]["name"].as_str().unwrap().len(),
            "web-a1b2c3d4e5-fffff".len()
        );
    }
}
