// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * aimix - a stand-in for the compute mix of the AIM7 multi-user benchmark.
 *
 * AIM7 starts one process for each user, all at once. Every user does the jobs
 * of a mix without a pause between them, in an order of its own, and the
 * benchmark's figure is jobs per minute. The compute mix is mostly arithmetic
 * on integers and floating-point numbers, sorting, sieving, matrices and
 * copying memory, with some pages touched for the first time, short programs
 * run and waited for, and messages. There are far more users than CPUs, and
 * all belong to one task group, so the scheduler keeps dividing every CPU
 * among many tasks of the same group.
 *
 * Here a user does J jobs that a generator seeded with the user's number picks
 * from eight kinds. A job's size is a few steps of its kind times SCALE.
 *
 * Where it is weak: written anew from a description, not AIM's programs; no
 * job uses a disk; the weights are simple ones; a program that is run is only
 * a child that ends at once, because copying address spaces would be most of
 * a recording; and the jobs are much shorter than AIM's, so tasks come and go
 * more often for each tick.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "children.h"
#include "common.h"

#define USERS_MAX	100000
#define JOBS_MAX	1000000
#define SCALE_MAX	1000000

#define NUMBERS		512	/* that one step sorts or sieves */
#define MATRIX		16	/* rows and columns */
#define PAGES		4	/* that one page job touches */
#define MESSAGE		64	/* bytes */

struct options {
	long users;
	long jobs;
	long scale;
};

/* Results end here, or the compiler would leave the work out. */
static volatile uint64_t sink;

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void add_integers(long scale, uint32_t *random)
{
	uint64_t sum = *random;
	long i;

	for (i = 0; i < scale * 4000; i++)
		sum = sum * 5 + i;
	sink = sum;
}

static void multiply_doubles(long scale, uint32_t *random)
{
	double product = *random;
	long i;

	for (i = 0; i < scale * 2000; i++)
		product = product * 1.0000001 + 0.5;
	sink = (uint64_t)product;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sort_numbers(long scale, uint32_t *random)
{
	uint32_t numbers[NUMBERS];
	long i, step;

	for (step = 0; step < (scale + 3) / 4; step++) {
		for (i = 0; i < NUMBERS; i++)
			numbers[i] = next_random(random);
		qsort(numbers, NUMBERS, sizeof(*numbers), compare);
		sink = numbers[NUMBERS / 2];
	}
}

static void sieve(long scale, uint32_t *random)
{
	bool composite[NUMBERS * 8];
	long step, i, k;

	for (step = 0; step < scale; step++) {
		memset(composite, 0, sizeof(composite));
		for (i = 2; i * i < NUMBERS * 8; i++)
			for (k = i * i; !composite[i] && k < NUMBERS * 8; k += i)
				composite[k] = true;
		sink = composite[*random % (NUMBERS * 8)];
	}
}

static void multiply_matrices(long scale, uint32_t *random)
{
	double a[MATRIX][MATRIX], b[MATRIX][MATRIX], c[MATRIX][MATRIX] = { 0 };
	long step, i, j, k;

	for (i = 0; i < MATRIX; i++) {
		for (j = 0; j < MATRIX; j++) {
			a[i][j] = next_random(random) % 100;
			b[i][j] = next_random(random) % 100;
		}
	}
	for (step = 0; step < scale; step++)
		for (i = 0; i < MATRIX; i++)
			for (j = 0; j < MATRIX; j++)
				for (k = 0; k < MATRIX; k++)
					c[i][j] += a[i][k] * b[k][j];
	sink = (uint64_t)c[MATRIX / 2][MATRIX / 2];
}

static void touch_pages(long scale, uint32_t *random)
{
	size_t page = sysconf(_SC_PAGESIZE);
	unsigned char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long i;

	if (memory == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	for (i = 0; i < PAGES; i++)
		memory[i * page] = (unsigned char)*random;
	for (i = 0; i < scale; i++)
		memmove(memory + page, memory, page);
	munmap(memory, PAGES * page);
}

static void run_child(long scale, uint32_t *random)
{
	pid_t pid = vfork();
	int status;

	if (pid < 0)
		die("vfork: %s", strerror(errno));
	if (pid == 0)
		_exit(EXIT_SUCCESS);
	add_integers(scale, random);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
}

static void send_messages(long scale, uint32_t *random)
{
	char message[MESSAGE] = { (char)*random };
	int ends[2];
	long i;

	if (pipe(ends))
		die("pipe: %s", strerror(errno));
	for (i = 0; i < (scale + 3) / 4; i++)
		if (write(ends[1], message, MESSAGE) != MESSAGE ||
		    read(ends[0], message, MESSAGE) != MESSAGE)
			die("a message of %d bytes was lost", MESSAGE);
	close(ends[0]);
	close(ends[1]);
}

/* The mix: each job is as likely as its share of the lines. */
static void (*const mix[])(long scale, uint32_t *random) = {
	add_integers,	   add_integers, add_integers,	  multiply_doubles,
	multiply_doubles,  sort_numbers, sort_numbers,	  sieve,
	multiply_matrices, sieve,	 multiply_matrices, add_integers,
	touch_pages,	   touch_pages,	 run_child,	  send_messages,
};

/* A user's whole life, from when the pipe that all wait on is closed. */
static int user(const struct options *options, long number, int start)
{
	uint32_t random = 2654435761u * (uint32_t)(number + 1);
	char none;
	long job;

	if (read(start, &none, 1) != 0)
		return EXIT_FAILURE;
	for (job = 0; job < options->jobs; job++)
		mix[next_random(&random) % (sizeof(mix) / sizeof(*mix))](options->scale, &random);
	return EXIT_SUCCESS;
}

static void create_users(const struct options *options, const int *start)
{
	long i;

	for (i = 0; i < options->users; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork of user %ld of %ld: %s", i + 1, options->users, strerror(errno));
		if (pid == 0) {
			close(start[1]);
			_exit(user(options, i, start[0]));
		}
	}
}

static const char usage[] =
	"usage: aimix [-u USERS] [-j JOBS] [-s SCALE]\n"
	"  -u USERS  processes, 1 to 100000 (default 64)\n"
	"  -j JOBS   that each does, 1 to 1000000 (default 16)\n"
	"  -s SCALE  of every job, 1 to 1000000 (default 10: about 200,000 instructions)\n";

static struct options parse(int argc, char **argv)
{
	struct options options = { .users = 64, .jobs = 16, .scale = 10 };
	int option;

	while ((option = getopt(argc, argv, "u:j:s:h")) != -1) {
		switch (option) {
		case 'u':
			options.users = parse_number("-u", optarg, 1, USERS_MAX);
			break;
		case 'j':
			options.jobs = parse_number("-j", optarg, 1, JOBS_MAX);
			break;
		case 's':
			options.scale = parse_number("-s", optarg, 1, SCALE_MAX);
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
	int start[2];
	long failed;

	if (pipe(start))
		die("pipe: %s", strerror(errno));
	create_users(&options, start);
	/* The last writer's end: now every user reads the end of the file and starts. */
	close(start[1]);
	failed = collect_children(options.users);
	if (failed)
		die("%ld of %ld users failed", failed, options.users);
	printf("aimix: %ld users did %ld jobs each\n", options.users, options.jobs);
	return EXIT_SUCCESS;
}
