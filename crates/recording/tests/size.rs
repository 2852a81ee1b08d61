//! Exactly how many bytes a predictable stream takes, before compression.

use linemate_recording::*;

fn access(time: u64, instruction: u32, addr: u64, kind: AccessKind) -> RawAccess {
    RawAccess {
        time: VirtualTime(time),
        cpu: CpuId(0),
        instruction: InstructionId(instruction),
        addr: GuestAddr(addr),
        size_log2: 3,
        kind,
        silent: false,
        user_mapping: false,
    }
}

/// Bytes of `rounds` rounds.
fn bytes(rounds: u64, round: &impl Fn(&mut Encoder, u64)) -> usize {
    let mut encoder = Encoder::new(LaneId(0), 1_000_000);
    for i in 0..rounds {
        round(&mut encoder, i);
    }
    encoder.take(RawChunk::default()).raw_bytes()
}

/// The cost of each of a hundred rounds after ten in which the model learns.
fn learnt(round: impl Fn(&mut Encoder, u64)) -> (usize, usize) {
    let more = bytes(110, &round) - bytes(10, &round);
    (more / 100, more % 100)
}

#[test]
fn the_same_again_is_one_byte_per_access() {
    let cost = learnt(|encoder, i| {
        for k in 0..5 {
            encoder.access(access(
                20 * i + 3 * k,
                k as u32,
                0xffff_8880_0000_1000 + 64 * k,
                AccessKind::Load,
            ));
        }
    });
    assert_eq!(cost, (5, 0));
}

#[test]
fn fields_of_another_object_cost_one_address() {
    let cost = learnt(|encoder, i| {
        // Far apart, so that the distance from the last object takes three bytes as a varint.
        let object = 0xffff_8880_0000_0000 + i * i * 4096;
        for (k, offset) in [(0, 0), (1, 24), (2, 8), (3, 512)] {
            encoder.access(access(
                20 * i + k,
                k as u32,
                object + offset,
                AccessKind::Store,
            ));
        }
    });
    assert_eq!(cost, (4 + 3, 0));
}

#[test]
fn stack_frames_at_any_depth_cost_one_address() {
    let cost = learnt(|encoder, i| {
        let frame = 0xffff_c900_0000_4000 - 2000 * (i % 2);
        for (k, offset) in [(0, 0), (1, 8), (2, 16)] {
            encoder.access(access(
                10 * i + k,
                k as u32,
                frame + offset,
                AccessKind::Store,
            ));
            // An access elsewhere in between does not disturb.
            encoder.access(access(
                10 * i + k,
                10 + k as u32,
                0xffff_ffff_8200_0000 + k,
                AccessKind::Load,
            ));
        }
    });
    assert_eq!(cost, (6 + 2, 0));
}

#[test]
fn two_ways_to_go_on_cost_nothing_and_a_third_one_a_site() {
    let branch = |ways: u64| {
        learnt(move |encoder, i| {
            encoder.access(access(10 * i, 0, 0xffff_8880_0000_0000, AccessKind::Load));
            let way = 1 + i % ways;
            encoder.access(access(
                10 * i + 2,
                way as u32,
                0xffff_8880_0000_0100,
                AccessKind::Load,
            ));
        })
    };
    assert_eq!(branch(2), (2, 0));
    // The site's difference takes one byte, the gap of 2 another.
    assert_eq!(branch(3), (2 + 2, 0));
}

#[test]
fn calls_with_known_values_cost_one_byte() {
    let cost = learnt(|encoder, i| {
        let time = VirtualTime(20 * i);
        let stack = 0xffff_c900_0000_4000 - 512 * (i % 4);
        encoder.access(access(time.0, 0, stack, AccessKind::Store));
        encoder.call(&Call {
            time,
            cpu: CpuId(0),
            function: FunctionId(7),
            stack: GuestAddr(stack),
            caller: GuestAddr(0xffff_ffff_8100_0005),
            values: [Some(0xffff_8880_0000_1000), None, Some(3), None, None, None],
        });
    });
    // Two bytes for the stack's address in the two of four rounds in which it does not advance as
    // before; the call's own stack pointer follows from it.
    assert_eq!(cost, (2 + 1, 0));
}

#[test]
fn values_in_turn_cost_a_place_in_the_dictionary() {
    let handed = |values: fn(u64) -> u64| {
        learnt(move |encoder, i| {
            encoder.call(&Call {
                time: VirtualTime(20 * i),
                cpu: CpuId(0),
                function: FunctionId(7),
                stack: GuestAddr(0xffff_c900_0000_4000),
                caller: GuestAddr(0xffff_ffff_8100_0005),
                values: [Some(values(i)), None, None, None, None, None],
            });
        })
    };
    assert_eq!(handed(|_| 0xffff_8880_0000_1000), (1, 0));
    let in_turn = handed(|i| 0xffff_8880_0000_1000 + i % 3 * 0x1_0000_0000);
    assert_eq!(in_turn, (1 + 1, 0));
}

#[test]
fn a_switch_to_another_cpu_costs_three_bytes() {
    let cost = learnt(|encoder, i| {
        let mut load = access(i, 0, 0xffff_8880_0000_1000, AccessKind::Load);
        load.cpu = CpuId((i % 8) as u16);
        encoder.access(load);
    });
    assert_eq!(cost, (1 + 3, 0));
}
