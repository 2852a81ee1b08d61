// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * true_sharing - all threads push to and pop from one stack: the word that they change is the same.
 * A control: it is alone on its line, and no layout helps.
 *
 * Where it is weak: nodes are the threads' own, so only the stack's head moves.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "../threads.h"

struct stack {
	_Alignas(128) _Atomic uint64_t head;
	uint64_t capacity;
};

static struct stack stack;

static void push_and_pop(const struct work *work)
{
	long round;

	for (round = 0; round < work->rounds; round++) {
		uint64_t head = atomic_load(&stack.head);

		while (!atomic_compare_exchange_weak(&stack.head, &head, head * 31 + 1))
			__builtin_ia32_pause();
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 10000);

	work_in_threads(&work, push_and_pop);
	return stack.head == 0;
}
