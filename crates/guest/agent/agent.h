/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent: the guest's first process. It talks to the host through I/O ports that QEMU serves
 * synchronously, so that what the host does never depends on host time:
 *
 *   0x4e0  control lines to the host      (isa-debugcon)
 *   0x4e1  the workload's standard output (isa-debugcon)
 *   0x4e2  the workload's standard error  (isa-debugcon)
 *   0x4e3  stand still until the host is ready (isa-debugcon on a named pipe)
 *   0x510  the payload                    (fw_cfg, with its DMA register at 0x514)
 */
#ifndef LINEMATE_AGENT_H
#define LINEMATE_AGENT_H

#include <stddef.h>
#include <stdint.h>

#define PORT_CONTROL 0x4e0
#define PORT_STDOUT 0x4e1
#define PORT_STDERR 0x4e2

/* Where the payload keeps what to run; the other files of the payload go where their names say. */
#define SPEC_DIR "/.linemate"

/*
 * The marks are no-ops that the recorder knows by their displacement. The time stamp counter is
 * handed over in rdi: under -icount shift=0 it counts nanoseconds of guest time, one for each
 * instruction.
 */
#define MARK(number)                                                                     \
	__asm__ volatile("rdtsc\n\t"                                                     \
			 "shl $32, %%rdx\n\t"                                            \
			 "or %%rdx, %%rax\n\t"                                           \
			 "mov %%rax, %%rdi\n\t"                                          \
			 ".byte 0x0f, 0x1f, 0x84, 0x00, " #number ", 0xfe, 0xca, 0x6b"   \
			 ::: "rax", "rdx", "rdi", "memory")

/* host.c: the channel to the host */
void host_open(void);
void host_write(unsigned short port, const void *data, size_t len);
void host_read(unsigned short port, void *data, size_t len);
void host_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void host_hold(const char *why);
void host_barrier(const char *name);
void host_power_off(void) __attribute__((noreturn));
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void die_errno(const char *what) __attribute__((noreturn));

/* fwcfg.c: reads what the host provides; the buffer is to be given back with munmap() */
int fwcfg_has(const char *name);
void *fwcfg_read(const char *name, size_t *len);

/* cpio.c: unpacks a newc archive over the root */
void cpio_unpack(const char *archive, size_t len);

/* run.c: the set-up script and the workload */
char *read_all(const char *path, size_t *len);
void run_setup(void);
void run_workload(void);

#endif
