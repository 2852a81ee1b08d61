/* shapes - every way in which C lays a struct out, each of them used. */

#include <stddef.h>
#include <stdint.h>

enum color { RED, GREEN = -3 };
enum wide { LARGE = 0x100000000 };
typedef struct {
	int x, y;
} point_t;
typedef int vector_t __attribute__((vector_size(16)));
struct declared;

struct bits {
	unsigned a : 3;
	unsigned b : 5;
	unsigned char c;
	unsigned long d : 40;
	int e : 2;
	_Bool f : 1;
};

struct gaps {
	uint16_t a : 3;
	uint16_t : 0;
	uint16_t b : 9;
	uint32_t c : 20;
	uint64_t d : 63;
	enum color e : 3;
	unsigned char f : 7;
};

struct packed {
	char a;
	int b;
	long c : 33;
	short d;
} __attribute__((packed));

struct aligned_member {
	char a;
	int b __attribute__((aligned(64)));
	char c;
};

struct aligned_whole {
	long z;
	char q;
} __attribute__((aligned(128)));

struct padded_by_hand {
	long first;
	char last;
	char : 8;
};

struct empty {
};

union either {
	int a;
	char b[7];
	struct {
		short s;
		char t;
	};
	struct packed p;
};

struct everything {
	point_t p;
	struct aligned_whole q;
	struct packed k;
	struct bits bb;
	union {
		int i;
		float fl;
	};
	struct {
		char k;
		long l;
		union {
			int deep;
			char deeper[3];
		};
	} in, several[2];
	struct declared *f;
	struct everything *next;
	int (*fn)(struct everything *, int, ...);
	int arr[3][4];
	int none[0];
	const char *const *s;
	volatile int v;
	const volatile struct bits *cv;
	int *restrict r;
	enum color col;
	enum wide w;
	enum { ONE, TWO } unnamed;
	double d;
	long double ld;
	_Complex double cd;
	__int128 i128;
	vector_t vector;
	struct empty nothing;
	uint8_t *bytes[2];
	char fam[];
};

struct everything everything;
struct gaps gaps;
struct aligned_member aligned_member;
struct padded_by_hand padded_by_hand;
union either either;

int main(int count, char **words)
{
	struct local {
		char **words;
		short count;
	} local = { words, count };
	struct everything *p = &everything;

	p->in.k = local.count;
	return p->arr[count][1] + gaps.c + aligned_member.a + either.a + padded_by_hand.last;
}
