//! What an informer costs: this project, kube-runtime and client-go over the same recorded bytes, side by side.
//!
//! [`record`] takes the bytes of realistic Pods from a kube-apiserver, a [`Replay`] serves them over HTTP, and [`compare`]
//! lets each contender, a process of its own that runs a program as a user of its library would write it, go through the
//! same stages. [`scale`] goes through the first of them with up to a million objects. `docs/performance.md` says what is
//! measured, and how.
//!
//! [`compare_operators`] runs one operator as three libraries have them, on clusters of kube-testserver.
//!
//! # Invariants
//!
//! - What is replayed is what the server has sent, byte for byte but for versions and one label; a recording that would
//!   be replayed otherwise fails. Only [`scale`] makes further objects out of it.
//! - A contender is measured from outside, by the system's own account of its process.
//! - Nothing but loopback is used, and no process is left when [`compare`], [`scale`] or [`compare_operators`] returns or is
//!   dropped.

mod cli;
mod client;
mod compare;
mod contenders;
mod figures;
mod history;
mod operators;
mod pods;
mod process;
mod record;
mod recording;
mod replay;
mod report;
mod scale;
mod stage;
mod stores;
mod wire;

pub use cli::{Command, CompareArgs, StoresArgs, run};
pub use client::{Latency, Order, Report, names, run as run_client};
pub use compare::{Measured, Outcome, Places, Round, Settings, compare};
pub use contenders::{Family, Skipped};
pub use figures::{Medians, medians};
pub use operators::{
    MeasuredOperator, OperatorRound, OperatorSettings, OperatorsArgs, OperatorsOutcome, Part, Requests,
    compare_operators,
};
pub use record::{RealServer, record};
pub use recording::{Manifest, Recording};
pub use replay::{Counts, Replay};
pub use report::{Numbers, StoreNumbers};
pub use scale::{Case, ScaleArgs, ScaleMeasured, ScaleSettings, scale};
pub use stage::Stage;
pub use stores::{Load, MeasuredStore, StoreRound, StoresOutcome, Writing, compare_stores};
