/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flags - a flag that every thread sets though it is set, with the published fix under FIXED; and a
 * control, a flag whose value changes.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: flags CASE [ROUNDS [THREADS]]
 */
#include <stdio.h>
#include <string.h>

#include "../known/threads.h"

#define ROUNDS 20000

/* pinned_flag: each thread notes that there is something pinned. */
static volatile int has_pinned;

static void pin(const struct work *work)
{
	volatile long pinned = 0;
	long round;

	for (round = 0; round < work->rounds; round++) {
#ifdef FIXED
		if (!has_pinned)
#endif
			has_pinned = 1;
		pinned++;
	}
}

static int pinned_flag(struct work work)
{
	work_in_threads(&work, pin);
	return !has_pinned;
}

/* control_phase: each store changes the flag. */
static volatile long phase;

static void alternate(const struct work *work)
{
	long round;

	for (round = 0; round < work->rounds; round++)
		phase = round * 16 + work->thread;
}

static int control_phase(struct work work)
{
	work_in_threads(&work, alternate);
	return !phase;
}

static const struct {
	const char *name;
	int (*run)(struct work work);
} all[] = {
	{ "pinned_flag", pinned_flag },
	{ "control_phase", control_phase },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]))
			return all[i].run(work_from(argc - 1, argv + 1, ROUNDS));
	fprintf(stderr, "usage: flags CASE [ROUNDS [THREADS]]\n");
	return 2;
}
