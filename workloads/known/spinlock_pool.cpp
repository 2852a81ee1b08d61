// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * spinlock_pool - sixteen of a pool's spinlocks share a line, whatever objects they guard (Boost).
 * Source: T. Liu et al., PREDATOR, PPoPP 2014; stackoverflow.com/questions/11037655, 2012; the fix gives each lock a line.
 *
 * Where it is weak: a guarded object is one number, so the locks are most of the work.
 */
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "threads.h"

namespace detail {

#ifdef FIXED
struct alignas(64) spinlock {
#else
struct spinlock {
#endif
	std::atomic<int> v_;

	void lock()
	{
		while (v_.exchange(1, std::memory_order_acquire))
			__builtin_ia32_pause();
	}

	void unlock()
	{
		v_.store(0, std::memory_order_release);
	}
};

template <int M> class spinlock_pool {
	static spinlock pool_[41];

public:
	static spinlock &spinlock_for(const void *pv)
	{
		return pool_[reinterpret_cast<std::size_t>(pv) % 41];
	}

	struct scoped_lock {
		spinlock &sp_;

		explicit scoped_lock(const void *pv) : sp_(spinlock_for(pv))
		{
			sp_.lock();
		}

		~scoped_lock()
		{
			sp_.unlock();
		}
	};
};

template <int M> spinlock spinlock_pool<M>::pool_[41];

} // namespace detail

/* A line for itself, so that only the locks share lines. */
struct alignas(128) guarded {
	long value;
};

static guarded objects[THREADS_MAX];

static void use_objects(const struct work *work)
{
	guarded *own = &objects[work->thread];

	for (long round = 0; round < work->rounds; round++) {
		detail::spinlock_pool<2>::scoped_lock lock(own);
		own->value++;
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 60000);

	work_in_threads(&work, use_objects);
	return objects[0].value != work.rounds;
}
