//! A small kernel: types, symbols, memory images and watched functions, and a recorder of synthetic
//! events.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contents;
mod images;
mod kernel;
pub mod parts;
mod places;
mod variant;

use linemate_recording::{
    AccessKind, Call, CpuId, Encoder, FunctionId, GuestAddr, InstructionId, LaneId, MAX_PARAMETERS,
    Mark, Marker, Moment, RawAccess, RawChunk, Recording, Return, VirtualTime, Writer,
};

pub use self::contents::Contents;
pub use self::kernel::{F, site, split_off};
use self::parts::entry;
pub use self::places::{
    APIC, CACHE_KMALLOC, CACHE_TASK, COUNTER, DEVICE, DIRECT, FRAMES, IMAGE, INIT_STACK,
    KMALLOC_SLAB, NOHZ, PAGES, POINTED, RQ, STATS, TAIL_PAGE, TASK_SLAB, UNITS, VMALLOC,
};
pub use self::variant::Variant;

/// An instruction of a user program.
const USER_CODE: u64 = 0x40_1000;

/// A recording under construction: each method adds an event.
pub struct World {
    encoder: Encoder,
    time: u64,
    pcs: Vec<u64>,
    depth: u64,
    chunks: Vec<RawChunk>,
    chunk_every: u32,
    since: u32,
    variant: Variant,
}

impl World {
    /// A world of the kernel of most tests, whose recording has one chunk.
    pub fn new() -> World {
        World::with_chunks_of(u32::MAX)
    }

    /// A world of another kernel.
    pub fn of(variant: Variant) -> World {
        World {
            variant,
            ..World::new()
        }
    }

    /// A world whose recording has a chunk for each `events` events.
    pub fn with_chunks_of(events: u32) -> World {
        World {
            encoder: Encoder::new(LaneId(0), 1 << 20),
            time: 0,
            pcs: Vec::new(),
            depth: 0,
            chunks: Vec::new(),
            chunk_every: events,
            since: 0,
            variant: Variant::default(),
        }
    }

    fn tick(&mut self) -> VirtualTime {
        self.since += 1;
        if self.since > self.chunk_every {
            self.since = 1;
            let chunk = self.encoder.take(RawChunk::default());
            self.chunks.push(chunk);
        }
        self.time += 1;
        VirtualTime(self.time)
    }

    pub fn wait(&mut self, instructions: u64) {
        self.time += instructions;
    }

    /// An access of `size` bytes by code of `function`.
    pub fn access(
        &mut self,
        cpu: u16,
        kind: AccessKind,
        addr: u64,
        size: u8,
        function: F,
        user_mapping: bool,
    ) {
        let pc = entry(function as usize) + 0x10 + 4 * (kind as u64);
        self.access_at(cpu, kind, addr, size, pc, user_mapping);
    }

    /// An access of `size` bytes by the instruction at `pc`.
    pub fn access_at(
        &mut self,
        cpu: u16,
        kind: AccessKind,
        addr: u64,
        size: u8,
        pc: u64,
        user_mapping: bool,
    ) {
        let access = self.raw(cpu, kind, addr, size, pc);
        self.encoder.access(RawAccess {
            user_mapping,
            ..access
        });
    }

    /// An access of the kernel's that is due now.
    fn raw(&mut self, cpu: u16, kind: AccessKind, addr: u64, size: u8, pc: u64) -> RawAccess {
        let instruction = self.pcs.iter().position(|p| *p == pc).unwrap_or_else(|| {
            self.pcs.push(pc);
            self.pcs.len() - 1
        });
        RawAccess {
            time: self.tick(),
            cpu: CpuId(cpu),
            instruction: InstructionId(instruction as u32),
            addr: GuestAddr(addr),
            size_log2: size.ilog2() as u8,
            kind,
            silent: false,
            user_mapping: false,
        }
    }

    /// A store of 4 bytes by the instruction at `pc` that leaves memory as it was.
    pub fn silent_store_at(&mut self, cpu: u16, addr: u64, pc: u64) {
        let access = self.raw(cpu, AccessKind::Store, addr, 4, pc);
        self.encoder.access(RawAccess {
            silent: true,
            ..access
        });
    }

    /// By a user program, of 8 bytes, through its own mapping.
    pub fn user_access(&mut self, cpu: u16, kind: AccessKind, addr: u64) {
        self.access_at(cpu, kind, addr, 8, USER_CODE, true);
    }

    /// A load of 4 bytes by `wake_task`.
    pub fn load(&mut self, cpu: u16, addr: u64) {
        self.access(cpu, AccessKind::Load, addr, 4, F::WakeTask, false);
    }

    /// A store of 4 bytes by `update_entity`.
    pub fn store(&mut self, cpu: u16, addr: u64) {
        self.access(cpu, AccessKind::Store, addr, 4, F::UpdateEntity, false);
    }

    /// A read-modify-write of 4 bytes by `lock_vector`.
    pub fn rmw(&mut self, cpu: u16, addr: u64) {
        self.access(cpu, AccessKind::Rmw, addr, 4, F::LockVector, false);
    }

    /// A call on CPU 0's task stack, whose top is `VMALLOC + 0x4000`.
    pub fn call(&mut self, function: impl Into<FunctionId>, values: &[u64]) {
        self.call_from(function, values, IMAGE + 0x900);
    }

    /// Like [`World::call`], from the return address `caller`.
    pub fn call_from(&mut self, function: impl Into<FunctionId>, values: &[u64], caller: u64) {
        let mut list = [None; MAX_PARAMETERS];
        for (place, value) in list.iter_mut().zip(values) {
            *place = Some(*value);
        }
        let time = self.tick();
        self.depth += 8;
        self.encoder.call(&Call {
            time,
            cpu: CpuId(0),
            function: function.into(),
            stack: GuestAddr(VMALLOC + 0x4000 - self.depth),
            caller: GuestAddr(caller),
            values: list,
        });
    }

    /// A CPU's turn begins.
    pub fn turn(&mut self, cpu: u16) {
        let time = self.tick();
        self.encoder.marker(&Marker {
            time,
            cpu: CpuId(cpu),
            mark: Mark::Turn,
            value: 0,
        });
    }

    /// A call on any stack.
    pub fn call_on(
        &mut self,
        cpu: u16,
        function: impl Into<FunctionId>,
        stack: u64,
        values: &[u64],
    ) {
        let mut list = [None; MAX_PARAMETERS];
        for (place, value) in list.iter_mut().zip(values) {
            *place = Some(*value);
        }
        let time = self.tick();
        self.encoder.call(&Call {
            time,
            cpu: CpuId(cpu),
            function: function.into(),
            stack: GuestAddr(stack),
            caller: GuestAddr(0),
            values: list,
        });
    }

    /// The return of the last call that has not returned yet.
    pub fn ret(&mut self, function: F, value: u64) {
        let time = self.tick();
        self.encoder.ret(&Return {
            time,
            cpu: CpuId(0),
            function: FunctionId(function as u32),
            stack: GuestAddr(VMALLOC + 0x4000 - self.depth),
            value,
        });
        self.depth -= 8;
    }

    /// A call that is recorded and over at once.
    pub fn sight(&mut self, function: impl Into<FunctionId>, addr: u64) {
        self.call(function, &[addr]);
        self.depth -= 8;
    }

    /// A call of an allocator from `site`, and its return with `result`.
    pub fn alloc(&mut self, function: F, arguments: &[u64], site: u64, result: u64) {
        self.call_from(function, arguments, site);
        self.ret(function, result);
    }

    /// A call of `kfree`.
    pub fn free(&mut self, addr: u64) {
        self.sight(F::Kfree, addr);
    }

    pub fn record(self) -> Recording {
        self.finish(true)
    }

    /// The recording without its end.
    pub fn cut(self) -> Recording {
        self.finish(false)
    }

    fn finish(self, whole: bool) -> Recording {
        let contents = Contents::of(self.variant);
        self.record_of(whole, contents)
    }

    /// The recording of another kernel, with or without its end.
    pub fn record_of(self, whole: bool, contents: Contents) -> Recording {
        Recording::from_source(self.bytes(whole, contents)).unwrap()
    }

    /// The bytes of a recording with these contents, with or without its end.
    pub fn bytes(mut self, whole: bool, contents: Contents) -> Vec<u8> {
        let time = self.tick();
        self.encoder.marker(&Marker {
            time,
            cpu: CpuId(0),
            mark: Mark::Stop,
            value: 0,
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::create(file.path(), &contents.tool, &contents.metadata).unwrap();
        if let Some(btf) = &contents.btf {
            writer.btf(btf).unwrap();
        }
        if let Some(symbols) = &contents.symbols {
            writer.symbols(symbols.as_bytes()).unwrap();
        }
        writer.functions(&contents.functions).unwrap();
        for (addr, bytes) in &contents.images {
            writer
                .image(Moment::Start, GuestAddr(*addr), bytes)
                .unwrap();
        }
        let pcs: Vec<GuestAddr> = self.pcs.iter().map(|p| GuestAddr(*p)).collect();
        writer.instructions(&pcs).unwrap();
        for chunk in &self.chunks {
            writer.events(chunk).unwrap();
        }
        writer
            .events(&self.encoder.take(RawChunk::default()))
            .unwrap();
        if whole {
            writer.finish().unwrap();
        } else {
            drop(writer);
        }
        std::fs::read(file.path()).unwrap()
    }

    /// Two CPUs and two queues: the owners tick their clocks, others look at who runs.
    pub fn queues() -> Recording {
        let mut w = World::new();
        for i in 0..40u64 {
            let (cpu, other) = ((i % 2) as u16, UNITS[((i + 1) % 2) as usize]);
            let own = UNITS[usize::from(cpu)];
            w.access(cpu, AccessKind::Rmw, own + RQ + 72, 4, F::UpdateRq, false);
            w.access(cpu, AccessKind::Store, own + RQ + 72, 4, F::UpdateRq, false);
            w.wait(1000);
            w.access(cpu, AccessKind::Store, own + RQ + 64, 8, F::UpdateRq, false);
            w.access(cpu, AccessKind::Store, own + RQ, 4, F::UpdateEntity, false);
            w.wait(1000);
            w.access(cpu, AccessKind::Load, other + RQ, 4, F::WakeTask, false);
            w.access(cpu, AccessKind::Load, other + RQ + 8, 8, F::WakeTask, false);
            w.wait(1000);
        }
        w.record()
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}
