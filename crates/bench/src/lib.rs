//! Measures the cost of an informer: this project, kube-runtime and client-go read the same
//! recorded bytes.
//!
//! [`record`] records realistic Pods of a kube-apiserver. A [`Replay`] serves the recorded bytes
//! over HTTP. [`compare`] runs each contender through the same stages. A contender is a separate
//! process with a typical program for its library. [`scale`] runs the first two stages with up to a
//! million objects. [`compare_stores`] measures only the stores. [`compare_operators`] measures
//! operators on three libraries, and [`compare_overhead`] measures operators without user code.
//! The command `calibrate` fits the model of `kubectl informer cost` to measured memory, and `follow-advice`
//! measures an operator before and after the first advice of this command.
//! `docs/performance.md` and `docs/performance-operators.md` describe the methods.
//!
//! # Invariants
//!
//! - A replay sends the recorded bytes, except for resourceVersions and one label. If a replay would
//!   differ from the recorded response in other bytes, the recording fails. Only [`scale`] generates
//!   further objects.
//! - Contenders are measured from outside, by the process statistics of the system.
//! - All connections use the loopback interface. No process remains when [`compare`], [`scale`] or
//!   [`compare_operators`] returns or is dropped.

mod calibrate;
mod cli;
mod client;
mod clusters;
mod compare;
mod contenders;
mod cost_program;
mod counted;
mod event_path;
mod figures;
mod follow_advice;
mod history;
mod http_server;
mod operators;
mod overhead;
mod pods;
mod process;
mod record;
mod recording;
mod replay;
mod report;
mod restart;
mod scale;
mod scale_out;
mod server;
mod stage;
mod stores;
mod wire;

pub use calibrate::CalibrateArgs;
pub use cli::{Command, CompareArgs, StoresArgs, run};
pub use client::{Latency, Order, Report, config_of_kubeconfig, config_of_url, names, run as run_client};
pub use clusters::ClustersArgs;
pub use compare::{Measured, Outcome, Paths, Round, Settings, compare};
pub use contenders::{Family, Skipped};
pub use event_path::{EventPathArgs, EventPathMeasured, EventPathSettings, Step, event_path};
pub use figures::{Medians, medians};
pub use follow_advice::FollowAdviceArgs;
pub use http_server::RequestCounts;
pub use operators::{
    MeasuredOperator, Operator, OperatorPart, OperatorRound, OperatorSettings, OperatorsArgs,
    OperatorsOutcome, compare_operators,
};
pub use overhead::{
    Figures, MeasuredOverhead, OverheadArgs, OverheadLoad, OverheadOutcome, OverheadPart, OverheadServerArgs,
    OverheadSettings, ProgramArgs, compare_overhead,
};
pub use record::{RealServer, record};
pub use recording::{Manifest, Recording};
pub use replay::{Counts, Replay};
pub use report::{Numbers, StoreNumbers};
pub use scale::{Case, ScaleArgs, ScaleMeasured, ScaleSettings, scale};
pub use scale_out::{ReplicaArgs, ScaleOutArgs, ScaleOutServerArgs};
pub use server::ServerArgs;
pub use stage::Stage;
pub use stores::{Load, MeasuredStore, StoreRound, StoresOutcome, Writing, compare_stores};
pub use wire::Kind;
