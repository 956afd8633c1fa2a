//! Writes the objects of a workload as a recording, which the replay server serves.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::workload::{LIST_VERSION, Workload};
use crate::recording::{Manifest, Written, save};
use crate::wire::{Object, Wire, raise};

/// Creates the recording of a workload in a folder. `encoder` converts
/// JSON to protobuf, if the kind has protobuf.
pub(super) async fn recorded(
    workload: &Workload,
    objects: usize,
    encoder: Option<Command>,
    folder: &Path,
) -> Result<()> {
    let mut states = [Vec::new(), Vec::new()];
    for index in 0..objects {
        let object = workload.states(index)?;
        for (all, json) in states.iter_mut().zip([object.listed, object.changed]) {
            all.push(Bytes::from(json));
        }
    }
    let kind = workload.kind();
    let server = format!("generated: {}", workload.name);
    let version = raise(LIST_VERSION as u64);
    let manifest = Manifest { version, objects, server, protobuf: encoder.is_some(), kind };
    let protobuf = match encoder {
        Some(encoder) => Some(protobuf(encoder, &states).await?),
        None => None,
    };
    let [listed, changed] = states;
    let mut all = vec![(Wire::Json, written(Wire::Json, listed, changed)?)];
    all.extend(protobuf.map(|written| (Wire::Protobuf, written)));
    save(folder, &manifest, &all)
}

/// Converts objects in two states to protobuf.
async fn protobuf(encoder: Command, states: &[Vec<Bytes>; 2]) -> Result<Written> {
    let objects = states[0].len();
    let lines: Vec<u8> = states.iter().flatten().flat_map(|json| [json, &b"\n"[..]].concat()).collect();
    let mut encoded = encode(encoder, lines).await?;
    let mut protobuf = Vec::new();
    while !encoded.is_empty() {
        let length = usize::try_from(take_varint(&mut encoded).context("the encoder wrote no length")?)?;
        ensure!(length <= encoded.len(), "the encoder wrote an incomplete object");
        protobuf.push(encoded.split_to(length));
    }
    ensure!(protobuf.len() == 2 * objects, "the encoder wrote {} objects", protobuf.len());
    let changed = protobuf.split_off(objects);
    written(Wire::Protobuf, protobuf, changed)
}

fn written(wire: Wire, listed: Vec<Bytes>, changed: Vec<Bytes>) -> Result<Written> {
    let objects =
        |all: Vec<Bytes>| all.into_iter().map(|bytes| Object::new(wire, bytes)).collect::<Result<_>>();
    Ok(Written { listed: objects(listed)?, changed: objects(changed)? })
}

/// Runs the encoder with these lines as its input.
async fn encode(mut encoder: Command, lines: Vec<u8>) -> Result<Bytes> {
    encoder.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = encoder.spawn().context("cannot start the encoder")?;
    let mut input = child.stdin.take().context("the encoder has no standard input")?;
    let write = async move {
        input.write_all(&lines).await?;
        input.shutdown().await
    };
    let (written, output) = tokio::join!(write, child.wait_with_output());
    let output = output?;
    ensure!(output.status.success(), "the encoder failed: {}", output.status);
    written.context("the encoder did not read all objects")?;
    Ok(output.stdout.into())
}

/// Removes a varint from the start of the bytes.
fn take_varint(bytes: &mut Bytes) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let byte = *bytes.get(at)?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *bytes = bytes.split_off(at + 1);
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_is_removed_from_the_start() {
        let mut bytes = Bytes::from_static(&[0xac, 0x02, 7]);
        assert_eq!((take_varint(&mut bytes), &bytes[..]), (Some(300), &[7][..]));
        assert_eq!(take_varint(&mut Bytes::from_static(&[0x80])), None);
    }
}
