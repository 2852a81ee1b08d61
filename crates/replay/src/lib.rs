//! Replays a stream of accesses on a described machine.
