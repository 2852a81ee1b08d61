// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * together - what a lock guards is on the lock's line, and each taker uses all of it.
 * A control: padding makes two lines travel where one did.
 *
 * Where it is weak: the work between two deposits is always the same, and long. With a short one
 * many wait, and a line for the lock alone does help: they take it from who works on the rest.
 */
#include <stdatomic.h>

#include "../threads.h"

struct account {
	_Alignas(128) atomic_int lock;
	long balance;
	long deposits;
	long last;
};

static struct account account;

static void deposit(const struct work *work)
{
	/* volatile, so that the work is not computed in one go. */
	volatile long own = 0;
	long round;
	int i;

	for (round = 0; round < work->rounds; round++) {
		while (atomic_exchange_explicit(&account.lock, 1, memory_order_acquire))
			__builtin_ia32_pause();
		account.balance += round;
		account.deposits++;
		account.last = round;
		atomic_store_explicit(&account.lock, 0, memory_order_release);
		for (i = 0; i < 1000; i++)
			own += i;
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 500);

	work_in_threads(&work, deposit);
	return account.deposits != work.rounds * work.threads;
}
