//! How long the CPUs' turns are, if the recorder ends them.
//!
//! QEMU shares the time to the guest's next timer among its CPUs, so a program's thread runs for
//! hundreds of thousands of instructions on end, and after each timer every CPU gets a smaller
//! share than the one before it. The recorder therefore ends turns itself, after a number of
//! instructions that is the same for all CPUs in the long run.
//!
//! Turns of exactly one length would keep threads of the same work in step, so that they meet at
//! each of their locks, which real threads do not. So each CPU wanders: it is ahead of equal turns
//! or behind them by up to a hundredth of what it has been given, and approaches the next such
//! distance, drawn at random, by longer or shorter turns.

/// A CPU that runs alone gets turns of up to this many times the length: each end goes through all
/// halted CPUs.
const ALONE: u32 = 16;

/// The part of its instructions by which a CPU is ahead or behind at most: two threads of the same
/// work are then within 2 % of each other, and a turn.
const WANDER_PART: u64 = 100;

/// The part of the length by which a turn differs from it at most.
const STEP_PART: i64 = 4;

/// The turns of one lane.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Instructions of a turn.
    length: u32,
    /// Of the next one of a CPU that runs alone.
    next: u32,
    seed: u64,
    /// By CPU.
    wanders: Vec<Wander>,
}

/// Where a CPU is, relative to equal turns.
#[derive(Clone, Debug, Default)]
struct Wander {
    /// The instructions of as many equal turns as it had.
    given: u64,
    /// How many it had more than that.
    ahead: i64,
    /// How many it approaches.
    target: i64,
    /// How many targets were drawn.
    drawn: u64,
}

impl Turns {
    pub(crate) fn new(length: u32, seed: u64) -> Self {
        Self {
            length,
            next: length,
            seed,
            wanders: Vec::new(),
        }
    }

    /// `cpu` runs, after another: instructions until its turn is to be ended.
    pub(crate) fn changed(&mut self, cpu: u16) -> u32 {
        self.next = self.length;
        let (length, cpu) = (i64::from(self.length), usize::from(cpu));
        if cpu >= self.wanders.len() {
            self.wanders.resize(cpu + 1, Wander::default());
        }
        let wander = &mut self.wanders[cpu];
        wander.given += u64::from(self.length);
        if wander.ahead == wander.target {
            let bound = (wander.given / WANDER_PART) as i64;
            wander.drawn += 1;
            let random = mixed(self.seed ^ mixed(cpu as u64) ^ wander.drawn);
            wander.target = (random % (2 * bound as u64 + 1)) as i64 - bound;
        }
        let most = length / STEP_PART;
        let step = (wander.target - wander.ahead).clamp(-most, most);
        wander.ahead += step;
        u32::try_from(length + step).unwrap_or(self.length)
    }

    /// The running CPU's turn is over: instructions until the next end, unless another CPU runs
    /// before.
    pub(crate) fn over(&mut self) -> u32 {
        let over = self.next;
        self.next = (2 * self.next).min(ALONE * self.length);
        over
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of two CPUs has been given after that many turns of each.
    fn given(turns: &mut Turns, count: usize) -> [u64; 2] {
        let mut sums = [0; 2];
        for _ in 0..count {
            for (cpu, sum) in (0..).zip(&mut sums) {
                *sum += u64::from(turns.changed(cpu));
                // The turn's end, at which the next CPU takes over.
                turns.over();
            }
        }
        sums
    }

    #[test]
    fn cpus_that_alternate_get_the_same_within_two_hundredths() {
        let mut turns = Turns::new(1000, 42);
        let (mut sums, mut apart) = ([0; 2], Vec::new());
        for _ in 0..4000 {
            let more = given(&mut turns, 1);
            sums = [sums[0] + more[0], sums[1] + more[1]];
            for turn in more {
                assert!((750..=1250).contains(&turn), "{turn}");
            }
            let difference = sums[0].abs_diff(sums[1]);
            assert!(difference <= sums[0] / 49, "{sums:?}");
            apart.push(difference);
        }
        // They do not stay in step: the most that they are apart is worth many turns.
        assert!(
            apart.iter().max() > Some(&20_000),
            "{:?}",
            apart.iter().max()
        );
    }

    #[test]
    fn the_seed_alone_decides() {
        let lengths = |seed| {
            let mut turns = Turns::new(1000, seed);
            let lengths: Vec<u32> = (0..100).map(|turn| turns.changed(turn % 3)).collect();
            lengths
        };
        assert_eq!(lengths(7), lengths(7));
        assert_ne!(lengths(7), lengths(8));
    }

    #[test]
    fn a_cpu_that_runs_alone_is_interrupted_less_and_less_up_to_a_bound() {
        let mut turns = Turns::new(1000, 42);
        let alone: Vec<u32> = (0..7).map(|_| turns.over()).collect();
        assert_eq!(alone, [1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]);
        let next = turns.changed(0);
        assert!((750..=1250).contains(&next), "another CPU woke up: {next}");
    }
}
