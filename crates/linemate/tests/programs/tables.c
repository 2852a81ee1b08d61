// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A table that code accesses all over, in a block from an allocator that the program brings, under
 * one of the names that jemalloc's functions have in programs.
 */
#include <stddef.h>
#include <stdio.h>

#define ENTRIES (1u << 18)
#define ROUNDS 100000u

static char arena[4 << 20] __attribute__((aligned(64)));
static size_t used;

__attribute__((noinline)) void *_rjem_mallocx(size_t size, int flags)
{
	void *block = arena + used;

	used += (size + 15) & ~(size_t)15;
	return flags ? NULL : block;
}

int main(void)
{
	unsigned int *table = _rjem_mallocx(ENTRIES * sizeof(*table), 0);
	unsigned int i;

	for (i = 0; i < ROUNDS; i++)
		table[i * 2654435761u % ENTRIES] += i;
	printf("%u\n", table[0]);
	return 0;
}
