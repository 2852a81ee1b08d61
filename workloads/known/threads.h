/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that start their work together: the only thing that the programs of this folder share. */
#ifndef LINEMATE_KNOWN_THREADS_H
#define LINEMATE_KNOWN_THREADS_H

#include <pthread.h>
#include <stdlib.h>

/* What a thread is told. */
struct work {
	int thread;
	int threads;
	long rounds;
};

#define THREADS_MAX 64

static pthread_barrier_t work_starts;
static void (*work_body)(const struct work *work);

static void *work_thread(void *argument)
{
	pthread_barrier_wait(&work_starts);
	work_body((const struct work *)argument);
	return NULL;
}

/* ROUNDS [THREADS], or the defaults. */
static inline struct work work_from(int count, char **arguments, long rounds)
{
	struct work work = { 0, 4, rounds };

	if (count > 1)
		work.rounds = atol(arguments[1]);
	if (count > 2)
		work.threads = atoi(arguments[2]);
	if (work.rounds < 1 || work.threads < 1 || work.threads > THREADS_MAX)
		exit(2);
	return work;
}

/* Runs body in that many threads at once; returns when all have ended. */
static inline void work_in_threads(const struct work *all, void (*body)(const struct work *work))
{
	static struct work works[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	int i;

	work_body = body;
	pthread_barrier_init(&work_starts, NULL, (unsigned int)all->threads);
	for (i = 0; i < all->threads; i++) {
		works[i] = *all;
		works[i].thread = i;
		if (pthread_create(&threads[i], NULL, work_thread, &works[i]))
			exit(2);
	}
	for (i = 0; i < all->threads; i++)
		pthread_join(threads[i], NULL);
}

#endif
