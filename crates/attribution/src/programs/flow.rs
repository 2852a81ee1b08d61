//! The target of a register if the debug information does not give it: what was just loaded into
//! it.
//!
//! A register loaded from a variable, or from a member of a known struct, points to what the
//! variable's or member's type says. Where paths join, it does if it points to the same on all of
//! them: a pointer that is loaded before a loop is known inside. Compilers without optimisation
//! store every variable on the stack, so there it is the only way; with optimisation, it finds
//! intermediate values without a name (`a->b->c`).

use std::collections::{BTreeMap, BTreeSet};

use linemate_dwarf::{ProgramCode, Register, Storage};
use linemate_insn::x86_64::{Effects, Flow as Control, Instruction, Move, Summand, Write};
use linemate_programs::{Base, ElfAddr, Operand};
use linemate_types::{Member, Type, TypeId, TypeModel};

use super::elements::Elements;
use super::slots::{self, Slots, Stores};

/// The maximum number of members examined for what is at one offset: unions contain unions.
const LOOKED_AT_MAX: usize = 256;

/// What a register points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointed {
    /// A struct or a scalar.
    pub(super) ty: TypeId,
    /// Whether something was added to a pointer to that struct: an index of an array of such
    /// structs, or of an array inside one.
    pub(super) is_indexed: bool,
}

impl Pointed {
    fn exact(ty: TypeId) -> Pointed {
        Pointed {
            ty,
            is_indexed: false,
        }
    }

    fn if_exact(self) -> Option<TypeId> {
        (!self.is_indexed).then_some(self.ty)
    }
}

/// The target of each general register, by DWARF number.
type Registers = [Option<Pointed>; 16];

/// How often a function is gone through until what holds where its paths join is settled: as deep
/// as loops that pass a pointer on nest, and one more. Where that is not enough, nothing is
/// assumed.
const PASSES_MAX: usize = 8;

/// The instructions of a function.
struct Body<'i> {
    instructions: &'i [Instruction],
    /// The targets of jumps.
    targets: &'i BTreeSet<ElfAddr>,
    /// The targets of registers at its start.
    entered: Registers,
}

/// The targets of registers where jumps land, over all jumps to there.
#[derive(Debug, Default)]
struct Landings {
    known: BTreeMap<ElfAddr, Registers>,
    /// Whether a jump to code that was passed already took something away.
    changed: bool,
}

impl Landings {
    /// A jump from `at` to `target`.
    fn jump(&mut self, at: ElfAddr, target: ElfAddr, registers: &Registers) {
        let known = self.known.get(&target);
        let joined = known.map_or(*registers, |known| joined(known, registers));
        if known != Some(&joined) {
            self.changed |= target <= at;
            self.known.insert(target, joined);
        }
    }
}

/// What registers point to on both paths.
fn joined(one: &Registers, other: &Registers) -> Registers {
    std::array::from_fn(|at| one[at].filter(|_| one[at] == other[at]))
}

/// Follows the code of a program's functions.
pub(super) struct Flow<'a, 'd> {
    code: &'a ProgramCode<'d>,
    model: &'a TypeModel,
    effects: Effects,
    elements: Elements,
    /// Where the file's thread-local variables start, if it is a program:
    /// [`linemate_programs::Image::below_thread_pointer`].
    thread_storage: Option<u64>,
}

impl<'a, 'd> Flow<'a, 'd> {
    pub(super) fn new(
        code: &'a ProgramCode<'d>,
        model: &'a TypeModel,
        thread_storage: Option<u64>,
    ) -> Self {
        Self {
            code,
            model,
            thread_storage,
            effects: Effects::default(),
            elements: Elements::new(model),
        }
    }

    /// Calls `found` for each instruction of `bytes`, which are at `start`, that has a base
    /// register with a known target, with that struct or scalar.
    pub(super) fn function(
        &mut self,
        bytes: &[u8],
        start: ElfAddr,
        mut found: impl FnMut(ElfAddr, Base, Pointed),
    ) {
        let instructions: Vec<Instruction> = Instruction::all(bytes, start).collect();
        let targets: BTreeSet<ElfAddr> = instructions
            .iter()
            .filter_map(Instruction::target)
            .collect();
        let entered = slots::arguments(
            &instructions,
            &targets,
            &mut self.effects,
            |at, displacement| {
                let register = Register(u16::from(Base::STACK.0));
                let variable = self
                    .code
                    .variable_at(at.address(), register, displacement)?;
                let whole = variable.offset.0 == 0;
                whole.then(|| self.model.pointer_target(variable.type_id))?
            },
        );
        let code = Body {
            instructions: &instructions,
            targets: &targets,
            entered: entered.map(|ty| ty.map(Pointed::exact)),
        };
        // Twice: what a function stores where on its stack is known only after all of its stores
        // were seen.
        let mut stores = Stores::default();
        self.walk(&code, &Slots::default(), |flow, instruction, registers| {
            let pointed = slots::stored(instruction)
                .and_then(|(base, _)| flow.pointed(instruction.address(), base, registers))
                .and_then(Pointed::if_exact);
            stores.see(instruction, &mut flow.effects, pointed);
        });
        self.walk(
            &code,
            &stores.into_slots(),
            |flow, instruction, registers| {
                if let Some((base, target)) = flow.reaches(instruction, registers) {
                    found(instruction.address(), base, target);
                }
            },
        );
    }

    /// Calls `see` for each instruction, with the targets of registers before it.
    fn walk(
        &mut self,
        code: &Body<'_>,
        slots: &Slots,
        mut see: impl FnMut(&mut Self, &Instruction, &Registers),
    ) {
        let mut landings = self.landings(code, slots);
        self.pass(code, slots, &mut landings, &mut see);
    }

    /// What holds where jumps of a function land.
    fn landings(&mut self, code: &Body<'_>, slots: &Slots) -> Landings {
        let nothing = || Landings {
            known: code.targets.iter().map(|at| (*at, [None; 16])).collect(),
            changed: false,
        };
        let leaves = |i: &Instruction| i.flow() == Control::IndirectJump;
        // It may land at any of the targets.
        if code.instructions.iter().any(leaves) {
            return nothing();
        }
        let mut landings = Landings::default();
        for _ in 0..PASSES_MAX {
            landings.changed = false;
            self.pass(code, slots, &mut landings, &mut |_, _, _| {});
            if !landings.changed {
                return landings;
            }
        }
        nothing()
    }

    /// Goes through a function once, from its first instruction to its last.
    fn pass(
        &mut self,
        code: &Body<'_>,
        slots: &Slots,
        landings: &mut Landings,
        see: &mut impl FnMut(&mut Self, &Instruction, &Registers),
    ) {
        let mut before = Some(code.entered);
        let mut awaits_jump = false;
        for instruction in code.instructions {
            let at = instruction.address();
            if code.targets.contains(&at) {
                let landed = landings.known.get(&at);
                before = match (before, landed) {
                    (Some(before), Some(landed)) => Some(joined(&before, landed)),
                    (before, landed) => before.or(landed.copied()),
                };
            }
            let mut registers = before.unwrap_or([None; 16]);
            see(self, instruction, &registers);
            let flow = instruction.flow();
            let ends = matches!(flow, Control::Jump | Control::Return | Control::Fault);
            // Code that no path so far leads to: what jumps back to it comes later, and padding is
            // not run. Anything else may be entered in a way that is not known, such as an
            // exception.
            awaits_jump = before.is_none() && (awaits_jump || code.targets.contains(&at));
            if awaits_jump || before.is_none() && instruction.is_nop() {
                awaits_jump &= !ends;
                continue;
            }
            let inside = instruction.target().filter(|to| code.targets.contains(to));
            match (inside, flow) {
                (Some(to), Control::Call) => landings.jump(at, to, &[None; 16]),
                (Some(to), _) => landings.jump(at, to, &registers),
                (None, _) => {}
            }
            self.step(instruction, slots, &mut registers);
            before = Some(registers).filter(|_| !ends);
        }
    }

    /// The target of the base register of an instruction's memory operand.
    fn reaches(&self, instruction: &Instruction, known: &Registers) -> Option<(Base, Pointed)> {
        let Operand::Based { base, .. } = instruction.operand() else {
            return None;
        };
        Some((base, self.pointed(instruction.address(), base, known)?))
    }

    fn pointed(&self, pc: ElfAddr, base: Base, known: &Registers) -> Option<Pointed> {
        let register = Register(u16::from(base.0));
        let declared = self.code.pointer_in(pc, register).map(Pointed::exact);
        let followed = || *known.get(base.index())?;
        let scalar = || self.code.scalar_in(pc, register).map(Pointed::exact);
        // Structs first: a struct is often passed as a `char *`.
        declared.or_else(followed).or_else(scalar)
    }

    fn step(&mut self, instruction: &Instruction, slots: &Slots, registers: &mut Registers) {
        match instruction.flow() {
            Control::Next | Control::Branch => {}
            // The contents of registers after a call are unknown, except those that the callee has
            // to preserve.
            Control::Call => {
                for (number, register) in registers.iter_mut().enumerate() {
                    // `rbx`, `rbp` and `r12` to `r15` by DWARF's numbers (System V ABI,
                    // callee-saved); `rsp` points to no object.
                    if !matches!(number, 3 | 6 | 12..=15) {
                        *register = None;
                    }
                }
                return;
            }
            _ => {
                *registers = [None; 16];
                return;
            }
        }
        // Before the written registers are forgotten: `mov rax, [rax+8]` needs the old target of
        // `rax`.
        let gained = self
            .gained(instruction, slots, registers)
            .or_else(|| self.summed(instruction, registers));
        for used in self.effects.of(instruction).registers() {
            if used.used.writes != Write::No {
                registers[used.register.index()] = None;
            }
        }
        if let Some((base, target)) = gained {
            registers[base.index()] = Some(target);
        }
    }

    /// The register that an addition writes, and its target: somewhere in an array, where something
    /// unknown is added to a pointer to a struct.
    fn summed(&self, instruction: &Instruction, known: &Registers) -> Option<(Base, Pointed)> {
        let pc = instruction.address();
        let (to, with) = instruction.summed()?;
        let before = self.pointed(pc, to, known);
        let other = match with {
            Summand::Constant(step) => return Some((to, self.moved_on(before?, step)?)),
            Summand::Register(with) => self.pointed(pc, with, known),
            Summand::Memory => {
                let (holder, offset) = self.holder(instruction, known)?;
                pointer_at(self.model, &self.elements, holder, offset).map(Pointed::exact)
            }
        };
        // The sum of two pointers is none.
        let target = before.xor(other)?;
        let is_indexed = !self.model.is_scalar(target.ty);
        Some((
            to,
            Pointed {
                is_indexed,
                ..target
            },
        ))
    }

    /// The target of a pointer that a constant is added to: the same kind of thing further on, or
    /// a member.
    fn moved_on(&self, target: Pointed, step: i64) -> Option<Pointed> {
        let size = self.model.size_of(target.ty).filter(|size| *size > 0)?;
        if self.model.is_scalar(target.ty) || step.unsigned_abs() % size == 0 {
            return Some(target);
        }
        let offset = u64::try_from(step).ok()?;
        start_at(self.model, target.if_exact()?, offset).map(Pointed::exact)
    }

    /// The register that a plain load, copy or `lea` writes, and its new target.
    fn gained(
        &self,
        instruction: &Instruction,
        slots: &Slots,
        known: &Registers,
    ) -> Option<(Base, Pointed)> {
        let pc = instruction.address();
        match instruction.moved()? {
            Move::Copy { from, to } => {
                // What an allocator returned is often copied before the debug information names the
                // register that it was returned in, which a copy leaves as it is.
                let named_next = || {
                    let next = instruction.end();
                    let register = Register(u16::from(from.0));
                    let pointer = self.code.pointer_in(next, register);
                    pointer.or_else(|| self.code.scalar_in(next, register))
                };
                let pointed = self.pointed(pc, from, known);
                let pointed = pointed.or_else(|| named_next().map(Pointed::exact));
                Some((to, pointed?))
            }
            Move::Load { to } => {
                let held = self
                    .holder(instruction, known)
                    .and_then(|(holder, offset)| {
                        pointer_at(self.model, &self.elements, holder, offset)
                    });
                Some((to, Pointed::exact(held.or_else(|| slots.at(instruction))?)))
            }
            Move::Address { to } => {
                if let Some(indexed) = self.indexed(instruction, known) {
                    return Some((to, indexed));
                }
                let (holder, offset) = self.holder(instruction, known)?;
                Some((to, Pointed::exact(start_at(self.model, holder, offset)?)))
            }
            Move::Store { .. } => None,
        }
    }

    /// What `lea` of a pointer to a struct plus an index leads to, unless the index counts whole
    /// ones.
    fn indexed(&self, instruction: &Instruction, known: &Registers) -> Option<Pointed> {
        let Operand::Based {
            base,
            displacement: 0,
            indexed: true,
        } = instruction.addressed()
        else {
            return None;
        };
        let target = self.pointed(instruction.address(), base, known)?;
        let is_whole = self.model.size_of(target.ty) == Some(instruction.index_scale());
        let is_struct = !self.model.is_scalar(target.ty);
        (is_struct && !is_whole).then_some(Pointed {
            is_indexed: true,
            ..target
        })
    }

    /// The type that contains a memory operand, and the offset in it.
    fn holder(&self, instruction: &Instruction, known: &Registers) -> Option<(TypeId, u64)> {
        let pc = instruction.address();
        let (base, displacement, indexed) = match instruction.addressed() {
            Operand::Place(address) if instruction.is_relative() => {
                let (global, offset) = self.code.global_at(Storage::Static(address))?;
                return Some((global.type_id, offset.0));
            }
            Operand::Thread { displacement } => {
                let byte = self.thread_storage?.checked_add_signed(displacement)?;
                let (global, offset) = self.code.global_at(Storage::ThreadLocal(byte))?;
                return Some((global.type_id, offset.0));
            }
            Operand::Based {
                base,
                displacement,
                indexed,
            } if !instruction.has_segment() => (base, displacement, indexed),
            _ => return None,
        };
        if indexed {
            // An array's element: the offset in it, if the index counts whole elements.
            let element = self.pointed(pc, base, known)?.if_exact()?;
            let size = self.model.size_of(element)?;
            let whole = size == instruction.index_scale();
            let within = u64::try_from(displacement).ok()?.checked_rem(size)?;
            return whole.then_some((element, within));
        }
        let register = Register(u16::from(base.0));
        if let Some(found) = self.code.variable_at(pc, register, displacement) {
            return Some((found.type_id, found.offset.0));
        }
        let ty = self.pointed(pc, base, known)?.if_exact()?;
        Some((ty, u64::try_from(displacement).ok()?))
    }
}

/// The target of a pointer at `offset` of a value of type `id`: in a union (an enum of Rust's) of
/// the first member that leads to a struct, else of the first one that leads to a scalar.
pub(super) fn pointer_at(
    model: &TypeModel,
    elements: &Elements,
    id: TypeId,
    offset: u64,
) -> Option<TypeId> {
    let target = |place: &PlaceInType| {
        // A pointer to a row, `int (*)[10]`, is one to the row's first number.
        let declared = model.scalar_of_rows(model.pointer_target(place.id)?);
        // A vector's pointer type does not say what it points to.
        place.vector.map_or(Some(declared), |vector| {
            Some(model.strip(elements.of(vector)??))
        })
    };
    let of = |wanted: &dyn Fn(TypeId) -> bool| {
        let is_vector = |id| elements.of(id).is_some();
        first(model, id, offset, is_vector, |place, _| {
            target(place).filter(|target| wanted(*target))
        })
    };
    let is_struct = |id| matches!(model.get(id), Some(Type::Composite(_)));
    of(&is_struct).or_else(|| of(&|id| model.is_scalar(id)))
}

/// The outermost struct that starts at `offset` of a value of type `id`, else the scalar that does.
fn start_at(model: &TypeModel, id: TypeId, offset: u64) -> Option<TypeId> {
    let structs = first(
        model,
        id,
        offset,
        |_| false,
        |place, ty| matches!(ty, Type::Composite(_)).then_some(place.id),
    );
    structs.or_else(|| {
        first(
            model,
            id,
            offset,
            |_| false,
            |place, _| model.is_scalar(place.id).then_some(place.id),
        )
    })
}

/// A part of a type that contains the byte sought.
#[derive(Clone, Copy, Debug)]
struct PlaceInType {
    id: TypeId,
    /// The byte's offset in it.
    offset: u64,
    /// The vector that it is part of.
    vector: Option<TypeId>,
}

/// Of everything that starts at `offset` of a value of type `id`, outermost and first members
/// first, the first that `wanted` accepts.
fn first(
    model: &TypeModel,
    id: TypeId,
    offset: u64,
    is_vector: impl Fn(TypeId) -> bool,
    wanted: impl Fn(&PlaceInType, &Type) -> Option<TypeId>,
) -> Option<TypeId> {
    let mut open = vec![PlaceInType {
        id: model.strip(id),
        offset,
        vector: None,
    }];
    // A list of open places, not recursion: a type from a hostile file may nest arbitrarily deep.
    for _ in 0..LOOKED_AT_MAX {
        let place = open.pop()?;
        let Some(ty) = model.get(place.id) else {
            continue;
        };
        if let (0, Some(found)) = (place.offset, wanted(&place, ty)) {
            return Some(found);
        }
        let inside = |id: TypeId, offset| PlaceInType {
            id: model.strip(id),
            offset,
            vector: match is_vector(place.id) {
                true => Some(place.id),
                false => place.vector,
            },
        };
        match ty {
            Type::Array { element, .. } => {
                let size = model.size_of(*element).unwrap_or(0);
                if let Some(within) = place.offset.checked_rem(size) {
                    open.push(inside(*element, within));
                }
            }
            Type::Composite(composite) => {
                let holding = composite
                    .members
                    .iter()
                    .rev()
                    .filter_map(|member: &Member| {
                        let within = place.offset.checked_sub(member.offset.0 / 8)?;
                        let holds = within < model.size_of(member.type_id)?;
                        (member.bits.is_none() && holds).then(|| inside(member.type_id, within))
                    });
                open.extend(holding);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
