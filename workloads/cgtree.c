// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * cgtree - workers that compute and sleep by turns in the leaves of a tree of cgroups.
 *
 * Finds the leaves below a cgroup folder (cgtree.sh makes such a tree, with CPU
 * quotas), starts WORKERS processes in each, lets all begin together and ends
 * when each has done its ROUNDS: spin for a while, sleep for a while. Spinning
 * uses up quotas, so groups are throttled and unthrottled; sleeping makes tasks
 * leave and enter the run queues of every level of the tree: the paths that walk
 * cfs_rq and sched_entity of task groups and write the shared fields of
 * struct task_group.
 *
 * With -f each worker has memory of its own that it goes through, line by line,
 * in each round, as a program's data goes through the caches between two visits
 * of the scheduler. Like the three matrices of a worker of schbench: two thirds are
 * read, the rest is written.
 *
 * With -m a leaf's workers are threads of one process, and wake each other as those
 * of schbench do: after its work a worker puts itself on the list of a thread that
 * only hands out work, wakes that thread, and waits until that one wakes it.
 *
 * Starting and ending a thousand processes is more work for the kernel than what
 * is looked at. -p starts the workers and leaves them running, for a set-up script:
 * what is recorded then is their steady state, for as long as any command waits.
 *
 * Where it is weak: without -f the spin touches no memory, all workers do the
 * same, and a real server's leaves are neither equally busy nor in step.
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define WORKERS_MAX	1000
#define ROUNDS_MAX	1000000
#define MICROSECONDS_MAX 10000000
#define LEAVES_MAX	4096
#define FOOTPRINT_MAX	1048576
#define LINE_BYTES	64
#define SPINS_MAX	1000000
#define DEPTH_MAX	32	/* open folders; deeper trees are walked too, only slower */

struct options {
	const char *root;
	long workers;
	long rounds;
	long spin_us;
	long sleep_us;
	long footprint;		/* KiB */
	long spins;		/* between two looks at the clock */
	bool leave;		/* the workers running */
	bool messenger;		/* in each leaf, which wakes the workers */
};

/* A thread that hands out work; the futex is 1 once there is some. */
struct messenger {
	struct worker *_Atomic waiting;
	atomic_int called;
	atomic_long done;	/* workers that have had all their rounds */
};

struct worker {
	const struct options *options;
	char *memory;
	struct messenger *messenger;	/* NULL: nobody wakes it */
	struct worker *next;		/* of those that wait */
	atomic_int called;
};

/* nftw() passes no context to its callback. */
static char *leaves[LEAVES_MAX];
static size_t leaf_count;

/* Folders come after their children here, so a folder is a leaf unless the last leaf lies in it. */
static bool holds_last_leaf(const char *path)
{
	size_t length = strlen(path);

	return leaf_count && !strncmp(leaves[leaf_count - 1], path, length) &&
	       leaves[leaf_count - 1][length] == '/';
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)walk;
	if (kind != FTW_DP || holds_last_leaf(path))
		return 0;
	if (leaf_count == LEAVES_MAX)
		die("%s: more than %d leaves", path, LEAVES_MAX);
	leaves[leaf_count] = strdup(path);
	if (!leaves[leaf_count])
		die("no memory for the name of a leaf");
	leaf_count++;
	return 0;
}

static int compare_names(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static void find_leaves(const char *root)
{
	if (nftw(root, visit, DEPTH_MAX, FTW_DEPTH | FTW_PHYS))
		die("%s: %s", root, strerror(errno));
	/* A folder's order is the file system's business; the same run needs the same order. */
	qsort(leaves, leaf_count, sizeof(*leaves), compare_names);
}

static void enter(const char *leaf)
{
	char path[PATH_MAX];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/cgroup.procs", leaf) >= (int)sizeof(path))
		die("%s: the path is too long", leaf);
	file = fopen(path, "w");
	/* Writing 0 moves the writer. */
	if (!file || fputs("0", file) == EOF || fclose(file))
		die("%s: %s", path, strerror(errno));
}

/* Touches no memory, unlike a look at the clock, which is a system call. */
static void compute(long times)
{
	while (times--)
		__asm__ volatile("");
}

/* By CPU time, not by the clock: time spent throttled is not work done. */
static void spin(const struct options *options)
{
	/* Equal without threads. There the process's stays: the kernel reads it by other code. */
	clockid_t clock = options->messenger ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
	struct timespec start, now;

	clock_gettime(clock, &start);
	do {
		compute(options->spins);
		clock_gettime(clock, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000L +
		 (now.tv_nsec - start.tv_nsec) / 1000 < options->spin_us);
}

static void wake(atomic_int *called)
{
	if (!atomic_exchange(called, 1))
		syscall(SYS_futex, called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_for_call(atomic_int *called)
{
	while (!atomic_exchange(called, 0))
		syscall(SYS_futex, called, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void ask_for_work(struct worker *worker)
{
	struct messenger *messenger = worker->messenger;

	worker->next = atomic_load(&messenger->waiting);
	while (!atomic_compare_exchange_weak(&messenger->waiting, &worker->next, worker))
		;
	wake(&messenger->called);
	wait_for_call(&worker->called);
}

static void hand_out_work(struct messenger *messenger, long workers)
{
	while (atomic_load(&messenger->done) < workers) {
		struct worker *worker, *next;

		wait_for_call(&messenger->called);
		for (worker = atomic_exchange(&messenger->waiting, NULL); worker; worker = next) {
			/* Once woken, it may be on the list again. */
			next = worker->next;
			wake(&worker->called);
		}
	}
}

/* A load from each line of two thirds, a store to each line of the rest. */
static void touch(volatile char *memory, size_t bytes, char value)
{
	size_t read = bytes / 3 * 2;
	size_t i;

	for (i = 0; i < read; i += LINE_BYTES)
		(void)memory[i];
	for (; i < bytes; i += LINE_BYTES)
		memory[i] = value;
}

static char *make_footprint(size_t bytes)
{
	char *memory = NULL;

	if (bytes && posix_memalign((void **)&memory, LINE_BYTES, bytes))
		die("no memory for a working set of %zu bytes", bytes);
	/* Pages come now, not while the workers run. */
	if (bytes)
		memset(memory, 1, bytes);
	return memory;
}

static void rounds(struct worker *worker)
{
	const struct options *options = worker->options;
	size_t bytes = (size_t)options->footprint * 1024;
	const struct timespec pause = {
		.tv_sec = options->sleep_us / 1000000,
		.tv_nsec = options->sleep_us % 1000000 * 1000,
	};
	long i;

	for (i = 0; options->leave || i < options->rounds; i++) {
		touch(worker->memory, bytes, (char)i);
		spin(options);
		if (worker->messenger)
			ask_for_work(worker);
		nanosleep(&pause, NULL);
	}
}

static void *work_as_thread(void *data)
{
	struct worker *worker = data;

	rounds(worker);
	atomic_fetch_add(&worker->messenger->done, 1);
	wake(&worker->messenger->called);
	return NULL;
}

static void work_as_threads(struct worker *workers, long count)
{
	struct messenger messenger = { 0 };
	pthread_t *threads = calloc(count, sizeof(*threads));
	long i;

	if (!threads)
		die("no memory for %ld threads", count);
	for (i = 0; i < count; i++) {
		workers[i].messenger = &messenger;
		check(pthread_create(&threads[i], NULL, work_as_thread, &workers[i]), "thread");
	}
	hand_out_work(&messenger, count);
	for (i = 0; i < count; i++)
		check(pthread_join(threads[i], NULL), "join");
	free(threads);
}

/* One process: one worker, or with a messenger all of the leaf. */
static void work(const struct options *options, const char *leaf, int gate)
{
	long count = options->messenger ? options->workers : 1;
	struct worker *workers = calloc(count, sizeof(*workers));
	char unused;
	long i;

	if (!workers)
		die("no memory for %ld workers", count);
	for (i = 0; i < count; i++) {
		workers[i].options = options;
		workers[i].memory = make_footprint((size_t)options->footprint * 1024);
	}

	enter(leaf);
	/* Ends when the parent closes its end: all start together. */
	while (read(gate, &unused, 1) < 0 && errno == EINTR)
		;
	if (options->messenger)
		work_as_threads(workers, count);
	else
		rounds(workers);
}

static const char usage[] =
	"usage: cgtree [-pm] [-w WORKERS] [-i ROUNDS] [-b MICROSECONDS] [-s MICROSECONDS]\n"
	"              [-n TIMES] [-f KIB] CGROUP\n"
	"  -w WORKERS       processes per leaf (default 2)\n"
	"  -i ROUNDS        times that each worker spins and sleeps (default 20)\n"
	"  -b MICROSECONDS  CPU time of each spin (default 300)\n"
	"  -n TIMES         passes of an empty loop between two looks at the clock while it spins\n"
	"                   (default 0)\n"
	"  -s MICROSECONDS  length of each sleep (default 200)\n"
	"  -f KIB           memory that each worker goes through in each round (default 0)\n"
	"  -m               the workers of a leaf are threads, woken by one thread more\n"
	"  -p               start the workers, leave them running without a last round, and end\n"
	"  CGROUP           folder of the tree's root, made by cgtree.sh\n";

static struct options parse(int argc, char **argv)
{
	struct options options = { .workers = 2, .rounds = 20, .spin_us = 300, .sleep_us = 200 };
	int option;

	while ((option = getopt(argc, argv, "w:i:b:n:s:f:pmh")) != -1) {
		switch (option) {
		case 'w':
			options.workers = parse_number("-w", optarg, 1, WORKERS_MAX);
			break;
		case 'i':
			options.rounds = parse_number("-i", optarg, 1, ROUNDS_MAX);
			break;
		case 'b':
			options.spin_us = parse_number("-b", optarg, 0, MICROSECONDS_MAX);
			break;
		case 'n':
			options.spins = parse_number("-n", optarg, 0, SPINS_MAX);
			break;
		case 's':
			options.sleep_us = parse_number("-s", optarg, 0, MICROSECONDS_MAX);
			break;
		case 'f':
			options.footprint = parse_number("-f", optarg, 0, FOOTPRINT_MAX);
			break;
		case 'p':
			options.leave = true;
			break;
		case 'm':
			options.messenger = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs(usage, stderr);
			exit(EXIT_ERROR);
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		exit(EXIT_ERROR);
	}
	options.root = argv[optind];
	return options;
}

static void start_workers(const struct options *options, const int gate[2])
{
	long processes = options->messenger ? 1 : options->workers;
	size_t leaf;
	long process;

	for (leaf = 0; leaf < leaf_count; leaf++) {
		for (process = 0; process < processes; process++) {
			pid_t pid = fork();

			if (pid < 0)
				die("fork: %s", strerror(errno));
			if (pid == 0) {
				close(gate[1]);
				work(options, leaves[leaf], gate[0]);
				_exit(EXIT_SUCCESS);
			}
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	long failed = 0;
	int gate[2];
	int status;

	find_leaves(options.root);
	if (pipe(gate))
		die("pipe: %s", strerror(errno));
	start_workers(&options, gate);
	close(gate[1]);
	if (options.leave)
		return EXIT_SUCCESS;
	while (wait(&status) > 0)
		failed += status != 0;
	if (failed)
		die("%ld workers failed", failed);
	printf("cgtree: %zu leaves, %ld workers each, %ld rounds\n", leaf_count, options.workers,
	       options.rounds);
	return EXIT_SUCCESS;
}
