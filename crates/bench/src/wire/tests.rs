//! Compares each encoding with bytes of kube-apiserver 1.36.3, and parses the written bytes.

use super::*;
use crate::pods::SENT_LABEL;

const ALL: [Wire; 3] = [Wire::Json, Wire::Metadata, Wire::Protobuf];

/// The bytes of an object `a` in a list.
fn object(wire: Wire, version: &str) -> Object {
    let spec = if wire == Wire::Metadata { "" } else { r#","spec":{"nodeName":"n"}"# };
    let json = format!(
        r#"{{"metadata":{{"name":"a","namespace":"b","resourceVersion":"{version}","labels":{{"x":"1","{SENT_LABEL}":"{NOT_SENT}"}}}}{spec}}}"#
    );
    let bytes = match wire {
        Wire::Json | Wire::Metadata => json.into_bytes(),
        Wire::Protobuf => protobuf::tests::pod(version),
    };
    Object::new(wire, bytes.into()).unwrap()
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn bookmarks_equal_those_of_kube_apiserver() {
    let json = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"209","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}"#;
    assert_eq!(Wire::Json.bookmark(Kind::Pod, 209, true), format!("{json}\n").as_bytes());
    let metadata = r#"{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"209","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    assert_eq!(Wire::Metadata.bookmark(Kind::Pod, 209, true), format!("{metadata}\n").as_bytes());
    let protobuf = hex("00000090 0a08424f4f4b4d41524b 128301 0a8001 6b387300 0a090a0276311203506f64 126b
         0a36 0a00 1200 1a00 2200 2a00 3203323039 3800 4200 6221
         0a196b38732e696f2f696e697469616c2d6576656e74732d656e64 120474727565
         121c 1a00320042004a005200580060006800 820100 8a0100 9a0100 c20100
         1a13 0a001a0022002a0032004a005a007200880100 1a00 2200");
    assert_eq!(Wire::Protobuf.bookmark(Kind::Pod, 209, true), protobuf);
}

#[test]
fn list_head_equals_that_of_kube_apiserver() {
    let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"209","continue":"t","remainingItemCount":1},"items":["#;
    assert_eq!(Wire::Json.list_head(Kind::Pod, 209, Some(("t", 1)), 0), json.as_bytes());
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjA5LCJzdGFydCI6Ii9wMlx1MDAwMCJ9";
    let whole = hex("6b387300 0a0d0a0276311207506f644c697374 12f014 0a090a0012033230391a00");
    assert_eq!(Wire::Protobuf.list_head(Kind::Pod, 209, None, 0x0a70 - 11), whole);
    let mut page = hex("6b387300 0a0d0a0276311207506f644c697374 12bf0e 0a4f0a0012033230391a44");
    page.extend_from_slice(token.as_bytes());
    page.extend(hex("2001"));
    assert_eq!(Wire::Protobuf.list_head(Kind::Pod, 209, Some((token, 1)), 0x073f - 81), page);
}

#[test]
fn events_and_lists_round_trip() {
    for wire in ALL {
        let object = object(wire, "1000000007");
        for change in [Change::Added, Change::Modified] {
            let mut event = Vec::new();
            wire.event(&mut event, Kind::Pod, change, &object, object.stamp());
            assert_eq!(wire.frame_length(&event), Some(event.len()), "{wire:?}");
            assert_eq!(wire.frame_length(&event[..event.len() - 1]), None, "{wire:?}");
            assert_eq!(wire.cut_event(Kind::Pod, &event, change).unwrap(), object.bytes, "{wire:?}");
        }
        if wire != Wire::Metadata {
            let mut list = wire.list_head(Kind::Pod, 9, None, 2 * wire.item_length(&object));
            wire.item(&mut list, &object, object.stamp(), true);
            wire.item(&mut list, &object, object.stamp(), false);
            list.extend_from_slice(wire.list_tail());
            let cut = wire.cut_list(&list).unwrap();
            assert_eq!((cut.version, cut.items), (9, vec![&object.bytes[..]; 2]), "{wire:?}");
        }
    }
}

#[test]
fn object_changes_only_in_version_and_send_time() {
    for wire in ALL {
        let object = object(wire, "1000000007");
        let stamp = Stamp { version: 1_234_567_890, sent: 1_795_301_950_123_456_789, number: None };
        let mut event = Vec::new();
        wire.event(&mut event, Kind::Pod, Change::Modified, &object, stamp);
        let sent =
            Object::new(wire, wire.cut_event(Kind::Pod, &event, Change::Modified).unwrap().into()).unwrap();
        assert_eq!(sent.recorded, stamp.version, "{wire:?}");
        assert_eq!(number(&sent.bytes, &sent.sent).unwrap(), stamp.sent, "{wire:?}");
        let mut back = Vec::new();
        sent.write(&mut back, object.stamp(), 0);
        assert_eq!(back, object.bytes, "{wire:?}");
    }
}

#[test]
fn raised_version_has_all_digits() {
    for wire in ALL {
        let recorded = object(wire, "209");
        assert!(!recorded.is_raised(), "{wire:?}");
        let raised = Object::new(wire, recorded.raised(wire).unwrap().into()).unwrap();
        assert!(raised.is_raised(), "{wire:?}");
        assert_eq!(raised.recorded, 1_000_000_209, "{wire:?}");
        assert_eq!(raised.bytes, object(wire, "1000000209").bytes, "{wire:?}");
    }
}

#[test]
fn an_expired_watch_ends_with_the_code_410() {
    let json = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 3 (9)","reason":"Expired","code":410}}"#;
    assert_eq!(Wire::Json.expired(3, 9), format!("{json}\n").as_bytes());
    let protobuf = Wire::Protobuf.expired(3, 9);
    assert_eq!(Wire::Protobuf.frame_length(&protobuf), Some(protobuf.len()));
    assert!(protobuf.ends_with(&[0x30, 0x9a, 0x03, 0x1a, 0, 0x22, 0]), "{protobuf:x?}");
}

#[test]
fn first_accepted_encoding_is_used() {
    for (accept, wire) in [
        ("application/json", Wire::Json),
        ("application/vnd.kubernetes.protobuf,application/json", Wire::Protobuf),
        ("application/vnd.kubernetes.protobuf;stream=watch", Wire::Protobuf),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Wire::Metadata),
        ("", Wire::Json),
    ] {
        assert_eq!(Wire::of(accept), wire, "{accept}");
    }
}

#[test]
fn truncated_bytes_are_an_error() {
    let object = object(Wire::Protobuf, "1000000007");
    let spec = 2;
    for length in 0..object.bytes.len() - spec {
        assert!(Object::new(Wire::Protobuf, object.bytes.slice(..length)).is_err(), "{length}");
    }
    assert!(Wire::Protobuf.cut_list(b"k8s\0\x12\x05").is_err());
    assert!(Wire::Json.cut_list(b"{\"metadata\":").is_err());
}
