// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A server that forks its workers, which share what it has mapped: a board with a slot for each,
 * and a number for each. The address of a slot is computed, so no pointer says what is there.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 4
#define ROUNDS 10000

struct slot {
	volatile int state;
	volatile long served;
};

struct board {
	int limit;
	atomic_int running;
	struct slot slots[WORKERS];
};

struct job {
	long rest[4];
	volatile long done[WORKERS];
};

struct lap {
	int first;
	volatile int count;
	int last;
};

static struct board *board;
static struct lap *laps;
static volatile long *totals;
static __thread struct job *current;

static void *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Nothing but the thread's pointer, to which an index is added, says what this is. */
static __attribute__((noinline)) void finish(int worker)
{
	current->done[worker]++;
}

/* An element of 12 bytes: the index is no register's scale. */
static __attribute__((noinline)) void lap(int worker)
{
	laps[worker].count++;
}

static void work(int worker)
{
	current = calloc(1, sizeof(*current));
	atomic_fetch_add(&board->running, 1);
	while (atomic_load(&board->running) < board->limit)
		;
	for (int i = 0; i < ROUNDS; i++) {
		board->slots[worker].served++;
		totals[worker]++;
	}
	for (int i = 0; i < ROUNDS; i++)
		finish(worker);
	for (int i = 0; i < ROUNDS; i++)
		lap(worker);
}

int main(void)
{
	board = map(sizeof(*board));
	totals = map(WORKERS * sizeof(*totals));
	laps = calloc(WORKERS, sizeof(*laps));
	if (board == MAP_FAILED || totals == MAP_FAILED || !laps)
		return 1;
	board->limit = WORKERS;
	for (int i = 0; i < WORKERS; i++) {
		pid_t worker = fork();

		if (worker < 0)
			return 1;
		if (worker == 0) {
			work(i);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	munmap((void *)totals, WORKERS * sizeof(*totals));
	return 0;
}
