//! QEMU plugin that records a guest kernel's memory accesses and the calls of watched functions.
//!
//! Simple and fast: it obeys the function table at the head of the recording without knowing a
//! type, and appends chunks of events to the same file. Nothing on the access path locks or
//! allocates. `docs/reference/recorder-plugin.md` lists what it cannot see.
//!
//! | module | knows |
//! |---|---|
//! | `ffi` | QEMU's plugin interface; all `unsafe` |
//! | `view` | what the rest may see of the guest, implemented by `ffi` |
//! | `recorder`, `translate`, `hook` | what to do in which callback |
//! | `tap`, `kind`, `queue` | callbacks leave small records in a bounded queue to another thread |
//! | `consumer` | that thread: records → lane |
//! | `lane`, `clock`, `pairing`, `shadow` | records → events: time, RMW, wide operands, silent stores |
//! | `running` | which CPU is running, if QEMU does not say |
//! | `watch`, `decode`, `address` | the function table; instruction bytes; kernel and user addresses |
//! | `programs` | code by its contents, address spaces, mapped pages |
//! | `refusals` | failed system calls, reported on standard error |
//! | `options`, `output` | the command line; the path to the file |

// Only QEMU calls the plugin's entry points: in tests everything behind them is unused.
#![cfg_attr(test, allow(dead_code))]

mod address;
mod clock;
mod consumer;
mod decode;
#[cfg(test)]
mod fake_cpu;
mod ffi;
mod hook;
mod kind;
mod lane;
mod options;
mod output;
mod pairing;
mod programs;
mod queue;
mod recorder;
mod refusals;
mod running;
mod shadow;
mod tap;
mod translate;
mod turns;
mod view;
mod watch;
