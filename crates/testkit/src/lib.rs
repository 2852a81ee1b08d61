//! What the tests of several crates share. Nothing here is part of the command.
//!
//! * [`btf_writer`] makes lists of types and writes them as BTF;
//! * [`calls`] is a kernel whose calls are known;
//! * [`elf`] makes images of machine code;
//! * [`world`] is a small kernel, of which it makes recordings event by event;
//! * [`programs`] makes recordings of a program of which a test has the file;
//! * [`accesses`] makes single accesses;
//! * [`numbers`] gives numbers that look random, the same in every run;
//! * [`kernels`] finds the real kernels that `make setup` puts into the cache;
//! * [`pahole`] knows what newer versions of pahole say and 1.24 does not.

pub mod accesses;
pub mod btf_writer;
pub mod calls;
pub mod elf;
pub mod kernels;
pub mod numbers;
pub mod pahole;
pub mod programs;
pub mod world;
