// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Known memory accesses, for `linemate doctor` to compare with what the recorder saw.
 *
 * Prints where the arena's pages are in physical memory and, for each test, the
 * addresses of its code and the accesses it makes; then runs all tests once.
 *
 *	page INDEX FRAME
 *	test START END NAME: KIND SIZE OFFSET[, ...]
 *
 * Numbers are hexadecimal but for SIZE and OFFSET. KIND is load, store or rmw.
 * OFFSET counts from the arena's start. In each test %rdi is the arena.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4

struct test {
	uint64_t start;
	uint64_t end;
	const char *name;
	const char *accesses;
};

static unsigned char arena[PAGES * PAGE] __attribute__((aligned(PAGE)));

/* The linker puts the two around the section of that name. */
extern const struct test __start_tests[];
extern const struct test __stop_tests[];

#define CLOBBERS							\
	"rax", "rbx", "rcx", "rdx", "rsi", "r8", "r12", "xmm0",		\
	"xmm1", "xmm2", "cc", "memory"

/* `code` is a test of its own; `before` prepares for it and makes no part of it. */
#define TEST(name, before, code, accesses)				\
	__asm__ volatile(before "\n1: " code "\n2:\n"			\
			 ".pushsection .rodata.str1.1,\"aMS\",@progbits,1\n" \
			 "3: .asciz \"" name "\"\n"			\
			 "4: .asciz \"" accesses "\"\n"			\
			 ".popsection\n"				\
			 ".pushsection tests,\"aw\"\n"			\
			 ".quad 1b, 2b, 3b, 4b\n"			\
			 ".popsection\n"				\
			 : : "D"(arena) : CLOBBERS)

static void plain(void)
{
	TEST("load, 1 byte", "", "movb (%%rdi), %%al", "load 1 0");
	TEST("load, 2 bytes", "", "movw 2(%%rdi), %%ax", "load 2 2");
	TEST("load, 4 bytes", "", "movl 4(%%rdi), %%eax", "load 4 4");
	TEST("load, 8 bytes", "", "movq 8(%%rdi), %%rax", "load 8 8");
	TEST("load, sign-extended", "", "movsbq 1(%%rdi), %%rax", "load 1 1");
	TEST("load, compared", "", "cmpl $3, 4(%%rdi)", "load 4 4");
	TEST("load, big endian", "", "movbe 8(%%rdi), %%rax", "load 8 8");
	TEST("load, table look-up", "mov %%rdi, %%rbx; mov $5, %%al", "xlat", "load 1 5");
	TEST("store, 1 byte", "", "movb %%al, 1(%%rdi)", "store 1 1");
	TEST("store, 2 bytes", "", "movw %%ax, 2(%%rdi)", "store 2 2");
	TEST("store, 4 bytes", "", "movl $7, 4(%%rdi)", "store 4 4");
	TEST("store, 8 bytes", "", "movq %%rax, 8(%%rdi)", "store 8 8");
	TEST("store, non-temporal", "", "movnti %%rax, 8(%%rdi)", "store 8 8");
	TEST("address only", "", "lea 8(%%rdi), %%rax; nopw 8(%%rdi); prefetcht0 8(%%rdi)", "");
	TEST("unaligned load", "", "movq 3(%%rdi), %%rax", "load 8 3");
	TEST("unaligned store", "", "movl %%eax, 13(%%rdi)", "store 4 13");
	TEST("line-crossing load", "", "movq 60(%%rdi), %%rax", "load 8 60");
	TEST("line-crossing store", "", "movq %%rax, 61(%%rdi)", "store 8 61");
	/* Two pages are two places in memory. */
	TEST("page-crossing load", "", "movq 4092(%%rdi), %%rax", "load 4 4092, load 4 4096");
	TEST("page-crossing store", "", "movq %%rax, 4093(%%rdi)", "store 3 4093, store 5 4096");
}

static void modify(void)
{
	TEST("increment", "", "incl 4(%%rdi)", "load 4 4, store 4 4");
	TEST("add", "", "addq %%rax, 8(%%rdi)", "load 8 8, store 8 8");
	TEST("exchange-add, not locked", "", "xaddl %%eax, 4(%%rdi)", "load 4 4, store 4 4");
	TEST("bit set, not locked", "", "btsl $3, 4(%%rdi)", "load 4 4, store 4 4");
	TEST("bit test", "", "btl $3, 4(%%rdi)", "load 4 4");
	TEST("compare-exchange, not locked", "mov 8(%%rdi), %%rax",
	     "cmpxchgq %%rbx, 8(%%rdi)", "load 8 8, store 8 8");
	TEST("16-byte compare-exchange, not locked", "", "cmpxchg16b 16(%%rdi)",
	     "load 16 16, store 16 16");
}

static void atomic(void)
{
	TEST("locked increment", "", "lock incl 4(%%rdi)", "rmw 4 4");
	TEST("locked add, 1 byte", "", "lock addb $1, 1(%%rdi)", "rmw 1 1");
	TEST("locked or, 2 bytes", "", "lock orw %%ax, 2(%%rdi)", "rmw 2 2");
	TEST("locked and, 8 bytes", "", "lock andq %%rax, 8(%%rdi)", "rmw 8 8");
	TEST("locked negate", "", "lock negq 8(%%rdi)", "rmw 8 8");
	TEST("locked not", "", "lock notl 4(%%rdi)", "rmw 4 4");
	TEST("exchange", "", "xchgq %%rax, 8(%%rdi)", "rmw 8 8");
	TEST("exchange, 1 byte", "", "xchgb %%al, 1(%%rdi)", "rmw 1 1");
	TEST("exchange-add", "", "lock xaddq %%rax, 8(%%rdi)", "rmw 8 8");
	TEST("bit set", "", "lock btsq $3, 8(%%rdi)", "rmw 8 8");
	TEST("bit set, far", "mov $130, %%eax", "lock btsq %%rax, 8(%%rdi)", "rmw 8 24");
	TEST("compare-exchange that succeeds", "mov 4(%%rdi), %%eax",
	     "lock cmpxchgl %%ebx, 4(%%rdi)", "rmw 4 4");
	TEST("compare-exchange that fails", "mov 4(%%rdi), %%eax; not %%eax",
	     "lock cmpxchgl %%ebx, 4(%%rdi)", "rmw 4 4");
	TEST("8-byte pair, succeeds", "mov 8(%%rdi), %%eax; mov 12(%%rdi), %%edx",
	     "lock cmpxchg8b 8(%%rdi)", "rmw 8 8");
	TEST("8-byte pair, fails", "mov 8(%%rdi), %%eax; not %%eax",
	     "lock cmpxchg8b 8(%%rdi)", "rmw 8 8");
	TEST("16-byte pair, succeeds", "mov 16(%%rdi), %%rax; mov 24(%%rdi), %%rdx",
	     "lock cmpxchg16b 16(%%rdi)", "rmw 16 16");
	TEST("16-byte pair, fails", "mov 16(%%rdi), %%rax; not %%rax",
	     "lock cmpxchg16b 16(%%rdi)", "rmw 16 16");
	TEST("line-crossing locked increment", "", "lock incq 60(%%rdi)", "rmw 8 60");
}

/* With the arena as the stack. */
#define STACK(set) "mov %%rsp, %%r12; lea 1024(%%rdi), %%rsp; " set
#define ON_STACK(name, set, code, accesses)				\
	do {								\
		TEST(name, STACK(set), code "; mov %%r12, %%rsp", accesses); \
	} while (0)

static void stack(void)
{
	ON_STACK("push", "", "push %%rax", "store 8 1016");
	ON_STACK("push, immediate", "", "push $5", "store 8 1016");
	ON_STACK("push, 2 bytes", "", "pushw %%ax", "store 2 1022");
	ON_STACK("push from memory", "", "push 8(%%rdi)", "load 8 8, store 8 1016");
	ON_STACK("pop", "", "pop %%rax", "load 8 1024");
	ON_STACK("pop to memory", "", "pop 8(%%rdi)", "load 8 1024, store 8 8");
	ON_STACK("push flags", "", "pushf", "store 8 1016");
	ON_STACK("call", "", "call 5f; 5: nop", "store 8 1016");
	ON_STACK("return", "lea 6f(%%rip), %%rax; mov %%rax, (%%rsp)",
		 "ret; 6: nop", "load 8 1024");
	ON_STACK("leave", "mov %%rbp, %%rbx; lea 512(%%rdi), %%rbp",
		 "leave; mov %%rbx, %%rbp", "load 8 512");
}

#define STRING(count)							\
	"mov %%rdi, %%r8; lea 2048(%%rdi), %%rsi; lea 256(%%rdi), %%rdi; " \
	"mov $" #count ", %%ecx; xor %%eax, %%eax"
#define ON_STRING(name, count, code, accesses)				\
	TEST(name, STRING(count), code "; mov %%r8, %%rdi", accesses)

static void strings(void)
{
	ON_STRING("move string", 1, "movsq", "load 8 2048, store 8 256");
	ON_STRING("repeated move", 3, "rep movsq",
		  "load 8 2048, store 8 256, load 8 2056, store 8 264, load 8 2064, store 8 272");
	ON_STRING("repeated move, bytes", 2, "rep movsb",
		  "load 1 2048, store 1 256, load 1 2049, store 1 257");
	ON_STRING("repeated move of nothing", 0, "rep movsb", "");
	ON_STRING("repeated store", 3, "rep stosq", "store 8 256, store 8 264, store 8 272");
	ON_STRING("repeated store, bytes", 4, "rep stosb",
		  "store 1 256, store 1 257, store 1 258, store 1 259");
	ON_STRING("load string", 1, "lodsl", "load 4 2048");
	ON_STRING("repeated load", 2, "rep lodsw", "load 2 2048, load 2 2050");
	ON_STRING("repeated compare", 2, "movb $1, (%%rdi); repe cmpsb",
		  "store 1 256, load 1 256, load 1 2048");
	ON_STRING("repeated scan", 4, "repe scasb; nop", "load 1 256");
}

static void vectors(void)
{
	TEST("16-byte load", "", "movaps 16(%%rdi), %%xmm0", "load 16 16");
	TEST("16-byte store", "", "movaps %%xmm0, 32(%%rdi)", "store 16 32");
	TEST("16-byte load, unaligned", "", "movups 5(%%rdi), %%xmm0", "load 16 5");
	TEST("16-byte load, line-crossing", "", "movdqu 56(%%rdi), %%xmm0", "load 16 56");
	TEST("16-byte store, line-crossing", "", "movdqu %%xmm0, 57(%%rdi)", "store 16 57");
	TEST("16-byte store, non-temporal", "", "movntdq %%xmm0, 16(%%rdi)", "store 16 16");
	TEST("16-byte operand", "", "pxor 16(%%rdi), %%xmm0", "load 16 16");
	TEST("scalar loads", "", "movss 4(%%rdi), %%xmm0; movsd 8(%%rdi), %%xmm1",
	     "load 4 4, load 8 8");
	TEST("scalar stores", "", "movss %%xmm0, 4(%%rdi); movlps %%xmm1, 8(%%rdi)",
	     "store 4 4, store 8 8");
	TEST("32-byte load", "", "vmovdqa 32(%%rdi), %%ymm0", "load 32 32");
	TEST("32-byte store", "", "vmovdqa %%ymm0, 64(%%rdi)", "store 32 64");
	TEST("32-byte load, line-crossing", "", "vmovdqu 47(%%rdi), %%ymm0", "load 32 47");
	TEST("32-byte store, line-crossing", "", "vmovdqu %%ymm0, 49(%%rdi)", "store 32 49");
	TEST("32-byte operand", "", "vpxor 32(%%rdi), %%ymm0, %%ymm1", "load 32 32");
	TEST("broadcast", "", "vbroadcastsd 8(%%rdi), %%ymm0", "load 8 8");
	TEST("half extract", "", "vextracti128 $1, %%ymm0, 16(%%rdi)", "store 16 16");
	TEST("two 32-byte moves", "", "vmovdqu 32(%%rdi), %%ymm0; vmovdqu %%ymm0, 64(%%rdi)",
	     "load 32 32, store 32 64");
	TEST("gather", "vpxor %%xmm1, %%xmm1, %%xmm1; vpcmpeqd %%xmm2, %%xmm2, %%xmm2",
	     "vpgatherdd %%xmm2, 4(%%rdi,%%xmm1,4), %%xmm0",
	     "load 4 4, load 4 4, load 4 4, load 4 4");
}

static void floating(void)
{
	TEST("x87 load and store, 4 bytes", "", "flds 4(%%rdi); fstps 4(%%rdi)",
	     "load 4 4, store 4 4");
	TEST("x87 load and store, 8 bytes", "", "fldl 8(%%rdi); fstpl 8(%%rdi)",
	     "load 8 8, store 8 8");
	/* No access is 10 bytes wide. */
	TEST("x87 load and store, 10 bytes", "", "fldt 16(%%rdi); fstpt 16(%%rdi)",
	     "load 8 16, load 2 24, store 8 16, store 2 24");
	TEST("x87 integer", "", "fildl 4(%%rdi); fistpl 4(%%rdi)", "load 4 4, store 4 4");
	TEST("control words", "fnstcw 2(%%rdi); stmxcsr 4(%%rdi)",
	     "fldcw 2(%%rdi); ldmxcsr 4(%%rdi); fnstcw 2(%%rdi); stmxcsr 4(%%rdi)",
	     "load 2 2, load 4 4, store 2 2, store 4 4");
}

static int print_pages(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (fd < 0)
		return -1;
	for (int i = 0; i < PAGES; i++) {
		off_t at = ((uintptr_t)arena / PAGE + i) * sizeof(entry);

		if (pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
			return -1;
		printf("page %x %llx\n", i, (unsigned long long)entry & ((1ULL << 55) - 1));
	}
	return close(fd);
}

int main(void)
{
	memset(arena, 0, sizeof(arena));
	if (mlock(arena, sizeof(arena)) || print_pages()) {
		perror("selftest: cannot find the arena in memory");
		return 1;
	}
	for (const struct test *t = __start_tests; t < __stop_tests; t++)
		printf("test %llx %llx %s: %s\n", (unsigned long long)t->start,
		       (unsigned long long)t->end, t->name, t->accesses);
	fflush(stdout);
	plain();
	modify();
	atomic();
	stack();
	strings();
	vectors();
	floating();
	return 0;
}
