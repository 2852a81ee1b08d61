// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * sleepers - many processes that do nothing but sleep for a short while, over and over.
 *
 * N child processes wait on one process-shared condition variable, start
 * together, and each sleeps MS milliseconds 2^LOG2 times. Nearly all of the
 * kernel's work is then waking tasks, choosing the next one and looking for
 * an idle CPU: the paths that read struct rq of every CPU.
 *
 * Where it is weak: nobody shares user memory, nobody computes, and all
 * sleeps are equally long, so timers expire in bursts and the load is far
 * more regular than a server's. It says nothing about throughput.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "children.h"
#include "common.h"

#define CHILDREN_MAX	100000
#define LOG2_MAX	30
#define SLEEP_MS_MAX	60000

/* Lives in memory that all children share. */
struct start_line {
	pthread_mutex_t lock;
	pthread_cond_t ready;	/* the parent waits: one more child has arrived */
	pthread_cond_t go;	/* the children wait: all have arrived */
	long arrived;
	bool open;
};

struct options {
	long children;
	long sleep_ms;
	long loops_log2;
};

static struct start_line *start_line_create(void)
{
	pthread_mutexattr_t mutex_attr;
	pthread_condattr_t cond_attr;
	struct start_line *line;

	line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (line == MAP_FAILED)
		die("mmap: %s", strerror(errno));

	check(pthread_mutexattr_init(&mutex_attr), "pthread_mutexattr_init");
	check(pthread_mutexattr_setpshared(&mutex_attr, PTHREAD_PROCESS_SHARED),
	      "pthread_mutexattr_setpshared");
	check(pthread_mutex_init(&line->lock, &mutex_attr), "pthread_mutex_init");

	check(pthread_condattr_init(&cond_attr), "pthread_condattr_init");
	check(pthread_condattr_setpshared(&cond_attr, PTHREAD_PROCESS_SHARED),
	      "pthread_condattr_setpshared");
	check(pthread_cond_init(&line->ready, &cond_attr), "pthread_cond_init");
	check(pthread_cond_init(&line->go, &cond_attr), "pthread_cond_init");
	return line;
}

static void start_line_wait(struct start_line *line)
{
	check(pthread_mutex_lock(&line->lock), "pthread_mutex_lock");
	line->arrived++;
	check(pthread_cond_signal(&line->ready), "pthread_cond_signal");
	while (!line->open)
		check(pthread_cond_wait(&line->go, &line->lock), "pthread_cond_wait");
	check(pthread_mutex_unlock(&line->lock), "pthread_mutex_unlock");
}

static void start_line_open(struct start_line *line, long children)
{
	check(pthread_mutex_lock(&line->lock), "pthread_mutex_lock");
	while (line->arrived < children)
		check(pthread_cond_wait(&line->ready, &line->lock), "pthread_cond_wait");
	line->open = true;
	check(pthread_cond_broadcast(&line->go), "pthread_cond_broadcast");
	check(pthread_mutex_unlock(&line->lock), "pthread_mutex_unlock");
}

/* A child's whole life; returns its exit status. */
static int sleep_in_a_loop(struct start_line *line, const struct options *options)
{
	struct timespec pause = {
		.tv_sec = options->sleep_ms / 1000,
		.tv_nsec = options->sleep_ms % 1000 * 1000000L,
	};
	long i;

	start_line_wait(line);
	for (i = 0; i < 1L << options->loops_log2; i++) {
		struct timespec left = pause;

		while (nanosleep(&left, &left))
			if (errno != EINTR)
				return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* Children that wait at a line that will never open have to be ended. */
static void kill_children(const pid_t *pids, long count)
{
	long i;

	for (i = 0; i < count; i++)
		kill(pids[i], SIGKILL);
}

static void start_children(struct start_line *line, const struct options *options, pid_t *pids)
{
	long i;

	for (i = 0; i < options->children; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			int cause = errno;

			kill_children(pids, i);
			die("fork of child %ld of %ld: %s", i + 1, options->children,
			    strerror(cause));
		}
		if (pids[i] == 0)
			_exit(sleep_in_a_loop(line, options));
	}
}

static const char usage[] =
	"usage: sleepers [-m MS] [-l LOG2] [-c CHILDREN]\n"
	"  -m MS        milliseconds of each sleep, 1 to 60000 (default 1)\n"
	"  -l LOG2      each child sleeps 2^LOG2 times, 0 to 30 (default 6)\n"
	"  -c CHILDREN  processes, 1 to 100000 (default 32)\n";

static struct options parse(int argc, char **argv)
{
	struct options options = { .children = 32, .sleep_ms = 1, .loops_log2 = 6 };
	int option;

	while ((option = getopt(argc, argv, "m:l:c:h")) != -1) {
		switch (option) {
		case 'm':
			options.sleep_ms = parse_number("-m", optarg, 1, SLEEP_MS_MAX);
			break;
		case 'l':
			options.loops_log2 = parse_number("-l", optarg, 0, LOG2_MAX);
			break;
		case 'c':
			options.children = parse_number("-c", optarg, 1, CHILDREN_MAX);
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
	struct start_line *line = start_line_create();
	pid_t *pids = calloc(options.children, sizeof(*pids));
	long failed;

	if (!pids)
		die("no memory for %ld process ids", options.children);
	start_children(line, &options, pids);
	start_line_open(line, options.children);
	failed = collect_children(options.children);
	free(pids);
	if (failed)
		die("%ld of %ld children did not finish", failed, options.children);
	printf("sleepers: %ld children slept %ld ms %ld times each\n", options.children,
	       options.sleep_ms, 1L << options.loops_log2);
	return EXIT_SUCCESS;
}
