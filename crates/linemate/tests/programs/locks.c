/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two locks that threads take in turns, one of the library and one of the program's own, which
 * tests before it tries again. What both guard has to move from CPU to CPU with the lock, and the
 * loads of those who wait need the latest value, so no result can be reused. The limit was written
 * once, so it cannot be written less often.
 */
#define _GNU_SOURCE
#include "start.h"

enum { THREADS = 4, ROUNDS = 2000 };

struct ledger {
	_Alignas(64) pthread_mutex_t lock;
	long balance;
	long entries;
};

struct account {
	_Alignas(64) atomic_int lock;
	long balance;
	long limit;
};

static struct ledger ledger = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct account account = { .limit = 1L << 40 };

static void *work(void *arg)
{
	long me = (long)arg;

	start(me - 1, THREADS);
	for (int i = 1; i <= ROUNDS; i++) {
		pthread_mutex_lock(&ledger.lock);
		ledger.balance += me + i;
		ledger.entries++;
		pthread_mutex_unlock(&ledger.lock);

		while (atomic_exchange_explicit(&account.lock, 1, memory_order_acquire))
			while (atomic_load_explicit(&account.lock, memory_order_relaxed))
				__builtin_ia32_pause();
		if (account.balance + i < account.limit)
			account.balance += me + i;
		atomic_store_explicit(&account.lock, 0, memory_order_release);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return account.balance ? EXIT_SUCCESS : EXIT_FAILURE;
}
