// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Four threads, each on a CPU of its own and all at once, count in what nobody else uses: an
 * element of an array, one of an array inside a struct, a number in an array of them, one in an
 * array on the stack of main(), and a small block of malloc. -DPADDED gives each of these lines of
 * its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 4000
#define WAIT 500
#define LINE 64

#ifdef PADDED
#define OWN_LINE _Alignas(LINE)
#define BLOCK aligned_alloc(LINE, LINE)
#define LONGS (LINE / sizeof(long))
#else
#define OWN_LINE
#define BLOCK malloc(sizeof(struct own_box))
#define LONGS 1
#endif

struct own_slot {
	OWN_LINE volatile long count;
	long limit;
};

struct own_box {
	volatile long count;
	long limit;
};

struct own_cell {
	OWN_LINE volatile long seen;
};

struct own_pool {
	long size;
	struct own_cell cells[THREADS];
};

static struct own_slot slots[THREADS];
static struct own_pool pool;
static struct own_box *boxes[THREADS];
static OWN_LINE volatile long own_numbers[THREADS][LONGS];
static volatile long *sums;
static atomic_int waiting = THREADS;

static void *thread(void *p)
{
	long id = (long)p;
	struct own_box *box = boxes[id];
	struct own_slot *slot = &slots[id];
	volatile long *sum = &sums[(size_t)id * LONGS];
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET(id, &own);
	if (pthread_setaffinity_np(pthread_self(), sizeof(own), &own))
		abort();
	/* Who sleeps here would be woken when the first are done. */
	atomic_fetch_sub(&waiting, 1);
	while (atomic_load(&waiting))
		;
	for (long i = 0; i < ROUNDS; i++) {
		slot->count++;
		box->count++;
		pool.cells[id].seen++;
		own_numbers[id][0]++;
		(*sum)++;
		/* Time passes, so that all threads are at it together for many of their turns. */
		for (int wait = 0; wait < WAIT; wait++)
			__asm__ volatile("");
	}
	return NULL;
}

int main(void)
{
	OWN_LINE volatile long own_sums[THREADS * LONGS];
	pthread_t threads[THREADS];
	long sum = 0;

	for (size_t i = 0; i < THREADS * LONGS; i++)
		own_sums[i] = 0;
	sums = own_sums;
	for (int i = 0; i < THREADS; i++) {
		boxes[i] = BLOCK;
		if (!boxes[i])
			abort();
		boxes[i]->count = 0;
	}
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += slots[i].count + boxes[i]->count + pool.cells[i].seen +
		       own_numbers[i][0] + own_sums[(size_t)i * LONGS];
	}
	/* Compilers warn of a pointer to this frame that outlives it. */
	sums = NULL;
	return sum != 5l * THREADS * ROUNDS;
}
