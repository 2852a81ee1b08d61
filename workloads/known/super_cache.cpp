// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * super_cache - a cache of one that all threads write, beside a pointer that all read (OpenJDK, class Klass).
 * Source: V. Filanovsky, H. Sane, Netflix Technology Blog, 2022 (JDK-8180450); the first fix puts padding between.
 *
 * Where it is weak: checks are all there is, seven of eight for a class and one for either of two interfaces. The cache
 * itself stays shared.
 */
#include <atomic>
#include <cstdint>

#include "threads.h"

class Klass;

template <class T> struct Array {
	int length_;
	T data_[2];
};

class Klass {
	int layout_helper_;
	uint32_t super_check_offset_;
	void *name_;
#ifdef FIXED
	alignas(64)
#endif
	std::atomic<Klass *> secondary_super_cache_;
#ifdef FIXED
	alignas(64)
#endif
	Array<Klass *> *secondary_supers_;
	Klass *primary_supers_[8];
	void *java_mirror_;
	Klass *super_;

public:
	Klass(Klass *super, Array<Klass *> *supers)
		: layout_helper_(1), super_check_offset_(24), name_(this), secondary_super_cache_(nullptr),
		  secondary_supers_(supers), primary_supers_{ super, this }, java_mirror_(nullptr), super_(super)
	{
	}

	bool is_subclass_of(Klass *k, int depth)
	{
		return primary_supers_[depth] == k;
	}

	bool is_subtype_of(Klass *k)
	{
		if (secondary_super_cache_.load(std::memory_order_relaxed) == k)
			return true;
		for (int i = 0; i < secondary_supers_->length_; i++) {
			if (secondary_supers_->data_[i] == k) {
				secondary_super_cache_.store(k, std::memory_order_relaxed);
				return true;
			}
		}
		return false;
	}
};

static Klass *number, *comparable, *serializable, *integer;

static void check_casts(const struct work *work)
{
	for (long round = 0; round < work->rounds; round++) {
		Klass *interface = round & 8 ? comparable : serializable;
		bool is = round % 8 ? integer->is_subclass_of(number, 0) : integer->is_subtype_of(interface);

		if (!is)
			exit(1);
		/* Another check reads memory again. */
		std::atomic_signal_fence(std::memory_order_seq_cst);
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 40000);

	number = new Klass(nullptr, nullptr);
	comparable = new Klass(nullptr, nullptr);
	serializable = new Klass(nullptr, nullptr);
	integer = new Klass(number, new Array<Klass *>{ 2, { comparable, serializable } });
	work_in_threads(&work, check_casts);
	return 0;
}
