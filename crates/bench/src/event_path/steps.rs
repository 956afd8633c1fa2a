//! The steps of an event in memory: the functions that an informer calls for each event.

use std::hint::black_box;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use fastrand::Rng;
use k8s_openapi::api::core::v1::Pod;
use kube_client::core::metadata::TypeMeta;
use kube_informer::{Cached, Compressed, Lazy};
use kube_object::{
    Decode as _, DecodeContext, Delta, Digest, Entry, Envelope, Listed, Outline, RawObject, ResourceVersion,
};
use kube_store::Store;
use serde::Serialize;

use crate::recording::Recording;
use crate::stores::ThreadStatistics;

/// The number of events that are measured together. A watch delivers up to this number as one batch.
const GROUP_SIZE: usize = 64;

/// Identifies a step of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Find the end of the line.
    Line,
    /// Find the type, the identity, the labels and managedFields.
    Scan,
    /// Compute the digest of the JSON.
    Digest,
    /// Copy the identity and decode the object.
    Decode,
    /// Apply the batch to the store.
    Store,
    /// Drop the events with the replaced states.
    Drop,
}

impl Step {
    /// All steps, in the order of an event.
    pub(super) const ALL: [Self; 6] =
        [Self::Line, Self::Scan, Self::Digest, Self::Decode, Self::Store, Self::Drop];
}

/// Returns the CPU time per event of each step, in microseconds.
pub(super) fn measure_steps(recording: &Path, representation: &str) -> Result<Vec<(Step, f64)>> {
    let recording = Recording::load(recording)?;
    match representation {
        "typed" => measure::<Pod>(&recording),
        "lazy" => measure::<Lazy<Pod>>(&recording),
        "compressed" => measure::<Compressed<Pod>>(&recording),
        _ => bail!("no representation {representation:?}"),
    }
}

/// Decodes objects to one representation.
struct Decoder<T: Cached> {
    context: DecodeContext,
    decoder: T::Decoder,
}

impl<T: Cached> Decoder<T> {
    fn new() -> Self {
        let kind = TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
        Self { context: DecodeContext::new(kind), decoder: T::Decoder::default() }
    }

    fn entry(&self, outline: Outline<'_>, digest: Digest) -> Result<Entry<T>> {
        let object = RawObject::new(outline, &self.context)?;
        let decoded = self.decoder.decode(&object)?;
        Ok(Entry::new(object.id.clone(), decoded.into()).with_digest(digest))
    }
}

fn measure<T: Cached>(recording: &Recording) -> Result<Vec<(Step, f64)>> {
    let decoder = Decoder::<T>::new();
    let mut lines = lines(recording.watch().into());
    let store = filled_store(&decoder, &lines)?;
    Rng::with_seed(1).shuffle(&mut lines);
    let mut cpu = [0.0; Step::ALL.len()];
    for group in lines.chunks(GROUP_SIZE) {
        // The kernel has just copied received bytes, so they are in the processor's cache.
        let received: Vec<Vec<u8>> = group.iter().map(|line| line.to_vec()).collect();
        let mut clock = Clock { cpu: &mut cpu, steps: Step::ALL.iter() };
        clock
            .time(|| Ok(received.iter().filter_map(|line| black_box(memchr::memchr(b'\n', line))).count()))?;
        let scanned = clock.time(|| received.iter().map(|line| scan(line)).collect::<Result<Vec<_>>>())?;
        let digests: Vec<Digest> = clock.time(|| {
            Ok(scanned.iter().map(|outline| Digest::compute(outline, &decoder.context)).collect())
        })?;
        let deltas = clock.time(|| {
            let pairs = scanned.into_iter().zip(digests);
            pairs
                .map(|(outline, digest)| Ok(Delta::Put(decoder.entry(outline, digest)?)))
                .collect::<Result<_>>()
        })?;
        let events = clock.time(|| Ok(store.apply(deltas)))?;
        clock.time(|| {
            drop(events);
            Ok(())
        })?;
    }
    let per_event = |cpu: f64| cpu * 1e6 / lines.len() as f64;
    Ok(Step::ALL.into_iter().zip(cpu.map(per_event)).collect())
}

/// Adds the CPU times of the steps, in their order.
struct Clock<'a> {
    cpu: &'a mut [f64],
    steps: std::slice::Iter<'a, Step>,
}

impl Clock<'_> {
    fn time<R>(&mut self, step: impl FnOnce() -> Result<R>) -> Result<R> {
        let at = *self.steps.next().context("there are more steps than names")? as usize;
        let before = ThreadStatistics::before()?;
        let result = step()?;
        self.cpu[at] += (ThreadStatistics::after()? - before).cpu.as_secs_f64();
        Ok(result)
    }
}

/// Splits the body of a watch. Each line contains its newline.
fn lines(mut body: Bytes) -> Vec<Bytes> {
    let mut lines = Vec::new();
    while let Some(end) = memchr::memchr(b'\n', &body) {
        lines.push(body.split_to(end + 1));
    }
    lines
}

fn scan(line: &[u8]) -> Result<Outline<'_>> {
    Ok(Envelope::scan(line).context("a line is not an event")?.object)
}

/// Returns a store with an older state of each object.
fn filled_store<T: Cached>(decoder: &Decoder<T>, lines: &[Bytes]) -> Result<Store<T>> {
    let version = ResourceVersion::from(1);
    let listed = |line: &Bytes| {
        let outline = scan(line)?;
        let digest = Digest::compute(&outline, &decoder.context);
        let mut entry = decoder.entry(outline, digest)?;
        entry.id.version = version.clone();
        Ok(Listed::Object(entry))
    };
    let items = lines.iter().map(listed).collect::<Result<_>>()?;
    let store = Store::new();
    drop(store.apply(vec![
        Delta::Begin { without_reuse: false },
        Delta::Page(items),
        Delta::End { version: version.clone(), complete: true },
    ]));
    Ok(store)
}
