//! Registers through one function.

use std::collections::BTreeMap;

use linemate_insn::x86_64::{Base, Effects, Flow, Instruction, Write};
use linemate_types::ElfAddr;

use crate::sources::Sources;

/// The general registers, and one for the flags.
const REGISTERS: usize = 17;
const FLAGS: usize = 16;
/// The stack's addresses come from no load.
const STACK: usize = Base::STACK.0 as usize;
/// Registers that hold arguments or a result (rax, rdx, rcx, rsi, rdi, r8, r9), and the others that
/// a called function may change.
const PASSED: [usize; 7] = [0, 1, 2, 4, 5, 8, 9];
const CHANGED: [usize; 10] = [0, 1, 2, 4, 5, 8, 9, 10, 11, FLAGS];
/// A result: rax and rdx.
const RESULT: [usize; 2] = [0, 1];

/// The loads that an instruction's addresses come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSources {
    /// Instructions of the same function that may have loaded them, or the inputs they were
    /// computed from. Ascending.
    pub loads: Vec<u64>,
    /// They may come from loads of other functions: from arguments, or from the result of a call.
    /// `loads` then includes what the function itself passes out, because it may come back.
    pub outside: bool,
}

/// The contents of each register.
type RegisterSources = [Sources; REGISTERS];

/// For each memory-accessing instruction of one function's code at `start`: the loads that its
/// addresses come from. Instructions that no path from the start reaches, and those whose addresses
/// come from too many loads, are left out.
pub fn address_sources(code: &[u8], start: u64) -> BTreeMap<u64, AddressSources> {
    let instructions = Instruction::all(code, ElfAddr(start))
        .map(|instruction| (instruction.address().0, instruction))
        .collect();
    let mut analysis = Analysis {
        end: start.saturating_add(code.len() as u64),
        start,
        instructions,
        entries: BTreeMap::new(),
        found: BTreeMap::new(),
        handed_out: Sources::default(),
        effects: Effects::default(),
    };
    analysis.run();
    analysis.finish()
}

struct Analysis {
    start: u64,
    end: u64,
    instructions: BTreeMap<u64, Instruction>,
    /// What is known before an instruction that is not only reached from the previous one.
    entries: BTreeMap<u64, RegisterSources>,
    found: BTreeMap<u64, Sources>,
    /// What reaches other functions: arguments and results.
    handed_out: Sources,
    effects: Effects,
}

impl Analysis {
    /// Follows paths until nothing new is found. States only grow, and their sizes are bounded, so
    /// it terminates.
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

    /// Continues from an entry, to the path's end or to another entry that knows all of this.
    fn follow(&mut self, from: u64, mut state: RegisterSources, work: &mut Vec<u64>) {
        let mut at = from;
        while let Some(instruction) = self.instructions.get(&at).copied() {
            // A path that joins another ends here: anything new is added there and followed from
            // there.
            if at != from && self.entries.contains_key(&at) {
                self.come_to(at, &state, work);
                return;
            }
            self.step(&instruction, &mut state);
            match instruction.flow() {
                Flow::Branch | Flow::Transaction => {
                    self.branch(&instruction, &state, work);
                }
                Flow::Jump => {
                    self.branch(&instruction, &state, work);
                    return;
                }
                Flow::Return | Flow::InterruptReturn | Flow::FarReturn => {
                    self.hand_out(&state, &RESULT);
                    return;
                }
                // Its target is unknown: what it leads to is not analysed, or is another function.
                Flow::IndirectJump => {
                    self.hand_out(&state, &PASSED);
                    return;
                }
                Flow::Call => {
                    self.hand_out(&state, &PASSED);
                    // By the calling convention, whatever the function does; the others come back
                    // unchanged.
                    for register in CHANGED {
                        state[register] = Sources::outside();
                    }
                }
                Flow::Fault => return,
                Flow::Next | Flow::Interrupt => {}
            }
            at = instruction.end().0;
        }
    }

    fn branch(&mut self, instruction: &Instruction, state: &RegisterSources, work: &mut Vec<u64>) {
        let Some(ElfAddr(target)) = instruction.target() else {
            return;
        };
        // A jump into the middle of an instruction finds none in the map and ends there.
        if (self.start..self.end).contains(&target) {
            self.come_to(target, state, work);
        } else {
            // A tail call.
            self.hand_out(state, &PASSED);
        }
    }

    /// Control may reach an instruction with that state.
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

    /// One instruction: where its addresses come from, and what it leaves in registers.
    fn step(&mut self, instruction: &Instruction, state: &mut RegisterSources) {
        let effects = self.effects.of(instruction);
        let (mut accesses, mut loads) = (false, false);
        let mut address = Sources::default();
        for memory in effects.memory() {
            accesses = true;
            loads |= memory.used.reads;
            for register in [memory.base, memory.index].into_iter().flatten() {
                address.add(&state[register.index()]);
            }
        }
        let mut value = address.clone();
        // The address counts for the value as well: what is loaded depends on where it was loaded
        // from.
        for used in effects.registers().filter(|used| used.used.reads) {
            value.add(&state[used.register.index()]);
        }
        if effects.reads_flags {
            value.add(&state[FLAGS]);
        }
        let at = instruction.address().0;
        if loads {
            value.add_load(at);
        }
        for used in effects.registers() {
            match used.used.writes {
                Write::Yes => state[used.register.index()] = value.clone(),
                // The old contents may still be there.
                Write::Maybe => {
                    state[used.register.index()].add(&value);
                }
                Write::No => {}
            }
        }
        if effects.writes_flags {
            state[FLAGS] = value;
        }
        // Whatever changed it: the stack's addresses come from no load.
        state[STACK] = Sources::default();
        if accesses {
            self.found.entry(at).or_default().add(&address);
        }
    }

    fn finish(self) -> BTreeMap<u64, AddressSources> {
        let mut all = BTreeMap::new();
        for (at, mut sources) in self.found {
            // Only now is everything passed out known.
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
