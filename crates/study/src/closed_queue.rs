//! From cycles of memory to time: CPUs that wait for lines, as a closed queueing network.
//!
//! A replay's rounds end at a barrier, where a CPU that waited long for a line catches up with
//! those that did not. A workload has no barrier: its CPUs ask again as soon as they were served,
//! so a line that is held all the time delays every one of them. That is a closed network: as many
//! customers as CPUs do the work, a station for each line that moves between cores, and think time
//! for all that a CPU does meanwhile. It is solved exactly by mean value analysis (M. Reiser and S.
//! S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 27 (1980),
//! 313-322). The replay's own waiting is taken out before, so nothing counts twice.

use linemate_answers::WorkTime;
use linemate_machine::Machine;
use linemate_recording::Instructions;
use linemate_replay::Outcome;
use linemate_stats::paired;

/// Lines with equal demands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Station {
    /// Cycles for which a CPU holds one of them in one pass of the workload.
    demand: f64,
    /// How many there are.
    lines: f64,
}

/// CPUs that do the same work again and again, one pass at a time.
#[derive(Clone, Debug, PartialEq)]
struct Network {
    customers: usize,
    /// Cycles of one CPU's pass without what it holds contested lines for.
    think: f64,
    stations: Vec<Station>,
}

/// One CPU's pass, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pass {
    cycles: f64,
    /// Of those, waiting for lines.
    waiting: f64,
    /// By the asymptotic bounds of a closed network (Denning and Buzen, "The Operational Analysis
    /// of Queueing Network Models", ACM Computing Surveys 10 (1978), 225-261), it is no shorter.
    bound: f64,
    /// The share of time for which the line that is held most is held.
    busiest: f64,
}

impl Network {
    /// Exact mean value analysis for one class of customers. It takes time and memory in proportion
    /// to stations, and to customers.
    fn solve(&self) -> Pass {
        let demands = || self.stations.iter().map(|of| of.demand * of.lines);
        let demand: f64 = demands().sum();
        let mut queues = vec![0.0; self.stations.len()];
        let mut cycles = self.think + demand;
        for customers in 1..=self.customers {
            // A customer that arrives finds the queue that is there with one customer less.
            let stay = |(of, queue): (&Station, &f64)| of.demand * (1.0 + queue);
            let stays: Vec<f64> = self.stations.iter().zip(&queues).map(stay).collect();
            let held = |(of, stay): (&Station, &f64)| of.lines * stay;
            cycles = self.think + self.stations.iter().zip(&stays).map(held).sum::<f64>();
            if cycles <= 0.0 {
                break;
            }
            let rate = customers as f64 / cycles;
            for (queue, stay) in queues.iter_mut().zip(&stays) {
                *queue = rate * stay;
            }
        }
        let most = self.stations.iter().map(|of| of.demand).fold(0.0, f64::max);
        let customers = self.customers as f64;
        Pass {
            cycles,
            waiting: cycles - self.think - demand,
            bound: (customers * most).max(self.think + demand),
            busiest: if cycles > 0.0 {
                customers * most / cycles
            } else {
                0.0
            },
        }
    }
}

/// How many CPUs share the work: (sum of x)^2 / (sum of x^2) over their instructions x, which is
/// their number if all do the same, and 1 if one does everything.
fn customers(instructions: &[Instructions]) -> usize {
    let values = || instructions.iter().map(|of| f64::from(*of));
    let (sum, squares) = (
        values().sum::<f64>(),
        values().map(|of| of * of).sum::<f64>(),
    );
    if squares > 0.0 {
        (sum * sum / squares).round() as usize
    } else {
        0
    }
}

/// What a replay found, as time of the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Worked {
    customers: usize,
    /// Cycles of all CPUs: instructions, stalls, and waiting as in the closed network.
    cycles: f64,
    waiting: f64,
    bound: f64,
    busiest: f64,
    /// Instructions of all CPUs.
    instructions: f64,
}

impl Worked {
    pub(crate) fn new(outcome: &Outcome, machine: &Machine) -> Worked {
        let totals = &outcome.totals;
        let instructions: Instructions = outcome.instructions.iter().sum();
        // A hit in L1 is in its instruction's own cycle.
        let hits = totals.accesses().cycles(machine.latency.l1.into());
        let stalls = totals.cycles().saturating_sub(hits + totals.waited);
        let cpus = customers(&outcome.instructions);
        let share = 1.0 / cpus.max(1) as f64;
        let station = |line: &linemate_replay::HeldLine| Station {
            demand: f64::from(line.requests.cycles) * share,
            lines: f64::from(line.lines),
        };
        let stations: Vec<Station> = outcome.held.iter().map(station).collect();
        let held: f64 = stations.iter().map(|of| of.demand * of.lines).sum();
        let network = Network {
            customers: cpus,
            // Never below 0, though misses that overlap hold several lines at a time.
            think: (f64::from(instructions.cycles() + stalls) * share - held).max(0.0),
            stations,
        };
        let pass = network.solve();
        let all = |cycles: f64| cycles * cpus as f64;
        Worked {
            customers: cpus,
            cycles: all(pass.cycles),
            waiting: all(pass.waiting),
            bound: all(pass.bound),
            busiest: pass.busiest,
            instructions: instructions.into(),
        }
    }
}

/// The change from one variant's replays to another's.
pub(crate) fn work_time(without: &[Worked], with: &[Worked]) -> WorkTime {
    let measure = |figure: &dyn Fn(&Worked) -> f64| {
        let series = |of: &[Worked]| of.iter().map(figure).collect::<Vec<f64>>();
        paired(&series(without), &series(with))
    };
    let cycles = measure(&|of| of.cycles);
    let instructions = measure(&|of| of.instructions).without;
    let memory = if cycles.without > 0.0 {
        1.0 - instructions / cycles.without
    } else {
        0.0
    };
    WorkTime {
        cpus: without.first().map_or(0, |of| of.customers),
        cycles,
        waiting: measure(&|of| of.waiting),
        bound: measure(&|of| of.bound),
        busiest: measure(&|of| of.busiest),
        memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(customers: usize, think: f64, demands: &[f64]) -> Network {
        let station = |demand: &f64| Station {
            demand: *demand,
            lines: 1.0,
        };
        Network {
            customers,
            think,
            stations: demands.iter().map(station).collect(),
        }
    }

    /// One line and think time is the machine repairman, whose throughput has a closed form.
    #[test]
    fn one_line_is_the_machine_repairman() {
        for customers in [1, 2, 5, 16, 64] {
            for (think, demand) in [(1000.0, 10.0), (1000.0, 100.0), (1000.0, 1000.0)] {
                // p(k): k of n at the line. p(k) = p(0) n! / (n-k)! (demand / think)^k
                let mut weights = vec![1.0];
                for k in 0..customers {
                    weights.push(weights[k] * (customers - k) as f64 * demand / think);
                }
                let idle = weights[0] / weights.iter().sum::<f64>();
                let expected = customers as f64 * demand / (1.0 - idle);
                let cycles = network(customers, think, &[demand]).solve().cycles;
                assert!(
                    (cycles / expected - 1.0).abs() < 1e-9,
                    "{cycles} {expected}"
                );
            }
        }
    }

    /// Of k equal lines without think time, n customers take (n + k - 1) demands.
    #[test]
    fn balanced_lines_have_a_closed_form() {
        let pass = network(12, 0.0, &[50.0; 4]).solve();
        assert!((pass.cycles - 50.0 * 15.0).abs() < 1e-6, "{pass:?}");
        assert!((pass.waiting - 50.0 * 11.0).abs() < 1e-6, "{pass:?}");
        let same = Network {
            stations: vec![Station {
                demand: 50.0,
                lines: 4.0,
            }],
            ..network(12, 0.0, &[])
        };
        assert_eq!(same.solve(), pass);
    }

    #[test]
    fn a_saturated_line_adds_its_demand_for_each_cpu() {
        let pass = |customers| network(customers, 2000.0, &[100.0, 3.0]).solve();
        let more = pass(65).cycles - pass(64).cycles;
        assert!((more - 100.0).abs() < 1e-3, "{more}");
        assert!(pass(64).busiest > 0.999 && pass(64).busiest <= 1.0 + 1e-9);
        for customers in 1..70 {
            let pass = pass(customers);
            assert!(pass.cycles >= pass.bound - 1e-9, "{pass:?}");
            assert!(pass.busiest <= 1.0 + 1e-9, "{pass:?}");
        }
    }

    #[test]
    fn one_cpu_or_no_line_waits_for_nobody() {
        assert_eq!(network(1, 10.0, &[5.0]).solve().waiting, 0.0);
        let pass = network(8, 10.0, &[]).solve();
        assert_eq!((pass.cycles, pass.waiting, pass.busiest), (10.0, 0.0, 0.0));
        let nothing = network(0, 0.0, &[]).solve();
        assert_eq!((nothing.cycles, nothing.busiest), (0.0, 0.0));
    }

    #[test]
    fn cpus_count_by_their_share_of_the_work() {
        assert_eq!(customers(&[100; 8].map(Instructions)), 8);
        assert_eq!(customers(&[100, 1, 1, 1].map(Instructions)), 1);
        assert_eq!(customers(&[100, 100, 3, 0].map(Instructions)), 2);
        assert_eq!(customers(&[0, 0].map(Instructions)), 0);
        assert_eq!(customers(&[].map(Instructions)), 0);
    }
}
