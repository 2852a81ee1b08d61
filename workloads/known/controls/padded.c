// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * padded - each thread counts in its own element of an array, each with lines of its own.
 * A control: there is nothing left to pad.
 *
 * Where it is weak: counting is all that the threads do.
 */
#include "../threads.h"

struct statistics {
	_Alignas(128) long requests;
	long bytes;
	long errors;
};

static struct statistics statistics[THREADS_MAX];

static void serve(const struct work *work)
{
	volatile struct statistics *own = &statistics[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++) {
		own->requests++;
		own->bytes += round;
		if (round % 16 == 0)
			own->errors++;
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 10000);

	work_in_threads(&work, serve);
	return statistics[0].requests != work.rounds;
}
