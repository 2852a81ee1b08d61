//! Where a function stores pointers on its stack without a variable of that name.
//!
//! Without optimisation, LLVM writes an argument to its variable's slot only for the debugger, and
//! reads it from another slot that no variable describes. The contents of such a slot are known all
//! the same, from what is written to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use linemate_insn::x86_64::{Effects, Flow, Instruction, Move, Write};
use linemate_programs::{Base, Operand};
use linemate_types::{ElfAddr, TypeId};

/// Bytes of a pointer.
const POINTER: i64 = 8;

/// The pointers on a function's stack, by displacement from the stack pointer.
#[derive(Debug, Default)]
pub(super) struct Slots(BTreeMap<i64, TypeId>);

impl Slots {
    /// The target of the pointer in a memory operand, if it is such a slot.
    pub(super) fn at(&self, instruction: &Instruction) -> Option<TypeId> {
        self.0.get(&on_stack(instruction)?).copied()
    }
}

/// The displacement of a memory operand from the stack pointer, if nothing is added to it.
pub(super) fn on_stack(instruction: &Instruction) -> Option<i64> {
    match instruction.addressed() {
        Operand::Based {
            base: Base::STACK,
            displacement,
            indexed: false,
        } if !instruction.has_segment() => Some(displacement),
        _ => None,
    }
}

/// The register that an instruction stores whole, and where on the stack.
pub(super) fn stored(instruction: &Instruction) -> Option<(Base, i64)> {
    match instruction.moved()? {
        Move::Store { from } => Some((from, on_stack(instruction)?)),
        _ => None,
    }
}

/// What is stored where in a function, collected while walking through it.
#[derive(Debug, Default)]
pub(super) struct Stores {
    pointers: BTreeMap<i64, TypeId>,
    /// What else is written or has its address taken.
    others: Vec<Range<i64>>,
    /// Whether displacements refer to other places after some stores.
    moved: bool,
}

impl Stores {
    /// Handles an instruction; `pointed`: the target of the register that it stores.
    pub(super) fn see(
        &mut self,
        instruction: &Instruction,
        effects: &mut Effects,
        pointed: Option<TypeId>,
    ) {
        // After the prologue `rsp` is fixed: if it moves after the first store, a displacement
        // refers to two places, and nothing is concluded.
        self.moved |= instruction.lowers_stack() && !self.pointers.is_empty();
        if let (Some((_, at)), Some(ty)) = (stored(instruction), pointed) {
            if *self.pointers.entry(at).or_insert(ty) != ty {
                // Two types in one place: the compiler has reused it.
                self.others.push(at..at + POINTER);
            }
            return;
        }
        if instruction.is_lea() {
            self.others
                .extend(on_stack(instruction).map(|at| at..at + 1));
            return;
        }
        for memory in effects.of(instruction).memory() {
            let plain = memory.base == Some(Base::STACK) && !memory.indexed;
            if plain && memory.used.writes != Write::No {
                let at = memory.displacement;
                let size = memory.bytes as i64;
                self.others.push(at..at.saturating_add(size.max(1)));
            }
        }
    }

    /// The slots that hold only pointers to one type.
    pub(super) fn into_slots(self) -> Slots {
        let others = &self.others;
        let alone = |at: i64| {
            others
                .iter()
                .all(|other| other.end <= at || other.start >= at + POINTER)
        };
        let pointers = self.pointers.into_iter();
        let kept = pointers.filter(|(at, _)| !self.moved && alone(*at));
        Slots(kept.collect())
    }
}

/// The targets of arguments that a function writes to their variables before anything else:
/// `variable` gives the target of the pointer variable at a displacement from the stack pointer, if
/// one is there.
pub(super) fn arguments(
    instructions: &[Instruction],
    targets: &BTreeSet<ElfAddr>,
    effects: &mut Effects,
    variable: impl Fn(&Instruction, i64) -> Option<TypeId>,
) -> [Option<TypeId>; 16] {
    let mut found = [None; 16];
    let mut written = [false; 16];
    for instruction in instructions {
        let straight =
            instruction.flow() == Flow::Next && !targets.contains(&instruction.address());
        if !straight {
            break;
        }
        if let Some((base, at)) = stored(instruction) {
            let number = base.index();
            if !written[number] && found[number].is_none() {
                found[number] = variable(instruction, at);
            }
        }
        for used in effects.of(instruction).registers() {
            written[used.register.index()] |= used.used.writes != Write::No;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: TypeId = TypeId(7);
    /// `sub rsp,0x28`; `mov [rsp+8],rdi`, where no variable is; `mov [rsp+0x10],rdi`, the
    /// argument's variable.
    const ENTRY: &[u8] = b"\x48\x83\xec\x28\x48\x89\x7c\x24\x08\x48\x89\x7c\x24\x10";
    /// `mov rax,[rsp+8]`
    const LOAD: &[u8] = b"\x48\x8b\x44\x24\x08";

    /// The target of the pointer loaded last.
    fn loaded(between: &[u8]) -> Option<TypeId> {
        let code = [ENTRY, between, LOAD].concat();
        let instructions: Vec<Instruction> = Instruction::all(&code, ElfAddr(0)).collect();
        let mut effects = Effects::default();
        let variable = |_: &Instruction, at| (at == 0x10).then_some(QUEUE);
        let entered = arguments(&instructions, &BTreeSet::new(), &mut effects, variable);
        let mut stores = Stores::default();
        for instruction in &instructions {
            let pointed = stored(instruction).and_then(|(base, _)| entered[base.index()]);
            stores.see(instruction, &mut effects, pointed);
        }
        stores.into_slots().at(instructions.last()?)
    }

    #[test]
    fn an_argument_is_known_where_no_variable_describes_it() {
        assert_eq!(loaded(b""), Some(QUEUE));
        // The same pointer again, and what is elsewhere.
        assert_eq!(loaded(b"\x48\x89\x7c\x24\x08"), Some(QUEUE));
        assert_eq!(loaded(b"\xc6\x44\x24\x07\x00"), Some(QUEUE));
    }

    #[test]
    fn a_place_with_anything_else_in_it_is_not_believed() {
        for (what, bytes) in [
            ("mov [rsp+8],rsi", &b"\x48\x89\x74\x24\x08"[..]),
            ("mov byte [rsp+0xf],0", b"\xc6\x44\x24\x0f\x00"),
            ("movups [rsp+4],xmm0", b"\x0f\x11\x44\x24\x04"),
            ("lea rax,[rsp+8]", b"\x48\x8d\x44\x24\x08"),
            ("push rax", b"\x50"),
        ] {
            assert_eq!(loaded(bytes), None, "{what}");
        }
    }
}
