// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * rtpinned - groups of SCHED_FIFO threads, each group pinned to CPUs of its own.
 *
 * A group stands for one program of a pool (a transcoder, say) that owns a few
 * CPUs and has more threads than CPUs. In each round its leader posts an item
 * per thread, waits for all of them and rests; the others take an item, compute
 * for a moment and hand it on until it has been through all its hops. All
 * threads run at priority 99. While a group computes, its CPUs are overloaded
 * with real-time tasks; CPUs of a group that is just done go idle and ask those
 * for work, though none may leave its own CPUs: the paths that write struct
 * root_domain and its cpupri from every CPU. Leaders rest for different times,
 * so the groups drift against each other.
 *
 * Newer kernels ask only if the set-up script rtpush.sh has switched that on.
 *
 * The work is bounded: per group rounds * (threads - 1) * hops * spin, or less
 * where -s ends it.
 *
 * Where it is weak: the computing is a spin that touches no memory, the threads
 * hold no locks while they compute, and nothing but the groups runs, so the
 * share of scheduling in all work is much larger than in a real pool.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define GROUPS_MAX	1024
#define THREADS_MAX	256
#define CPUS_MAX	256
#define ROUNDS_MAX	100000000
#define SECONDS_MAX	86400
#define SPIN_MAX	100000000

#define HOPS		3	/* threads that each item passes through */
#define REST_NS		100000	/* of group 0's leader after a round */
#define REST_STEP_NS	37000	/* how much longer each next group rests */
#define FIFO_PRIORITY	99

struct options {
	long groups;
	long threads;
	long cpus;
	long rounds;
	long seconds;	/* 0: no limit but the rounds */
	long spin;
};

struct group {
	pthread_mutex_t lock;
	pthread_cond_t work;	/* for the workers: items wait, or none will any more */
	pthread_cond_t done;	/* for the leader: all that it posted is finished */
	long waiting[HOPS + 1];	/* items by hops still to go; [0] counts the finished */
	long posted;
	long index;
	bool closed;		/* the leader posts no more */
	const struct options *options;
};

static bool out_of_time(const struct timespec *start, long seconds)
{
	struct timespec now;

	if (!seconds)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - start->tv_sec >= seconds;
}

/* Returns the hops that the taken item still has to go, or 0 when there will be none. */
static int take_item(struct group *group)
{
	int hops;

	for (;;) {
		for (hops = HOPS; hops > 0; hops--) {
			if (group->waiting[hops]) {
				group->waiting[hops]--;
				return hops;
			}
		}
		if (group->closed)
			return 0;
		check(pthread_cond_wait(&group->work, &group->lock), "pthread_cond_wait");
	}
}

static void compute(long spin)
{
	volatile long i;

	for (i = 0; i < spin; i++)
		;
}

static void *worker(void *argument)
{
	struct group *group = argument;
	int hops;

	check(pthread_mutex_lock(&group->lock), "pthread_mutex_lock");
	while ((hops = take_item(group)) > 0) {
		check(pthread_mutex_unlock(&group->lock), "pthread_mutex_unlock");
		compute(group->options->spin);
		check(pthread_mutex_lock(&group->lock), "pthread_mutex_lock");
		group->waiting[hops - 1]++;
		check(pthread_cond_signal(&group->work), "pthread_cond_signal");
		if (group->waiting[0] == group->posted)
			check(pthread_cond_signal(&group->done), "pthread_cond_signal");
	}
	check(pthread_mutex_unlock(&group->lock), "pthread_mutex_unlock");
	return NULL;
}

static void *leader(void *argument)
{
	struct group *group = argument;
	const struct options *options = group->options;
	const struct timespec rest = {
		.tv_nsec = REST_NS + group->index * REST_STEP_NS,
	};
	struct timespec start;
	long round;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (round = 0; round < options->rounds; round++) {
		check(pthread_mutex_lock(&group->lock), "pthread_mutex_lock");
		group->waiting[HOPS] = options->threads - 1;
		group->posted += options->threads - 1;
		check(pthread_cond_broadcast(&group->work), "pthread_cond_broadcast");
		while (group->waiting[0] < group->posted)
			check(pthread_cond_wait(&group->done, &group->lock), "pthread_cond_wait");
		check(pthread_mutex_unlock(&group->lock), "pthread_mutex_unlock");
		nanosleep(&rest, NULL);
		if (out_of_time(&start, options->seconds))
			break;
	}
	check(pthread_mutex_lock(&group->lock), "pthread_mutex_lock");
	group->closed = true;
	check(pthread_cond_broadcast(&group->work), "pthread_cond_broadcast");
	check(pthread_mutex_unlock(&group->lock), "pthread_mutex_unlock");
	return NULL;
}

static void start_thread(pthread_t *thread, struct group *group, bool leads)
{
	const struct options *options = group->options;
	const struct sched_param priority = { .sched_priority = FIFO_PRIORITY };
	pthread_attr_t attr;
	cpu_set_t cpus;
	long i;
	int error;

	CPU_ZERO(&cpus);
	for (i = 0; i < options->cpus; i++)
		CPU_SET(group->index * options->cpus + i, &cpus);

	check(pthread_attr_init(&attr), "pthread_attr_init");
	check(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED),
	      "pthread_attr_setinheritsched");
	check(pthread_attr_setschedpolicy(&attr, SCHED_FIFO), "pthread_attr_setschedpolicy");
	check(pthread_attr_setschedparam(&attr, &priority), "pthread_attr_setschedparam");
	check(pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus),
	      "pthread_attr_setaffinity_np");
	error = pthread_create(thread, &attr, leads ? leader : worker, group);
	if (error == EPERM)
		die("priority SCHED_FIFO %d is not allowed: run as root", FIFO_PRIORITY);
	check(error, "pthread_create");
	pthread_attr_destroy(&attr);
}

static const char usage[] =
	"usage: rtpinned [-g GROUPS] [-t THREADS] [-p CPUS] [-i ROUNDS] [-s SECONDS] [-w SPIN]\n"
	"  -g GROUPS   groups of threads (default 2)\n"
	"  -t THREADS  threads per group, the leader among them, 3 to 256 (default 8)\n"
	"  -p CPUS     CPUs per group: group 0 has the first CPUS, and so on (default 4)\n"
	"  -i ROUNDS   rounds of work that each leader posts (default 100)\n"
	"  -s SECONDS  post no further round after so many seconds (default: no limit)\n"
	"  -w SPIN     loops of computing per hop (default 3000)\n";

static struct options parse(int argc, char **argv)
{
	struct options options = {
		.groups = 2, .threads = 8, .cpus = 4, .rounds = 100, .spin = 3000,
	};
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int option;

	while ((option = getopt(argc, argv, "g:t:p:i:s:w:h")) != -1) {
		switch (option) {
		case 'g':
			options.groups = parse_number("-g", optarg, 1, GROUPS_MAX);
			break;
		case 't':
			options.threads = parse_number("-t", optarg, 3, THREADS_MAX);
			break;
		case 'p':
			options.cpus = parse_number("-p", optarg, 1, CPUS_MAX);
			break;
		case 'i':
			options.rounds = parse_number("-i", optarg, 1, ROUNDS_MAX);
			break;
		case 's':
			options.seconds = parse_number("-s", optarg, 1, SECONDS_MAX);
			break;
		case 'w':
			options.spin = parse_number("-w", optarg, 0, SPIN_MAX);
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
	if (options.groups * options.cpus > online)
		die("%ld groups of %ld CPUs need %ld CPUs, %ld are online", options.groups,
		    options.cpus, options.groups * options.cpus, online);
	if (options.groups * options.cpus > CPU_SETSIZE)
		die("more than %d CPUs are not supported", CPU_SETSIZE);
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct group *groups = calloc(options.groups, sizeof(*groups));
	pthread_t *threads = calloc(options.groups * options.threads, sizeof(*threads));
	long items = 0;
	long g, t;

	if (!groups || !threads)
		die("no memory for %ld threads", options.groups * options.threads);
	for (g = 0; g < options.groups; g++) {
		groups[g].options = &options;
		groups[g].index = g;
		check(pthread_mutex_init(&groups[g].lock, NULL), "pthread_mutex_init");
		check(pthread_cond_init(&groups[g].work, NULL), "pthread_cond_init");
		check(pthread_cond_init(&groups[g].done, NULL), "pthread_cond_init");
	}
	/* Leaders last: work starts when everybody is there. */
	for (t = options.threads - 1; t >= 0; t--)
		for (g = 0; g < options.groups; g++)
			start_thread(&threads[g * options.threads + t], &groups[g], t == 0);
	for (t = 0; t < options.groups * options.threads; t++)
		check(pthread_join(threads[t], NULL), "pthread_join");
	for (g = 0; g < options.groups; g++)
		items += groups[g].waiting[0];
	free(threads);
	free(groups);
	printf("rtpinned: %ld groups finished %ld items of %d hops\n", options.groups, items, HOPS);
	return EXIT_SUCCESS;
}
