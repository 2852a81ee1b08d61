// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * naps - processes that compute for a while and sleep for a while, in turns.
 *
 * Each of N processes goes through R rounds: it spins for a number of steps,
 * long enough for a scheduler tick to find its CPU busy, then sleeps, long
 * enough for the idle CPU to stop its tick. Every round is one idle entry and
 * one idle exit that nohz's bookkeeping sees: it notes an exit at the first
 * busy tick, not at the wake-up, so processes that only pass messages leave
 * hardly a trace there, however often they wake.
 *
 * Sleeps differ by process and round, so the processes drift against each
 * other and a varying part of the machine is idle at any time.
 *
 * Where it is weak: computing touches no memory and nobody waits for anybody,
 * so idle times are those that were asked for and not those of a service.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define PROCESSES_MAX	10000
#define ROUNDS_MAX	1000000
#define SPIN_MAX	1000000000
#define SLEEP_US_MAX	1000000

struct options {
	long processes;
	long rounds;
	long spin;
	long sleep_us;
};

static void compute(long steps)
{
	/* A volatile counter, or the compiler would leave the loop out. */
	volatile long step;

	for (step = 0; step < steps; step++)
		;
}

/* Half to one and a half of the asked time, by process and round; the same in every run. */
static struct timespec nap(const struct options *options, long process, long round)
{
	long us = options->sleep_us / 2 +
		  options->sleep_us * ((process * 29 + round * 13) % 64) / 64;

	return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

/* A process's whole life; returns its exit status. */
static int work(const struct options *options, long process)
{
	long round;

	for (round = 0; round < options->rounds; round++) {
		struct timespec left = nap(options, process, round);

		while (nanosleep(&left, &left))
			if (errno != EINTR)
				return EXIT_FAILURE;
		compute(options->spin);
	}
	return EXIT_SUCCESS;
}

static void start(const struct options *options, pid_t *pids)
{
	long i, started;

	for (i = 0; i < options->processes; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			int cause = errno;

			for (started = 0; started < i; started++)
				kill(pids[started], SIGKILL);
			die("fork of process %ld of %ld: %s", i + 1, options->processes,
			    strerror(cause));
		}
		if (pids[i] == 0)
			_exit(work(options, i));
	}
}

static long collect(long processes)
{
	long failed = 0;
	int status;

	while (processes > 0) {
		if (wait(&status) < 0) {
			if (errno == EINTR)
				continue;
			die("wait: %s", strerror(errno));
		}
		processes--;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
			failed++;
	}
	return failed;
}

static const char usage[] =
	"usage: naps [-c PROCESSES] [-r ROUNDS] [-s SPIN] [-u MICROSECONDS]\n"
	"  -c PROCESSES     1 to 10000 (default 8)\n"
	"  -r ROUNDS        of computing and sleeping, 1 to 1000000 (default 100)\n"
	"  -s SPIN          steps of computing in a round, 1 to 1000000000 (default 200000)\n"
	"  -u MICROSECONDS  of sleep in a round, on average, 1 to 1000000 (default 10000)\n";

static struct options parse(int argc, char **argv)
{
	struct options options = {
		.processes = 8,
		.rounds = 100,
		.spin = 200000,
		.sleep_us = 10000,
	};
	int option;

	while ((option = getopt(argc, argv, "c:r:s:u:h")) != -1) {
		switch (option) {
		case 'c':
			options.processes = parse_number("-c", optarg, 1, PROCESSES_MAX);
			break;
		case 'r':
			options.rounds = parse_number("-r", optarg, 1, ROUNDS_MAX);
			break;
		case 's':
			options.spin = parse_number("-s", optarg, 1, SPIN_MAX);
			break;
		case 'u':
			options.sleep_us = parse_number("-u", optarg, 1, SLEEP_US_MAX);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs(usage, stderr);
			exit(EXIT_ERROR);
		}
	}
	if (optind != argc)
		die("unexpected argument '%s'", argv[optind]);
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	pid_t *pids = calloc(options.processes, sizeof(*pids));
	long failed;

	if (!pids)
		die("no memory for %ld process ids", options.processes);
	start(&options, pids);
	failed = collect(options.processes);
	free(pids);
	if (failed)
		die("%ld of %ld processes failed", failed, options.processes);
	return EXIT_SUCCESS;
}
