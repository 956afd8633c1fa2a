//! Tests that each file is read as it was written, and that each deviation is reported.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

use kube_object::{Digest, ObjectId, ObjectKey, Uid};
use proptest::prelude::*;

use super::*;
use crate::files::{HEAD_BYTES, put_frame, put_number, take_frame};

const UUID: &str = "6f2b1c00-5a5e-4f0e-9d0f-0a1b2c3d4e5f";
const START: usize = 12;

type Entry = (ObjectId, Option<Digest>, Vec<u8>);

fn header() -> Header {
    let texts = ["cluster", "/api/v1/pods", "app=web", "Pod", "1"].map(str::to_owned);
    let identity = Identity::from_texts(texts.into()).unwrap();
    let saved_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    Header { identity, seed: Some(7), version: "900".into(), saved_at, complete: true }
}

fn write(header: &Header, entries: &[Entry], out: &mut impl Write, compress: bool) -> Result<(), io::Error> {
    let mut writer = FileWriter::new(out, header, compress)?;
    for (id, digest, object) in entries {
        writer.add(id, *digest, object)?;
    }
    writer.finish()
}

fn file(entries: &[Entry]) -> Vec<u8> {
    let mut file = Vec::new();
    write(&header(), entries, &mut file, true).unwrap();
    file
}

fn read(file: &[u8]) -> Result<(Header, Vec<Entry>), Unusable> {
    read_len(file, file.len() as u64)
}

fn read_len(file: &[u8], len: u64) -> Result<(Header, Vec<Entry>), Unusable> {
    let (mut reader, header) = FileReader::new(file, len)?;
    let (mut blocks, mut read) = (BlockReader::default(), Vec::new());
    loop {
        match reader.next()? {
            Frame::Block(payload) => blocks.read(&payload, |id, digest, object| {
                read.push((id, digest, object.to_vec()));
                Ok(())
            })?,
            Frame::End { entries } => {
                blocks.end(entries)?;
                return Ok((header, read));
            }
        }
    }
}

fn entry(namespace: Option<&str>, name: &str, uid: &str, version: &str, object: &[u8]) -> Entry {
    let id = ObjectId { key: ObjectKey::new(namespace, name), uid: uid.into(), version: version.into() };
    (id, (name != "web-1").then(|| Digest::new(7)), object.to_vec())
}

fn small() -> Vec<Entry> {
    vec![
        entry(None, "node", "", "", b""),
        entry(Some("shop"), "web-0", UUID, "812", &b"{\"a\":1}".repeat(20)),
        entry(Some("shop"), "web-1", "text", "0812", b"{}"),
        entry(Some("shop"), "web-10", UUID, "99999999999999999999999", b"{\"b\":[]}"),
    ]
}

/// Returns a file with these frames after the header.
fn frames(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut file = file(&[]);
    let mut rest = &file[START..];
    take_frame(&mut rest).unwrap();
    file.truncate(file.len() - rest.len());
    frames.iter().for_each(|(tag, payload)| put_frame(&mut file, *tag, payload));
    file
}

fn any_key() -> impl Strategy<Value = ObjectKey> {
    (proptest::option::of("[a-z]{0,4}"), "[a-z/ä]{0,12}")
        .prop_map(|(namespace, name)| ObjectKey::new(namespace.as_deref(), &name))
}

fn any_value() -> impl Strategy<Value = (String, String, Option<u64>, Vec<u8>)> {
    let uid = prop_oneof![Just(UUID.to_owned()), Just(UUID.to_uppercase()), "[a-zä]{0,40}"];
    let version =
        prop_oneof!["[0-9]{0,25}", any::<u64>().prop_map(|number| number.to_string()), "[a-z]{0,5}"];
    let object = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        (any::<u8>(), 0..150_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    (uid, version, proptest::option::of(any::<u64>()), object)
}

proptest! {
    #[test]
    fn file_round_trips(
        entries in proptest::collection::btree_map(any_key(), any_value(), 0..40),
        seed: Option<u64>,
        complete: bool,
        compress: bool,
    ) {
        let header = Header { seed, complete, ..header() };
        let entries: Vec<Entry> = entries
            .into_iter()
            .map(|(key, (uid, version, digest, object))| {
                let id = ObjectId { key, uid: Uid::new(&uid), version: version.as_str().into() };
                (id, digest.map(Digest::new), object)
            })
            .collect();
        let mut file = Vec::new();
        write(&header, &entries, &mut file, compress).unwrap();
        prop_assert_eq!(read(&file), Ok((header, entries)));
    }

    #[test]
    fn any_bytes_never_panic(bytes: Vec<u8>) {
        prop_assert!(read(&bytes).is_err());
        let after_magic = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &bytes].concat();
        prop_assert!(read(&after_magic).is_err());
    }

    /// The hashes of the frames are correct, so that the readers of the payloads are reached.
    #[test]
    fn any_payload_never_panics(payload: Vec<u8>, tag in 0..5_u8, stored: bool) {
        let mut header = [&MAGIC[..], &FORMAT_VERSION.to_le_bytes()].concat();
        put_frame(&mut header, tag::HEADER, &payload);
        prop_assert!(read(&header).is_err());
        let payload = if stored { [&[0], payload.as_slice()].concat() } else { payload };
        prop_assert!(read(&frames(&[(tag, payload)])).is_err());
    }
}

#[test]
fn flipped_bit_at_any_byte_makes_file_unusable() {
    let file = file(&small());
    assert!(read(&file).is_ok());
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << bit;
            assert!(read(&flipped).is_err(), "bit {bit} of byte {at} of {}", file.len());
        }
    }
}

#[test]
fn truncation_at_any_byte_makes_file_unusable() {
    let file = file(&small());
    for len in 0..file.len() {
        assert_eq!(read(&file[..len]), Err(Unusable::Truncated), "{len} of {} bytes", file.len());
        assert_eq!(
            read_len(&file[..len], file.len() as u64),
            Err(Unusable::Truncated),
            "the file shrinks during the read"
        );
    }
}

#[test]
fn bytes_after_footer_make_file_unusable() {
    let file = file(&small());
    assert_eq!(read(&[file.as_slice(), &[0]].concat()), Err(Unusable::Damaged("bytes follow the footer")));
    assert!(read(&[file.as_slice(), &file].concat()).is_err());
}

/// Each of these files has correct checksums of its frames.
#[test]
fn removed_repeated_or_moved_block_makes_file_unusable() {
    let large = |name: &str| entry(None, name, UUID, "1", &[7; BLOCK_BYTES]);
    let file = file(&[large("a"), large("b"), large("c")]);
    let (mut rest, mut parts) = (&file[START..], vec![&file[..START]]);
    while !rest.is_empty() {
        let before = rest;
        take_frame(&mut rest).unwrap();
        parts.push(&before[..before.len() - rest.len()]);
    }
    assert_eq!(parts.len(), 6, "magic, header, three blocks, footer");
    let without = |at: usize| [&parts[..at], &parts[at + 1..]].concat().concat();
    for at in 1..parts.len() {
        assert!(read(&without(at)).is_err(), "without part {at}");
        let repeated = [&parts[..=at], &parts[at..]].concat().concat();
        assert!(read(&repeated).is_err(), "part {at} twice");
        if at + 1 < parts.len() {
            let mut moved = parts.clone();
            moved.swap(at, at + 1);
            assert!(read(&moved.concat()).is_err(), "parts {at} and {}", at + 1);
        }
    }
}

/// The counts of the footer and the keys are correct, so only the hash of the file differs.
#[test]
fn block_of_another_file_makes_file_unusable() {
    let file = |object: &[u8]| file(&[entry(None, "a", UUID, "1", object)]);
    let (first, second) = (file(b"{\"a\":1}"), file(b"{\"a\":2}"));
    let footer = |file: &[u8]| {
        let mut rest = &file[START..];
        take_frame(&mut rest).unwrap();
        take_frame(&mut rest).unwrap();
        file.len() - rest.len()
    };
    let mixed = [&first[..footer(&first)], &second[footer(&second)..]].concat();
    assert_eq!(read(&mixed), Err(Unusable::Damaged("the file has another checksum")));
}

#[test]
fn keys_in_another_order_make_file_unusable() {
    for names in [["b", "a"], ["a", "a"]] {
        let entries = names.map(|name| entry(None, name, UUID, "1", b"{}"));
        let expected = Err(Unusable::Damaged("the keys have another order"));
        assert_eq!(read(&file(&entries)), expected, "{names:?}");
        let large = names.map(|name| entry(None, name, UUID, "1", &[7; BLOCK_BYTES]));
        assert_eq!(read(&file(&large)), expected, "{names:?} in two blocks");
    }
}

#[test]
fn other_formats_are_named() {
    assert_eq!(read(b""), Err(Unusable::Truncated));
    assert_eq!(read(b"{\"kind\":\"Pod\"}"), Err(Unusable::Magic("snapshot")));
    for found in [0, 2, u32::MAX] {
        let mut other = file(&[]);
        other[8..START].copy_from_slice(&found.to_le_bytes());
        assert_eq!(read(&other), Err(Unusable::FormatVersion { found, supported: 1 }));
    }
    let message = Unusable::FormatVersion { found: 2, supported: 1 }.to_string();
    assert_eq!(message, "its format has version 2, and this program reads version 1");
}

/// If this test fails, the format has changed. Then increase its version.
#[test]
fn file_of_version_1_is_read() {
    let file: &[u8] = include_bytes!("version_1.snapshot");
    let header = Header { seed: None, ..header() };
    assert_eq!(read(file), Ok((header, small())));
}

#[test]
fn block_of_implausible_size_is_not_allocated() {
    let block = |len: u64, compressed: &[u8]| {
        let mut payload = Vec::new();
        put_number(&mut payload, len);
        payload.extend_from_slice(compressed);
        read(&frames(&[(tag::BLOCK, payload)]))
    };
    let implausible = Err(Unusable::Damaged("a block has an implausible size"));
    let zeros = lz4_flex::block::compress(&vec![0; 1 << 20]);
    assert_eq!(block(u64::MAX, &zeros), implausible);
    assert_eq!(block(2 << 20, &zeros), implausible, "{} bytes do not contain 2 MiB", zeros.len());
    let noise: Vec<u8> = (0..MAX_BLOCK_BYTES / 200).map(|at| (at * at) as u8).collect();
    assert_eq!(block(MAX_BLOCK_BYTES as u64 + 1, &noise), implausible);
    assert_eq!(
        block(4, &lz4_flex::block::compress(b"12345")),
        Err(Unusable::Damaged("a block cannot be decompressed"))
    );
    // A frame is not larger than the file.
    let mut file = frames(&[(tag::BLOCK, vec![0; 100])]);
    let at = file.len() - 100 - 8 - HEAD_BYTES;
    let mut head = Vec::new();
    put_frame(&mut head, tag::BLOCK, &vec![0; 100_000]);
    file[at..at + HEAD_BYTES].copy_from_slice(&head[..HEAD_BYTES]);
    assert_eq!(read(&file), Err(Unusable::Truncated));
}

#[test]
fn blocks_have_at_most_64_kib_except_for_large_objects() {
    let mut rng = fastrand::Rng::with_seed(7);
    let entries: Vec<Entry> = (0..300)
        .map(|at| {
            let object: Vec<u8> =
                (0..if at == 150 { 3 * BLOCK_BYTES } else { 1000 }).map(|_| rng.u8(..)).collect();
            entry(Some("shop"), &format!("web-{at:03}"), UUID, "1", &object)
        })
        .collect();
    let file = file(&entries);
    let (mut rest, mut sizes) = (&file[START..], Vec::new());
    while let Ok((tag, payload)) = take_frame(&mut rest) {
        if tag == tag::BLOCK {
            sizes.push(payload.len());
        }
    }
    let large = sizes.iter().filter(|size| **size > BLOCK_BYTES + 10).count();
    assert_eq!((large, sizes.len()), (1, 7), "{sizes:?}");
    assert_eq!(read(&file).unwrap().1, entries);
}

#[test]
fn object_above_maximum_is_an_error() {
    let large = entry(None, "a", UUID, "1", &vec![0; MAX_BLOCK_BYTES]);
    let error = write(&header(), &[large], &mut Vec::new(), true).unwrap_err();
    assert_eq!(error.to_string(), "a has more than 64 MiB");
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
    let len = file(&small()).len();
    for at in 0..len {
        let error = write(&header(), &small(), &mut FailAfter(at), true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "byte {at}");
    }
    write(&header(), &small(), &mut FailAfter(len), true).unwrap();
}
