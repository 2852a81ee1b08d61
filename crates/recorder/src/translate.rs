//! What happens when QEMU translates a block: instructions get numbers and callbacks. Runs once per
//! translation, never per access; the data that callbacks point to is never freed, because blocks
//! can run until QEMU ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use linemate_insn::x86_64::MAX_BYTES;
use linemate_recording::format::MAX_INSTRUCTIONS;
use linemate_recording::{GuestAddr, InstructionId};

use crate::address::is_kernel;
use crate::decode::{ExitKind, InstructionFacts, START, STOP, facts, mark_number, may_follow_call};
use crate::hook::{Action, Hooked};
use crate::lane::Instruction;
use crate::options::RecorderOptions;
use crate::output::Unannounced;
use crate::programs::ProgramPages;
use crate::refusals::SYSTEM_CALL;
use crate::view::{CodeBlock, Instrument as _};
use crate::watch::WatchTable;

/// Numbers instructions by address, as they are first translated.
#[derive(Debug)]
pub(crate) struct Numbers {
    ids: Mutex<HashMap<u64, InstructionId>>,
    unannounced: Arc<Unannounced>,
}

impl Numbers {
    /// New numbers are passed to `unannounced`.
    pub(crate) fn new(unannounced: Arc<Unannounced>) -> Self {
        Self {
            ids: Mutex::default(),
            unannounced,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len() as u32
    }

    /// The number of the instruction at `pc`; `None` if there are more than a recording can hold.
    fn of(&self, pc: u64) -> Option<InstructionId> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(ids.len()).ok().map(InstructionId);
        match ids.entry(pc) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(new) => {
                let id = next.filter(|id| id.0 < MAX_INSTRUCTIONS)?;
                self.unannounced.push(GuestAddr(pc));
                Some(*new.insert(id))
            }
        }
    }
}

/// Instruments a block. Returns whether all of it could be: the number of instructions is limited.
pub(crate) fn translate(
    block: &impl CodeBlock,
    watch: &WatchTable,
    numbers: &Numbers,
    programs: Option<&ProgramPages>,
    options: &RecorderOptions,
) -> bool {
    let parallel = options.parallel;
    block.count(parallel);
    let mut complete = true;
    let mut buffer = [0; MAX_BYTES];
    let count = block.len();
    for (position, instruction) in block.instructions().enumerate() {
        // The block is counted when it is entered, so an instruction's time is the count minus what
        // follows, itself included.
        let back = (count - position) as u32;
        let vaddr = instruction.address();
        let bytes = instruction.bytes(&mut buffer);
        let kernel = is_kernel(vaddr);
        let facts = facts(bytes, vaddr);
        let pc = match programs {
            Some(programs) if !kernel => instruction
                .page()
                .map_or(0, |(page, within)| programs.code_address(page, within)),
            _ => vaddr,
        };
        let actions = if kernel {
            kernel_actions(watch, pc, &facts)
        } else {
            // A call ends a block, so its return address starts one.
            let begins = (position == 0 && !parallel).then(|| instruction.page());
            let before = begins
                .flatten()
                .map(|(page, within)| &page[..within as usize]);
            let ask = !parallel && bytes == SYSTEM_CALL;
            let [mark_or_entry, back, answer] =
                user_actions(watch, programs.map(|_| pc), bytes, before);
            [mark_or_entry, back, answer, ask.then_some(Action::Ask)]
        };
        for action in actions.into_iter().flatten() {
            // QEMU uses the pointer for as long as the block may run, and does not say when it
            // drops one. The price is some bytes for each translation of a watched place.
            instruction.watch_execution(Box::leak(Box::new(Hooked {
                action,
                back,
                kernel,
            })));
        }
        if facts.may_touch_memory && (kernel || options.user) {
            let known = numbers
                .of(pc)
                .and_then(|id| Instruction::new(id.0, back, facts.shape, facts.bulk_store));
            match known {
                Some(known) => instruction.watch_memory(known, parallel),
                None => complete = false,
            }
        }
    }
    complete
}

fn kernel_actions(watch: &WatchTable, pc: u64, facts: &InstructionFacts) -> [Option<Action>; 4] {
    let entry = watch.entry(pc).map(Action::Enter);
    let exit = match facts.flow {
        ExitKind::Halt => Some(Action::Idle),
        flow => watch.return_from(pc, flow).map(Action::Leave),
    };
    [entry, exit, None, None]
}

/// `program`: the code address, if programs are recorded. `before`: if the CPUs take turns, for the
/// first instruction of a block, the bytes before it in its page.
fn user_actions(
    watch: &WatchTable,
    program: Option<u64>,
    bytes: &[u8],
    before: Option<&[u8]>,
) -> [Option<Action>; 3] {
    if let Some(number) = mark_number(bytes) {
        return [mark(number), None, None];
    }
    let entry = program.and_then(|pc| watch.entry(pc)).map(Action::Enter);
    // A program's functions often leave by a jump (`calloc` to `memset`), so their return address
    // is watched instead: a block that starts after a call.
    let returned_to = program.is_some() && before.is_some_and(may_follow_call);
    let answered = before.is_some_and(|before| before.len() < 2 || before.ends_with(&SYSTEM_CALL));
    [
        entry,
        returned_to.then_some(Action::Back),
        answered.then_some(Action::Answer),
    ]
}

fn mark(number: u8) -> Option<Action> {
    match number {
        START => Some(Action::Start),
        STOP => Some(Action::Stop),
        _ => None,
    }
}
