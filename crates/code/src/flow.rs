//! Registers through one function.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

use crate::sources::Sources;

/// The general registers, and one for the flags.
const REGISTERS: usize = 17;
const FLAGS: usize = 16;
/// rsp, by its number: the stack's addresses come from no load.
const STACK: usize = 4;
/// Registers that hold arguments or a result (rax, rcx, rdx, rsi, rdi, r8, r9), and the others that a called function may change.
const PASSED: [usize; 7] = [0, 1, 2, 6, 7, 8, 9];
const CHANGED: [usize; 10] = [0, 1, 2, 6, 7, 8, 9, 10, 11, FLAGS];
/// A result: rax and rdx.
const RESULT: [usize; 2] = [0, 2];

/// From which loads an instruction's addresses come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSources {
    /// Instructions of the same function that may have loaded them, or what they were computed or loaded from. Ascending.
    pub loads: Vec<u64>,
    /// They may come from loads of other functions: from arguments, or from what a called function returned. `loads` then has what
    /// the function itself hands out, too, because it may come back.
    pub outside: bool,
}

/// What each register holds.
type RegisterSources = [Sources; REGISTERS];

/// Of each instruction that accesses memory, of one function's code at `start`: from which loads the addresses come. Instructions that
/// no path from the start leads to, and those whose addresses come from too many loads to tell, are not in it.
pub fn address_sources(code: &[u8], start: u64) -> BTreeMap<u64, AddressSources> {
    let instructions: BTreeMap<u64, Instruction> =
        Decoder::with_ip(64, code, start, DecoderOptions::NONE)
            .into_iter()
            .map(|instruction| (instruction.ip(), instruction))
            .collect();
    let mut analysis = Analysis {
        end: start.saturating_add(code.len() as u64),
        start,
        instructions,
        entries: BTreeMap::new(),
        found: BTreeMap::new(),
        handed_out: Sources::default(),
        info: InstructionInfoFactory::new(),
    };
    analysis.run();
    analysis.finish()
}

struct Analysis {
    start: u64,
    end: u64,
    instructions: BTreeMap<u64, Instruction>,
    /// What is known before an instruction that control may come to from elsewhere than the one before.
    entries: BTreeMap<u64, RegisterSources>,
    found: BTreeMap<u64, Sources>,
    /// What reaches other functions: arguments and results.
    handed_out: Sources,
    info: InstructionInfoFactory,
}

impl Analysis {
    /// Follows paths until nothing new is found. States only grow, and their sizes are bounded: it ends.
    fn run(&mut self) {
        let mut entry: RegisterSources = Default::default();
        for (register, sources) in entry.iter_mut().enumerate() {
            // Arguments come from outside; so may what a caller left in any other register.
            if register != STACK {
                *sources = Sources::outside();
            }
        }
        self.entries.insert(self.start, entry);
        let mut work = vec![self.start];
        while let Some(from) = work.pop() {
            let Some(state) = self.entries.get(&from) else {
                continue;
            };
            let state = state.clone();
            self.follow(from, state, &mut work);
        }
    }

    /// Goes on from an entry, to the path's end or to another entry that knows all of this.
    fn follow(&mut self, from: u64, mut state: RegisterSources, work: &mut Vec<u64>) {
        let mut at = from;
        while let Some(instruction) = self.instructions.get(&at).copied() {
            // A path that joins another ends here: what is new is added there and followed from
            // there.
            if at != from && self.entries.contains_key(&at) {
                self.come_to(at, &state, work);
                return;
            }
            self.step(&instruction, &mut state);
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                    self.branch(&instruction, &state, work);
                }
                FlowControl::UnconditionalBranch => {
                    self.branch(&instruction, &state, work);
                    return;
                }
                FlowControl::Return => {
                    self.hand_out(&state, &RESULT);
                    return;
                }
                // Where it goes is not known: what it leads to is not analysed, or is another function.
                FlowControl::IndirectBranch => {
                    self.hand_out(&state, &PASSED);
                    return;
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    self.hand_out(&state, &PASSED);
                    // By the calling convention, whatever the function does; the others come back
                    // as they were.
                    for register in CHANGED {
                        state[register] = Sources::outside();
                    }
                }
                FlowControl::Exception => return,
                FlowControl::Next | FlowControl::Interrupt => {}
            }
            at = instruction.next_ip();
        }
    }

    fn branch(&mut self, instruction: &Instruction, state: &RegisterSources, work: &mut Vec<u64>) {
        let target = match instruction.op0_kind() {
            OpKind::NearBranch64 => instruction.near_branch64(),
            _ => return,
        };
        // A jump into the middle of an instruction finds none in the map and ends there.
        if (self.start..self.end).contains(&target) {
            self.come_to(target, state, work);
        } else {
            // A tail call.
            self.hand_out(state, &PASSED);
        }
    }

    /// Control may come to an instruction with that state.
    fn come_to(&mut self, at: u64, state: &RegisterSources, work: &mut Vec<u64>) {
        let Some(known) = self.entries.get_mut(&at) else {
            self.entries.insert(at, state.clone());
            work.push(at);
            return;
        };
        let mut new = false;
        for (known, more) in known.iter_mut().zip(state) {
            new |= known.add(more);
        }
        if new {
            work.push(at);
        }
    }

    fn hand_out(&mut self, state: &RegisterSources, registers: &[usize]) {
        for register in registers {
            self.handed_out.add(&state[*register]);
        }
    }

    /// One instruction: what its addresses come from, and what it leaves in registers.
    fn step(&mut self, instruction: &Instruction, state: &mut RegisterSources) {
        let info = self.info.info(instruction);
        let mut accesses = false;
        let mut loads = false;
        let mut address = Sources::default();
        for memory in info.used_memory() {
            let access = memory.access();
            if access == OpAccess::NoMemAccess || access == OpAccess::None {
                continue;
            }
            accesses = true;
            loads |= reads(access);
            for register in [memory.base(), memory.index()] {
                if let Some(register) = number(register) {
                    address.add(&state[register]);
                }
            }
        }
        let mut value = address.clone();
        // The address counts for the value as well: what is loaded depends on where it was loaded
        // from.
        for used in info.used_registers() {
            if let Some(register) = number(used.register()).filter(|_| reads(used.access())) {
                value.add(&state[register]);
            }
        }
        if instruction.rflags_read() != 0 {
            value.add(&state[FLAGS]);
        }
        if loads {
            value.add_load(instruction.ip());
        }
        for used in info.used_registers() {
            let Some(register) = number(used.register()) else {
                continue;
            };
            match used.access() {
                OpAccess::Write | OpAccess::ReadWrite => state[register] = value.clone(),
                // What was there may still be there.
                OpAccess::CondWrite | OpAccess::ReadCondWrite => {
                    state[register].add(&value);
                }
                _ => {}
            }
        }
        if instruction.rflags_modified() != 0 {
            state[FLAGS] = value;
        }
        // Whatever changed it: the stack's addresses come from no load.
        state[STACK] = Sources::default();
        if accesses {
            self.found
                .entry(instruction.ip())
                .or_default()
                .add(&address);
        }
    }

    fn finish(self) -> BTreeMap<u64, AddressSources> {
        let mut all = BTreeMap::new();
        for (at, mut sources) in self.found {
            // Only now are all hand-outs known.
            if sources.outside {
                sources.add(&self.handed_out);
            }
            if !sources.any {
                let (loads, outside) = (sources.loads().to_vec(), sources.outside);
                all.insert(at, AddressSources { loads, outside });
            }
        }
        all
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// A general register's number; others carry no addresses.
fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}
