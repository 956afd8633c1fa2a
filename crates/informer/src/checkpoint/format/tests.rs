//! Tests that each file is read as it was written, and that each deviation is reported.

use std::io::{self, Write};

use proptest::prelude::*;

use super::*;
use crate::files::{Reader, hash, put_frame, take_frame};

fn header() -> Header {
    let texts = ["cluster", "/api/v1/pods", "app=web", "Pod", "audit", "v1"].map(str::to_owned);
    let identity = Identity::from_texts(texts.into()).unwrap();
    Header { identity, seed: Some(7), version: "900".into() }
}

fn file(entries: &[(ObjectKey, Known)], told: &[(ObjectKey, Uid)]) -> Vec<u8> {
    let mut file = Vec::new();
    encode(&header(), entries, &mut file).unwrap();
    for (key, uid) in told {
        file.extend(encode_told([(key, uid)]));
    }
    file
}

fn entry(name: &str, uid: &str, version: &str, digest: Option<u64>) -> (ObjectKey, Known) {
    let finished = Finished { version: version.into(), digest: digest.map(Digest::new) };
    (
        ObjectKey::new(Some("shop"), name),
        Known { is_unfinished: name == "web-0", finished: Some(finished), ..Known::told(uid.into()) },
    )
}

const UUID: &str = "6f2b1c00-5a5e-4f0e-9d0f-0a1b2c3d4e5f";

fn small_entries() -> Vec<(ObjectKey, Known)> {
    vec![
        (ObjectKey::new(None, "node"), Known::told("".into())),
        entry("web-0", UUID, "812", Some(1)),
        entry("web-1", "text", "0812", None),
        entry("web-10", UUID, "99999999999999999999999", Some(u64::MAX)),
    ]
}

fn small_told() -> Vec<(ObjectKey, Uid)> {
    vec![
        (ObjectKey::new(Some("shop"), "db"), UUID.into()),
        (ObjectKey::new(Some("shop"), "web-0"), "other".into()),
    ]
}

fn any_key() -> impl Strategy<Value = ObjectKey> {
    (proptest::option::of("[a-z]{0,4}"), "[a-z/ä]{0,12}")
        .prop_map(|(namespace, name)| ObjectKey::new(namespace.as_deref(), &name))
}

fn any_version() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]{0,25}", any::<u64>().prop_map(|number| number.to_string()), "[a-z]{0,5}"]
}

fn any_uid() -> impl Strategy<Value = String> {
    prop_oneof![Just(UUID.to_owned()), Just(UUID.to_uppercase()), "[a-zä]{0,40}"]
}

fn any_known() -> impl Strategy<Value = Known> {
    let finished = proptest::option::of((any_version(), proptest::option::of(any::<u64>())));
    (any_uid(), finished, any::<bool>()).prop_map(|(uid, finished, is_unfinished)| Known {
        is_unfinished: is_unfinished || finished.is_none(),
        finished: finished.map(|(version, digest)| Finished {
            version: version.as_str().into(),
            digest: digest.map(Digest::new),
        }),
        ..Known::told(uid.as_str().into())
    })
}

proptest! {
    #[test]
    fn file_round_trips(
        entries in proptest::collection::btree_map(any_key(), any_known(), 0..40),
        told in proptest::collection::vec((any_key(), any_uid().prop_map(|uid| Uid::new(&uid))), 0..5),
        seed: Option<u64>,
        version in any_version(),
    ) {
        let header = Header { seed, version: version.as_str().into(), ..header() };
        let entries: Vec<_> = entries.into_iter().collect();
        let mut file = Vec::new();
        encode(&header, &entries, &mut file).unwrap();
        file.extend(encode_told(told.iter().map(|(key, uid)| (key, uid))));
        let valid_len = file.len() as u64;
        prop_assert_eq!(decode(&file), Ok(Decoded { header, entries, told, valid_len }));
    }

    #[test]
    fn any_bytes_never_panic(bytes: Vec<u8>) {
        prop_assert!(decode(&bytes).is_err());
        let after_magic = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &bytes].concat();
        prop_assert!(decode(&after_magic).is_err());
    }

    /// The hash of the frame is correct, so that the reader of the payload is reached.
    #[test]
    fn any_payload_never_panics(header: Vec<u8>, block: Vec<u8>, told: Vec<u8>) {
        let mut bytes = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes()].concat();
        put_frame(&mut bytes, tag::HEADER, &header);
        prop_assert!(decode(&bytes).is_err());
        let _block = decode::read_block(Reader(&block), &mut Vec::new());
        let mut bytes = file(&[], &[]);
        put_frame(&mut bytes, tag::TOLD, &told);
        let _told = decode(&bytes);
    }
}

#[test]
fn blocks_have_at_most_64_kib() {
    let entries: Vec<_> =
        (0..20_000).map(|at| entry(&format!("web-{at:06}"), UUID, &at.to_string(), Some(at))).collect();
    let file = file(&entries, &[]);
    let mut rest = &file[12..];
    let mut blocks = 0;
    while let Ok((tag, payload)) = take_frame(&mut rest) {
        assert!(payload.len() <= MAX_BLOCK);
        blocks += usize::from(tag == tag::BLOCK);
    }
    assert!(blocks > 5, "{blocks} blocks in {} bytes", file.len());
    assert_eq!(decode(&file).unwrap().entries, entries);
}

#[test]
fn flipped_byte_at_any_position_makes_file_unusable() {
    let file = file(&small_entries(), &small_told());
    assert!(decode(&file).is_ok());
    for at in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            let mut flipped = file.clone();
            flipped[at] ^= flip;
            assert!(decode(&flipped).is_err(), "byte {at} of {}, flipped by {flip:#x}", file.len());
        }
    }
}

#[test]
fn truncation_before_end_of_footer_makes_file_unusable() {
    let file = file(&small_entries(), &[]);
    for len in 0..file.len() {
        assert!(decode(&file[..len]).is_err(), "{len} of {} bytes", file.len());
    }
}

#[test]
fn truncated_journal_keeps_complete_frames() {
    let (start, told) = (file(&small_entries(), &[]).len(), small_told());
    let first = file(&small_entries(), &told[..1]).len();
    let file = file(&small_entries(), &told);
    for len in start..=file.len() {
        let kept = usize::from(len >= first) + usize::from(len == file.len());
        let decoded = decode(&file[..len]).unwrap();
        assert_eq!((decoded.told, decoded.entries), (told[..kept].to_vec(), small_entries()), "{len} bytes");
        assert_eq!(decoded.valid_len as usize, [start, first, file.len()][kept]);
    }
}

#[test]
fn removed_or_moved_block_makes_file_unusable() {
    let file = file(&small_entries(), &[]);
    let mut rest = &file[12..];
    let at = |rest: &[u8]| file.len() - rest.len();
    take_frame(&mut rest).unwrap();
    let start = at(rest);
    take_frame(&mut rest).unwrap();
    let end = at(rest);
    let (before, block, after) = (&file[..start], &file[start..end], &file[end..]);
    assert!(decode(&[before, after].concat()).is_err(), "a removed block");
    assert!(decode(&[before, block, block, after].concat()).is_err(), "a repeated block");
    assert!(decode(&[before, after, block].concat()).is_err(), "a block after the footer");
    assert!(decode(&[before, block, after, after].concat()).is_err(), "a repeated footer");
}

#[test]
fn other_formats_are_named() {
    assert_eq!(decode(b""), Err(Unusable::Truncated));
    assert_eq!(decode(b"{\"kind\":\"Pod\"}"), Err(Unusable::Magic("checkpoint")));
    let mut newer = file(&[], &[]);
    newer[8] = 2;
    assert_eq!(decode(&newer), Err(Unusable::FormatVersion { found: 2, supported: 1 }));
}

/// Fails after some bytes, like a full disk.
struct FailAfter(usize);

impl Write for FailAfter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, io::Error> {
        let written = bytes.len().min(self.0);
        self.0 -= written;
        if written == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(written) }
    }

    fn flush(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

#[test]
fn error_of_writer_at_any_byte_is_returned() {
    let len = file(&small_entries(), &[]).len();
    for at in 0..len {
        let error = encode(&header(), &small_entries(), &mut FailAfter(at)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "byte {at}");
    }
    encode(&header(), &small_entries(), &mut FailAfter(len)).unwrap();
}

#[test]
fn entry_above_64_kib_is_an_error() {
    let large = entry(&"x".repeat(MAX_BLOCK), UUID, "1", None);
    let error = encode(&header(), &[large], &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("64 KiB"), "{error}");
}

/// A typical object of a Deployment.
fn pod(at: u64) -> (ObjectKey, Known) {
    let name = format!("web-{:03}-7d4b9c6f5d-{:05x}", at / 20, at.wrapping_mul(0x9e37_79b9) & 0xf_ffff);
    let id = hash(&at.to_le_bytes());
    let uid = Uid::new(&format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        id as u32,
        id as u16,
        id >> 52,
        id >> 40 & 0xfff,
        id & 0xffff_ffff_ffff
    ));
    let finished = Finished { version: (100_000 + at * 7).into(), digest: Some(Digest::new(id)) };
    let known = Known { uid, finished: Some(finished), is_unfinished: false, is_in_journal: false };
    (ObjectKey::new(Some(&format!("shop-{}", at / 1000)), &name), known)
}

#[test]
fn object_needs_40_bytes_in_file_and_80_bytes_in_memory() {
    let mut entries: Vec<_> = (0..20_000).map(pod).collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let bytes = file(&entries, &[]).len() / entries.len();
    assert!(bytes <= 40, "{bytes} bytes");
    assert_eq!(size_of::<(ObjectKey, Known)>(), 80);
}
