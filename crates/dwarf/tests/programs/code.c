/* code - arguments, locals and globals that a test knows, and that print where they are. */

#include <stdio.h>
#include <threads.h>

struct left {
	long a, b;
};

struct right {
	int first;
	struct left inner;
};

struct left shared_left[3] = { { 1, 2 } };
static struct right hidden = { 7, { 8, 9 } };
_Thread_local struct right of_thread;
int plain = 3;

/* Where the call of it returns to. */
__attribute__((noinline)) void *here(void)
{
	return __builtin_return_address(0);
}

__attribute__((noinline)) long both(struct left *one, const struct right *two, long three)
{
	return one->a + two->first + three;
}

static inline __attribute__((always_inline)) long bump(struct right *inlined)
{
	return inlined->inner.b++;
}

__attribute__((noinline)) long outer(struct right *argument)
{
	static int calls;

	calls++;
	return bump(argument) + calls;
}

struct slice {
	const char *at;
	long length;
};

/* Two registers have it. */
__attribute__((noinline)) long sum(struct slice bytes)
{
	long total = 0;

	for (long i = 0; i < bytes.length; i++)
		total += bytes.at[i];
	return total;
}

__attribute__((noinline)) long locals(int count)
{
	volatile struct right on_stack = { count, { 1, 2 } };
	volatile long numbers[4] = { count };
	char *frame = __builtin_frame_address(0);

	printf("frame %ld %ld %p\n", (char *)&on_stack - frame, (char *)numbers - frame, here());
	return on_stack.first + numbers[count];
}

int main(int count, char **words)
{
	printf("globals %p %p %p\n", (void *)shared_left, (void *)&hidden, (void *)&plain);
	printf("code %p %p %p\n", (void *)both, (void *)outer, (void *)sum);
	return sum((struct slice){ words[0], count }) +
	       both(shared_left, &hidden, count) + outer(&hidden) + locals(count) +
	       of_thread.first;
}
