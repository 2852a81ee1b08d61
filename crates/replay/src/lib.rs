//! Replays a stream of recorded accesses on a described machine and counts what each one costs:
//! where it was served from, why it had to go there, how long it took.
//!
//! A replay is a pure function of the stream, the [`Machine`](linemate_machine::Machine), a
//! [`Placement`] (where accesses go and what they are charged to), a [`Cloner`] (how many CPUs each
//! recorded one represents) and an [`Interleaving`]. It runs on one thread; equal inputs give equal
//! bytes.
//!
//! ```
//! use linemate_machine::find;
//! use linemate_recording::{Access, AccessKind, Accesses, CpuId, GuestAddr, VirtualTime};
//! use linemate_replay::{AsRecorded, Cause, Config, Interleaving, NoClones, Replay};
//!
//! let machine = find("westmere-4s-80")?;
//! let config = Config {
//!     recorded_cpus: 2,
//!     cpus: None,
//!     interleaving: Interleaving::Aligned,
//!     lines: false,
//! };
//! let mut replay = Replay::new(&machine, &config, AsRecorded, NoClones)?;
//! // Two CPUs write one word in turn: every write but the first two fetches what the other wrote.
//! for turn in 0..10 {
//!     replay.push(&Access {
//!         time: VirtualTime(turn),
//!         cpu: CpuId((turn % 2) as u16),
//!         pc: GuestAddr(0),
//!         addr: GuestAddr(0x1000),
//!         size: 8,
//!         kind: AccessKind::Store,
//!         silent: false,
//!         user_mapping: false,
//!     })?;
//! }
//! let (outcome, _) = replay.finish();
//! assert_eq!(outcome.totals.cause(Cause::Cold).count, Accesses(2));
//! assert_eq!(outcome.totals.cause(Cause::TrueSharing).count, Accesses(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`System`] is the machine without rounds and accounts, for callers that drive it access by
//! access. docs/model/replay.md says what is modelled and what is not.

mod accounts;
mod cache;
mod difference;
mod numbers;
mod rounds;
mod scale;
mod size;

pub use accounts::counts::{Cause, Counts, Source, Tally};
pub use accounts::held::HeldLine;
pub use accounts::lines::{Cell, LineView, Uncontested};
pub use accounts::misses::{AccessPlace, Miss, MissNumber, MissReader, Misses};
pub use accounts::outcome::{FetchedAhead, Outcome, Pair, ScaledCounts};
pub use accounts::transfers::{MachinePlaces, Transfer, TransferTime, Transfers};
pub use cache::sets::{Reach, SetsReached, sets_reached};
pub use cache::sharing::MissTag;
pub use cache::stamp::TIE_MAX;
pub use cache::system::{Closed, System};
pub use cache::verdict::{LineState, Piece, Verdict};
pub use difference::partial::{Drift, Partial};
pub use difference::timeline::{Timeline, TimelineReader};
pub use linemate_insn::{Dependence, Dependences};
pub use rounds::error::ReplayError;
pub use rounds::filter::{Filter, Kept, L1s, Later, Seen};
pub use rounds::interleaver::{Interleaving, RoundNumber, mix};
pub use rounds::locks::LockWait;
pub use rounds::placement::{
    AsRecorded, COPIES_MAX, Cloner, Clones, Fate, KeyId, NoClones, Placed, Placement, Sharing,
    SiteId,
};
pub use rounds::replay::{Config, Item, Replay};
pub use rounds::slices::{Begins, Cut, ROUND_ACCESSES_MAX, SliceHead, Slicer, Turned};
pub use rounds::warm::WarmUp;
pub use scale::join::{Copies, join};
pub use scale::mixing::Mixing;
pub use scale::scaled::{Scaled, Scaling};
pub use scale::tape::{Accounts, Code, Retention, Tape};
