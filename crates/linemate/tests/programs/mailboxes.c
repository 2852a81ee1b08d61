/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each thread counts in an object of its own and posts to the next thread's, so every CPU does
 * everything to the type: only an object's owner and the others use different members. A fifth
 * object has one writer, and its readers use one of its members alone.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS = 4, ROUNDS = 10000 };

struct worker {
	_Alignas(64) atomic_long inbox;
	long done;
	long seen;
};

struct progress {
	atomic_long shown;
	long steps;
};

static struct worker *workers[WORKERS];
static struct progress *progress;
static pthread_barrier_t start;

static void *work(void *arg)
{
	int me = (int)(long)arg;
	struct worker *own = workers[me], *next = workers[(me + 1) % WORKERS];

	pthread_barrier_wait(&start);
	for (int i = 0; i < ROUNDS; i++) {
		*(volatile long *)&own->done += 1;
		if (i % 16 == 0)
			own->seen = atomic_load_explicit(&own->inbox, memory_order_relaxed);
		if (i % 4 == 0)
			atomic_fetch_add_explicit(&next->inbox, 1, memory_order_relaxed);
	}
	pthread_barrier_wait(&start);
	for (int i = 0; i < ROUNDS; i++) {
		if (me != 0) {
			atomic_load_explicit(&progress->shown, memory_order_relaxed);
			continue;
		}
		*(volatile long *)&progress->steps += 1;
		if (i % 4 == 0)
			atomic_store_explicit(&progress->shown, i, memory_order_relaxed);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[WORKERS];

	pthread_barrier_init(&start, NULL, WORKERS);
	/* The first block of glibc's heap starts within a line. */
	progress = malloc(sizeof(*progress));
	*progress = (struct progress){ 0 };
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = aligned_alloc(64, sizeof(*workers[i]));
		*workers[i] = (struct worker){ 0 };
	}
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
