//! What keeps a cache from knowing all up to its watermark, until a relist has healed it.

/// Whether something is missing, and how far its healing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flaw {
    /// Nothing is missing.
    #[default]
    None,
    /// The next relist to be applied, but for this many that began before, heals it.
    Until(usize),
    /// The relist that is being applied heals it.
    Healing,
}

impl Flaw {
    /// A relist's begin is applied.
    pub fn begun(&mut self, heals: bool) {
        *self = match *self {
            Flaw::None => Flaw::None,
            Flaw::Until(0) | Flaw::Healing if heals => Flaw::Healing,
            Flaw::Until(0) | Flaw::Healing => Flaw::Until(0),
            Flaw::Until(more) => Flaw::Until(more - 1),
        };
    }

    /// A relist's end is applied.
    pub fn ended(&mut self, complete: bool) {
        *self = match *self {
            Flaw::Healing if complete => Flaw::None,
            Flaw::Healing => Flaw::Until(0),
            other => other,
        };
    }
}
