//! The state machine, one transition after another, without I/O.

use super::*;
