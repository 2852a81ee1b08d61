// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A table that code accesses all over, in a block from an allocator that the program brings, under
 * one of the names that jemalloc's functions have in programs. What the allocator notes for itself,
 * and a buffer that a file is read into, are in mappings of their own.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES (1u << 18)
#define ROUNDS 100000u
#define MAPPED 4096

static char arena[4 << 20] __attribute__((aligned(64)));
static size_t used;
static unsigned long *notes;

static void *mapped(void)
{
	return mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) void *_rjem_mallocx(size_t size, int flags)
{
	void *block = arena + used;

	used += (size + 15) & ~(size_t)15;
	if (!notes)
		notes = mapped();
	*notes += size;
	return flags ? NULL : block;
}

int main(int argc, char **argv)
{
	unsigned int *table = _rjem_mallocx(ENTRIES * sizeof(*table), 0);
	int file = open(argv[0], O_RDONLY);
	unsigned int i;

	if (argc != 1 || read(file, mapped(), MAPPED) != MAPPED)
		return 1;
	for (i = 0; i < ROUNDS; i++)
		table[i * 2654435761u % ENTRIES] += i;
	printf("%u\n", table[0]);
	return 0;
}
