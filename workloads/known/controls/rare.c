// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * rare - threads count in neighbouring elements of one array, but hardly ever.
 * A control: the line is shared falsely, and it costs next to nothing.
 *
 * Where it is weak: the work between two counts is arithmetic on the thread's own numbers.
 */
#include "../threads.h"

#define NUMBERS 4096

struct progress {
	long batches;
	long last;
};

struct numbers {
	_Alignas(128) long values[NUMBERS];
};

static struct progress progress[THREADS_MAX];
static struct numbers *numbers;

static void work_through(const struct work *work)
{
	struct numbers *own = &numbers[work->thread];
	struct progress *mine = &progress[work->thread];
	long round;
	int i;

	for (round = 0; round < work->rounds; round++) {
		for (i = 1; i < NUMBERS; i++)
			own->values[i] += own->values[i - 1] * 3 + round;
		mine->batches++;
		mine->last = own->values[NUMBERS - 1];
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 8);

	numbers = aligned_alloc(128, (size_t)work.threads * sizeof(*numbers));
	if (!numbers)
		return 2;
	__builtin_memset(numbers, 0, (size_t)work.threads * sizeof(*numbers));
	work_in_threads(&work, work_through);
	free(numbers);
	return progress[0].batches != work.rounds;
}
