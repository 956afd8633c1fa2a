//! Malicious bodies are decoded or rejected within bounds of time, memory and stack.

use proptest::prelude::*;

use super::*;

/// A pod with most kinds of fields: texts, numbers, lists, maps, quantities, times, inline messages.
fn pod() -> Vec<u8> {
    let limit = [sub(1, "cpu"), sub(2, sub(1, "100m"))].concat();
    let port = [sub(1, "web"), int(3, 80)].concat();
    let probe = [sub(1, sub(2, sub(2, [int(1, 0), int(2, 80)].concat()))), int(3, 9)].concat();
    let container = [sub(1, "c"), sub(2, "i"), sub(6, port), sub(8, sub(1, limit)), sub(10, probe)].concat();
    let labels = sub(11, [sub(1, "app"), sub(2, "web")].concat());
    let metadata = [sub(1, "p"), sub(8, int(1, 60)), labels].concat();
    body("v1", "Pod", [sub(1, metadata), sub(2, [sub(2, container), int(4, 30)].concat())].concat())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in ["Pod", "Secret", "DeleteOptions"] {
            let _ = read(&[envelope::PREFIX, &bytes].concat(), "v1", kind);
            let _ = read(&body("v1", kind, &bytes), "v1", kind);
        }
        let version = "apiextensions.k8s.io/v1";
        let _ = read(&body(version, "CustomResourceDefinition", &bytes), version, "CustomResourceDefinition");
    }

    #[test]
    fn changed_bodies_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = pod();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(object) = read(&bytes, "v1", "Pod") {
            prop_assert!(object.is_object());
        }
    }
}

#[test]
fn recursive_schema_is_bounded() {
    let refused = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| sub(28, inner)); // not
        let version = sub(4, sub(1, schema));
        let raw = sub(2, sub(7, [sub(1, "v1"), version].concat()));
        let group = "apiextensions.k8s.io/v1";
        read(&body(group, "CustomResourceDefinition", raw), group, "CustomResourceDefinition").is_err()
    };
    assert!(!refused(50));
    assert!(refused(100));
    assert!(refused(5_000));
}

#[test]
fn flood_of_empty_messages_is_rejected() {
    let containers = sub(2, "").repeat(200_000);
    let message = message_of(read(&body("v1", "Pod", sub(2, containers)), "v1", "Pod"));
    assert!(message.ends_with("the message has too many parts for its length"), "{message}");
    // The same number of messages with content is accepted.
    let containers = sub(2, sub(1, "container-1")).repeat(20_000);
    assert!(read(&body("v1", "Pod", sub(2, containers)), "v1", "Pod").is_ok());
}
