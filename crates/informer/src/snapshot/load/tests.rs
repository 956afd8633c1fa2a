//! Tests that a restore decodes in slices, and reports objects that cannot be decoded.

use std::{cell::Cell, io::Write as _, time::SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_object::{
    Cached, Decode, DecodeError, Object, ObjectId, ObjectIdRef, ObjectKey, PersistError, RawObject,
};
use tokio::runtime::Builder;

use super::{
    super::{format::FileWriter, identity::Identity},
    *,
};

thread_local! {
    /// The number of times that another task of the runtime was called.
    static TICKS: Cell<usize> = const { Cell::new(0) };
}

/// An object with the number of calls of the other task before its restore.
struct Probe(ObjectId, usize);

#[derive(Default)]
struct NoDecoder;

impl Object for Probe {
    fn id(&self) -> ObjectIdRef<'_> {
        self.0.as_id()
    }

    fn label(&self, _: &str) -> Option<&str> {
        None
    }
}

impl Decode<Probe> for NoDecoder {
    fn decode(&self, _: &RawObject<'_>) -> Result<Probe, DecodeError> {
        Err(DecodeError::Panicked)
    }
}

impl Cached for Probe {
    type Resource = ConfigMap;
    type Decoder = NoDecoder;
}

impl Persist for Probe {
    const FORM: &'static str = "test";
    type Shared = ();

    fn persist(&self, (): &mut (), _: &mut Vec<u8>) -> Result<(), PersistError> {
        Err(PersistError::Serialize)
    }

    fn restore(bytes: &[u8], id: &ObjectId, _: &Arc<TypeMeta>, (): &mut ()) -> Result<Self, PersistError> {
        match bytes.first() {
            Some(0) => Ok(Self(id.clone(), TICKS.get())),
            Some(1) => Err(PersistError::Malformed),
            _ => panic!("the object cannot be decoded"),
        }
    }
}

/// Returns the result for a file with one block for each object.
fn load(first_bytes: &[u8]) -> Result<Loaded<Probe>, String> {
    let identity = Identity::from_texts(["", "", "", "", ""].map(str::to_owned).into()).unwrap();
    let header =
        Header { identity, seed: None, version: 7.into(), saved_at: SystemTime::UNIX_EPOCH, complete: true };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::new(&mut bytes, &header, true).unwrap();
    for (at, first) in first_bytes.iter().enumerate() {
        let key = ObjectKey::new(None, &format!("o{at}"));
        let id = ObjectId { key, uid: "u".into(), version: 7.into() };
        writer.add(&id, None, &[&[*first], [7; 64 << 10].as_slice()].concat()).unwrap();
    }
    writer.finish().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let (reader, header) = FileReader::new(BufReader::new(file), bytes.len() as u64).unwrap();
    Builder::new_current_thread().build().unwrap().block_on(async {
        tokio::spawn(async {
            loop {
                TICKS.set(TICKS.get() + 1);
                yield_now().await;
            }
        });
        OpenFile { header, reader }.load(&Arc::new(TypeMeta::default())).await
    })
}

#[test]
fn other_tasks_run_between_blocks() {
    let loaded = load(&[0; 5]).unwrap();
    let ticks: Vec<usize> = loaded.entries.iter().map(|entry| entry.object.1).collect();
    assert!(ticks.len() == 5 && ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
}

#[test]
fn object_that_cannot_be_decoded_makes_file_unusable() {
    assert_eq!(load(&[0, 1]).err().unwrap(), PersistError::Malformed.to_string());
    assert_eq!(load(&[0, 2, 0]).err().unwrap(), "a Deserialize implementation panicked");
    assert!(load(&[]).unwrap().entries.is_empty());
}
