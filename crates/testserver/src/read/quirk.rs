//! What is wrong with one watch, from its beginning.

use crate::faults::Fault;
use crate::read::open_watches::Slip;
use crate::status::Status;

/// What is wrong with a watch.
#[derive(Clone, Debug)]
pub(crate) enum Quirk {
    None,
    Silence,
    /// The event with this number slips.
    Slip(Slip, usize),
    /// It ends after so many frames: with an ERROR event, or cleanly.
    End(usize, Option<Status>),
    /// It ends when more than so many events wait.
    SlowReader(usize),
}

impl Quirk {
    pub(crate) fn of(fault: Option<&Fault>) -> Self {
        match fault {
            Some(Fault::Silence) => Self::Silence,
            Some(Fault::Lose(event)) => Self::Slip(Slip::Lose, *event),
            Some(Fault::Repeat(event)) => Self::Slip(Slip::Repeat, *event),
            Some(Fault::Close(after)) => Self::End(*after, None),
            Some(Fault::Error { after, status }) => Self::End(*after, Some(status.clone())),
            Some(Fault::SlowReader(events)) => Self::SlowReader(*events),
            _ => Self::None,
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silence)
    }

    /// What happens to the event with this number.
    pub(crate) fn slip(&self, event: usize) -> Option<Slip> {
        match self {
            Self::Slip(slip, at) if *at == event => Some(*slip),
            _ => None,
        }
    }
}
