//! What the tests of several crates share. Nothing here is part of the command.
//!
//! * [`btf_writer`] makes lists of types and writes them as BTF;
//! * [`calls`] is a kernel with known calls;
//! * [`elf`] makes images of machine code;
//! * [`world`] is a small kernel, and makes recordings of it event by event;
//! * [`programs`] makes recordings of a program whose file a test has;
//! * [`accesses`] makes single accesses;
//! * [`numbers`] gives pseudo-random numbers, the same in every run;
//! * [`kernels`] finds the real kernels that `make setup` puts into the cache;
//! * [`pahole`] removes the remarks that newer versions of pahole print and 1.24 does not.

pub mod accesses;
pub mod btf_writer;
pub mod calls;
pub mod elf;
pub mod kernels;
pub mod numbers;
pub mod pahole;
pub mod programs;
pub mod world;
