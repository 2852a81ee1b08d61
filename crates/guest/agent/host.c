// SPDX-License-Identifier: MIT OR Apache-2.0
/* The channel to the host: ports, pauses, and the one way to give up. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT_BARRIER 0x4e3

/*
 * What the host's pipe takes: one byte more, and QEMU waits for the host with the guest at this
 * instruction.
 */
#define PIPE_BYTES 4096

/*
 * Without ports nothing reaches the host but what the kernel prints: its log goes to the console,
 * whose last lines the host shows.
 */
static void log_no_ports(void)
{
	static const char text[] =
		"<1>linemate: no program may use I/O ports: set CONFIG_X86_IOPL_IOPERM=y";
	int fd;

	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/kmsg", O_WRONLY);
	if (fd >= 0 && write(fd, text, sizeof(text) - 1) > 0)
		close(fd);
}

void host_open(void)
{
	if (!iopl(3))
		return;
	log_no_ports();
	host_power_off();
}

/* Unlike the C library's, these tell the compiler that memory is read and written. */
void host_write(unsigned short port, const void *data, size_t len)
{
	__asm__ volatile("rep outsb" : "+S"(data), "+c"(len) : "d"(port) : "memory");
}

void host_read(unsigned short port, void *data, size_t len)
{
	__asm__ volatile("rep insb" : "+D"(data), "+c"(len) : "d"(port) : "memory");
}

static void say(const char *fmt, va_list ap)
{
	char line[512];
	int len = vsnprintf(line, sizeof(line) - 1, fmt, ap);

	if (len < 0)
		return;
	if ((size_t)len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	host_write(PORT_CONTROL, line, len);
}

void host_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

/*
 * The recorder holds the guest at this mark until the host has had the machine stopped, ready to
 * be saved.
 */
void host_hold(const char *why)
{
	host_say("hold %s", why);
	MARK(0x03);
}

/*
 * The guest stands still as well, but QEMU does not know: stopping and continuing the machine
 * would move the guest's clock by a time that depends on the host, and a recording could not be
 * repeated.
 */
void host_barrier(const char *name)
{
	static const char bytes[PIPE_BYTES + 1];

	host_say("barrier %s", name);
	host_write(PORT_BARRIER, bytes, sizeof(bytes));
}

void host_power_off(void)
{
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void die(const char *fmt, ...)
{
	char text[448];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	host_say("error %s", text);
	host_power_off();
}

void die_errno(const char *what)
{
	die("%s: %s", what, strerror(errno));
}
