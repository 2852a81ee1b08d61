//! A kernel that calls, and knows what it calls: its recording, and what is on its stacks, from its
//! own list of functions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use crate::elf;
use crate::world::parts::entry;
use crate::world::{Contents, F, IMAGE, NOHZ, RQ, UNITS, VMALLOC, World};
use linemate_recording::{AccessKind, FunctionId, Parameter, Recording, Register, Role};
use linemate_types::kernel_image::CodeSection;

/// The functions by their number.
pub const NAMES: [&str; 16] = [
    "wake_task",
    "update_entity",
    "kmem_cache_alloc",
    "__kmalloc",
    "kfree",
    "alloc_percpu",
    "pte_alloc_one",
    "update_rq",
    "lock_vector",
    "free_pages",
    "kmem_cache_alloc_bulk",
    "kmem_cache_alloc_from_sheaf_noprof",
    "clear_page_erms",
    "allocate_slab",
    "free_percpu",
    "__kmalloc_array",
];
/// The function through which a program enters the kernel.
pub const ENTRY: usize = 14;
/// The function through which interrupts enter it.
pub const INTERRUPT: usize = 13;
const SWITCH: F = F::ClearPage;

// Instructions, by their offset from a function's entry.
const PUSH: u64 = 0x00;
const LOAD: u64 = 0x10;
const CALL: u64 = 0x20;
const RETURN: u64 = 0x30;
const PATCHED_RETURN: u64 = 0x40;
const INTERRUPT_RETURN: u64 = 0x50;
const STORE: u64 = 0x60;

/// The most frames of a task.
const DEPTH: usize = 12;
const TASKS: usize = 4;

pub fn image() -> Vec<u8> {
    elf::image(IMAGE, &code().bytes)
}

/// Its machine code: each function has the same instructions.
pub fn code() -> CodeSection {
    let mut code = vec![0xcc; 0x100 * 19];
    for function in code.chunks_mut(0x100) {
        let mut put =
            |at: u64, bytes: &[u8]| function[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(PUSH, &[0x55]); // push rbp
        put(LOAD, &[0x8b, 0x07]); // mov eax, [rdi]
        put(CALL, &[0xe8, 0x10, 0, 0, 0]); // call
        put(RETURN, &[0xc3]); // ret
        put(PATCHED_RETURN, &[0xe9, 0, 0x10, 0, 0]); // jmp __x86_return_thunk
        put(INTERRUPT_RETURN, &[0x48, 0xcf]); // iretq
        put(STORE, &[0x48, 0x89, 0x07]); // mov [rdi], rax
    }
    CodeSection {
        address: IMAGE,
        bytes: code,
    }
}

/// Something that a CPU does.
#[derive(Clone, Copy, Debug)]
pub enum KernelOp {
    /// Calls a function, whose first access comes after this many instructions.
    Call(usize, u64),
    /// Loads a word of `rq`.
    Access(u64),
    /// Returns, from an interrupt if it is in one; by an instruction that was patched.
    Return(bool),
    /// Jumps to a function.
    Jump(usize),
    /// Is interrupted; the handler runs on another stack.
    Interrupt(bool),
    /// Switches to another task.
    Switch(usize),
    /// Runs this many instructions.
    Wait(u64),
    /// The other CPU's turn.
    OtherCpu,
}

/// A call or an interrupt.
#[derive(Clone, Debug)]
struct Called {
    /// Everything that ran in it.
    functions: BTreeSet<usize>,
    running: usize,
    slot: u64,
    /// The stack pointer before it.
    before: u64,
    interrupt: bool,
}

/// The sums under a function.
#[derive(Clone, Copy, Debug, Default)]
pub struct Truth {
    pub accesses: u64,
    /// Instructions.
    pub instructions: u64,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
}

/// The sums over everything.
#[derive(Clone, Debug, Default)]
pub struct Truths {
    /// Instructions.
    pub instructions: u64,
    /// By function, of those that were on a stack.
    pub by_function: BTreeMap<usize, Truth>,
}

/// Two CPUs with four tasks.
pub struct CallingKernel {
    world: World,
    tasks: Vec<(Vec<Called>, u64)>,
    /// By CPU.
    running: [usize; 2],
    cpu: u16,
    truths: Truths,
    /// Whether turns are marked.
    turns: bool,
    /// Whose turn it is, as far as the recording shows.
    turn: Option<u16>,
    /// Instructions since the last event of that turn, with what was on the stack.
    since: Vec<(BTreeSet<usize>, u64)>,
}

impl CallingKernel {
    /// Nothing has been called; turn starts are not marked, as in older recordings.
    pub fn new() -> CallingKernel {
        let top = |task: usize| (Vec::new(), VMALLOC + 0x4000 * (task as u64 + 1) - 0x40);
        CallingKernel {
            world: World::with_chunks_of(100),
            tasks: (0..TASKS).map(top).collect(),
            running: [0, 1],
            cpu: 0,
            truths: Truths::default(),
            turns: false,
            turn: None,
            since: Vec::new(),
        }
    }

    /// The same, with marks where turns start.
    pub fn with_turns() -> CallingKernel {
        CallingKernel {
            turns: true,
            ..CallingKernel::new()
        }
    }

    /// A CPU's turn begins, if that is not its turn.
    fn turn(&mut self, cpu: u16) {
        if !self.turns || self.turn == Some(cpu) {
            return;
        }
        if let Some(before) = self.turn {
            let under = self.under(before);
            self.since.push((under, 1));
            self.count(before);
        }
        self.since.clear();
        self.world.turn(cpu);
        self.turn = Some(cpu);
    }

    fn task(&mut self, cpu: u16) -> &mut (Vec<Called>, u64) {
        &mut self.tasks[self.running[usize::from(cpu)]]
    }

    fn under(&mut self, cpu: u16) -> BTreeSet<usize> {
        let (frames, _) = self.task(cpu);
        frames.iter().flat_map(|f| f.functions.clone()).collect()
    }

    /// Time has passed up to an event that instructions are counted to.
    fn count(&mut self, cpu: u16) {
        let since = std::mem::take(&mut self.since);
        if self.turn != Some(cpu) {
            return;
        }
        for (under, count) in since {
            self.truths.instructions += count;
            for function in under {
                self.truths
                    .by_function
                    .entry(function)
                    .or_default()
                    .instructions += count;
            }
        }
    }

    /// A CPU runs that many instructions that access nothing.
    pub fn wait(&mut self, cpu: u16, instructions: u64) {
        self.turn(cpu);
        self.world.wait(instructions);
        let under = self.under(cpu);
        self.since.push((under, instructions));
    }

    /// An access by the running function, at an offset from its entry.
    fn push(&mut self, cpu: u16, kind: AccessKind, addr: u64, offset: u64) {
        self.turn(cpu);
        let frame = self.task(cpu).0.last().map(|frame| frame.running);
        let running = frame.unwrap_or(ENTRY);
        let stacked = self.under(cpu);
        self.since.push((stacked.clone(), 1));
        self.count(cpu);
        self.turn = Some(cpu);
        let pc = entry(running) + offset;
        self.world.access_at(cpu, kind, addr, 8, pc, false);
        let entered = frame.is_some() && !stacked.contains(&running);
        if let Some(frame) = self.task(cpu).0.last_mut() {
            frame.functions.insert(running);
        }
        let mut under = stacked;
        under.insert(running);
        for function in under {
            let truth = self.truths.by_function.entry(function).or_default();
            truth.accesses += 1;
            truth.entered += u64::from(entered && function == running);
        }
    }

    /// Calls a function, whose first access comes after that many instructions; a program's system
    /// call if no call is open.
    pub fn call(&mut self, cpu: u16, function: usize, wait: u64) {
        let (frames, pointer) = self.task(cpu);
        if frames.len() >= DEPTH {
            return;
        }
        let (before, first) = (*pointer, frames.is_empty());
        let slot = before - 8;
        self.push(cpu, AccessKind::Store, slot, CALL);
        let stacked = self.under(cpu);
        let mut functions = BTreeSet::from([function]);
        if first {
            functions.insert(ENTRY);
            let truth = self.truths.by_function.entry(ENTRY).or_default();
            truth.entered += 1;
        }
        if !stacked.contains(&function) {
            let truth = self.truths.by_function.entry(function).or_default();
            truth.entered += 1;
        }
        let (frames, pointer) = self.task(cpu);
        *pointer = slot - 8;
        frames.push(Called {
            functions,
            running: function,
            slot,
            before,
            interrupt: false,
        });
        self.wait(cpu, wait);
        self.push(cpu, AccessKind::Store, slot - 8, PUSH);
    }

    /// The function that runs loads 8 bytes.
    pub fn access(&mut self, cpu: u16, addr: u64) {
        self.push(cpu, AccessKind::Load, addr, LOAD);
    }

    /// The function that runs stores 8 bytes.
    pub fn store(&mut self, cpu: u16, addr: u64) {
        self.push(cpu, AccessKind::Store, addr, STORE);
    }

    /// Returns, from an interrupt if that is what it is in; by an instruction that was patched.
    pub fn ret(&mut self, cpu: u16, patched: bool) {
        let Some(frame) = self.task(cpu).0.last().cloned() else {
            return;
        };
        match (frame.interrupt, patched) {
            (true, _) => self.push(cpu, AccessKind::Load, frame.slot, INTERRUPT_RETURN),
            (false, true) => self.push(cpu, AccessKind::Load, frame.slot, PATCHED_RETURN),
            (false, false) => self.push(cpu, AccessKind::Load, frame.slot, RETURN),
        }
        let (frames, pointer) = self.task(cpu);
        frames.pop();
        *pointer = frame.before;
    }

    fn jump(&mut self, cpu: u16, function: usize) {
        let (frames, pointer) = self.task(cpu);
        let pointer = *pointer;
        let Some(frame) = frames.last_mut().filter(|frame| !frame.interrupt) else {
            return;
        };
        frame.running = function;
        self.push(cpu, AccessKind::Store, pointer, PUSH);
    }

    fn interrupt(&mut self, cpu: u16, elsewhere: bool) {
        let (frames, pointer) = self.task(cpu);
        if frames.len() >= DEPTH || frames.is_empty() {
            return;
        }
        let before = *pointer;
        let slot = (before - 40) & !15;
        *pointer = match elsewhere {
            true => {
                VMALLOC + 0x10_0000 + 0x1_0000 * u64::from(cpu) + 0x3f00
                    - 0x100 * frames.len() as u64
            }
            false => slot,
        };
        self.turn(cpu);
        let under = self.under(cpu);
        self.since.push((under, 1));
        self.count(cpu);
        self.world
            .call_on(cpu, FunctionId(INTERRUPT as u32), slot, &[]);
        if !self.under(cpu).contains(&INTERRUPT) {
            let truth = self.truths.by_function.entry(INTERRUPT).or_default();
            truth.entered += 1;
        }
        self.task(cpu).0.push(Called {
            functions: BTreeSet::from([INTERRUPT]),
            running: INTERRUPT,
            slot,
            before,
            interrupt: true,
        });
        self.push(cpu, AccessKind::Store, slot - 8, PUSH);
    }

    fn switch(&mut self, cpu: u16, task: usize) {
        let from = self.running[usize::from(cpu)];
        if self.running.contains(&task) || self.tasks[from].0.iter().any(|f| f.interrupt) {
            return;
        }
        self.turn(cpu);
        let stack = self.tasks[task].1;
        let under = self.under(cpu);
        self.since.push((under, 1));
        self.count(cpu);
        self.turn = Some(cpu);
        let known = |task: usize| VMALLOC - 0x10_0000 + 0x1000 * task as u64;
        self.world
            .call_on(cpu, SWITCH, stack, &[known(from), known(task)]);
        self.running[usize::from(cpu)] = task;
    }

    /// Does something, if it can be.
    pub fn perform(&mut self, op: KernelOp) {
        let cpu = self.cpu;
        match op {
            KernelOp::Call(function, wait) => self.call(cpu, function, wait),
            KernelOp::Access(word) => self.access(cpu, UNITS[0] + RQ + 8 * (word % 16)),
            KernelOp::Return(patched) => self.ret(cpu, patched),
            KernelOp::Jump(function) => self.jump(cpu, function),
            KernelOp::Interrupt(elsewhere) => self.interrupt(cpu, elsewhere),
            KernelOp::Switch(task) => self.switch(cpu, task),
            KernelOp::Wait(instructions) => self.wait(cpu, instructions),
            KernelOp::OtherCpu => {
                self.cpu = 1 - cpu;
                if !self.turns {
                    self.access(self.cpu, UNITS[1] + RQ);
                }
            }
        }
    }

    /// The recording, and what happened.
    pub fn finish(mut self) -> (Recording, Truths) {
        // The last turn's end is not marked.
        if let Some(cpu) = self.turn.filter(|_| self.turns) {
            self.turn(1 - cpu);
        }
        let truths = self.truths.clone();
        let bytes = self.bytes(&[]);
        (Recording::from_source(bytes).unwrap(), truths)
    }

    /// The bytes of the recording, which says also this about its run.
    pub fn bytes(self, about: &[(&str, String)]) -> Vec<u8> {
        let mut contents = Contents::new();
        let about = about
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()));
        contents.metadata.extend(about);
        let functions = &mut contents.functions.functions;
        functions[INTERRUPT].role = Role::Interrupt;
        let task = functions[0].parameters[0].meaning;
        let switch = &mut functions[SWITCH as usize];
        switch.role = Role::ContextSwitch;
        switch.parameters = [Register::Rdi, Register::Rsi]
            .map(|register| Parameter {
                register,
                meaning: task,
            })
            .to_vec();
        self.world.bytes(true, contents)
    }
}

/// [`ENTRY`] calls 0; 0 calls 1 and 2; 1 calls 3 twice and 4, 2 calls 4. Each writes something
/// itself; CPU 1 does the same meanwhile, so that lines go between cores.
pub fn tree() -> CallingKernel {
    let mut kernel = CallingKernel::new();
    let rq = UNITS[0] + RQ;
    for _ in 0..50 {
        for cpu in [0, 1] {
            let mut call = |function, addr| {
                kernel.call(cpu, function, 2);
                kernel.store(cpu, addr);
            };
            call(0, rq);
            call(1, rq + 64);
            call(3, rq + 8);
            kernel.ret(cpu, false);
            kernel.call(cpu, 3, 0);
            kernel.store(cpu, rq + 72);
            kernel.ret(cpu, true);
            kernel.call(cpu, 4, 1);
            kernel.store(cpu, NOHZ);
            kernel.ret(cpu, false);
            kernel.ret(cpu, false);
            kernel.call(cpu, 2, 0);
            kernel.store(cpu, rq + 88);
            kernel.call(cpu, 4, 5);
            kernel.store(cpu, NOHZ + 8);
            for _ in 0..3 {
                kernel.ret(cpu, false);
            }
        }
    }
    kernel
}

impl Default for CallingKernel {
    fn default() -> CallingKernel {
        CallingKernel::new()
    }
}
