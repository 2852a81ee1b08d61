// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * flags - a flag in an object that every thread sets though it is set, with the published fix under
 * FIXED.
 *
 * Where it is weak: it is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: flags CASE [ROUNDS [THREADS]]
 */
#include <atomic>
#include <cstdio>
#include <cstring>

#include "../known/threads.h"

namespace {

constexpr long ROUNDS = 20000;

/* dirty_flag: each thread marks the page that it writes to. */
struct Page {
	std::atomic<bool> dirty{ false };
	char bytes[200] = {};
};

Page *page;

void write_page(const struct work *work)
{
	volatile char *own = &page->bytes[80 + (work->thread & 1) * 64];

	for (long round = 0; round < work->rounds; round++) {
#ifdef FIXED
		if (!page->dirty.load(std::memory_order_relaxed))
#endif
			page->dirty.store(true, std::memory_order_relaxed);
		(void)*own;
	}
}

int dirty_flag(struct work work)
{
	page = new Page;
	work_in_threads(&work, write_page);
	return !page->dirty;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc > 1 && !std::strcmp(argv[1], "dirty_flag"))
		return dirty_flag(work_from(argc - 1, argv + 1, ROUNDS));
	std::fprintf(stderr, "usage: flags CASE [ROUNDS [THREADS]]\n");
	return 2;
}
