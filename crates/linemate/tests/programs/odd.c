// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two threads run code that the program writes when it runs, as a just-in-time compiler does. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 10000

struct counter {
	long hits;
	long misses;
};

static struct counter counter;
static void (*written)(struct counter *counter);

static void *run(void *argument)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		written(&counter);
	return argument;
}

int main(void)
{
	/* lock incq (%rdi); ret */
	static const unsigned char bytes[] = { 0xf0, 0x48, 0xff, 0x07, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t threads[2];
	int i;

	if (page == MAP_FAILED)
		return 1;
	memcpy(page, bytes, sizeof(bytes));
	memcpy(&written, &page, sizeof(written));
	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 1;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", counter.hits);
	return 0;
}
