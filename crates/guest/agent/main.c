// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The guest's first process: mounts, hands the kernel's symbols to the host, waits to be
 * snapshotted, and then runs what the payload says. It decides nothing about recording.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROTOCOL 1
#define QUIET_ROUNDS_MAX 120
#define SYMBOLS_MAX (64ul << 20)

static const struct {
	const char *source, *target, *type;
	int needed;
} mounts[] = {
	{ "proc", "/proc", "proc", 1 },
	{ "sysfs", "/sys", "sysfs", 1 },
	{ "devtmpfs", "/dev", "devtmpfs", 1 },
	{ "devpts", "/dev/pts", "devpts", 0 },
	{ "tmpfs", "/dev/shm", "tmpfs", 0 },
	{ "tmpfs", "/tmp", "tmpfs", 0 },
	{ "tmpfs", "/run", "tmpfs", 0 },
	{ "cgroup2", "/sys/fs/cgroup", "cgroup2", 0 },
	{ "debugfs", "/sys/kernel/debug", "debugfs", 0 },
	{ "tracefs", "/sys/kernel/tracing", "tracefs", 0 },
};

static void mount_all(void)
{
	size_t i;

	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].target, 0755);
		if (mount(mounts[i].source, mounts[i].target, mounts[i].type, 0, NULL) &&
		    mounts[i].needed)
			die_errno(mounts[i].target);
	}
	chmod("/tmp", 01777);
	mkdir("/root", 0700);
}

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);
	int i;

	for (i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/* The usual commands for set-up scripts; the payload's own programs replace them. */
static void install_busybox(void)
{
	char *argv[] = { "busybox", "--install", "-s", "/usr/bin", NULL };
	pid_t pid = fork();

	if (!pid) {
		execv("/bin/busybox", argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) < 0)
		die_errno("busybox");
}

/* The host reads the buffer with the page tables of CPU 0, so that is where the agent has to be. */
static void pin_to_cpu0(cpu_set_t *before)
{
	cpu_set_t one;

	if (sched_getaffinity(0, sizeof(*before), before))
		die_errno("sched_getaffinity");
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die_errno("sched_setaffinity");
}

/* Clock ticks that all CPUs have spent on anything but idling. */
static unsigned long busy_ticks(void)
{
	unsigned long user, nice, system, idle, iowait, irq, softirq;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		die_errno("/proc/stat");
	if (fscanf(file, "cpu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &iowait,
		   &irq, &softirq) != 7)
		die("/proc/stat: not understood");
	fclose(file);
	return user + nice + system + irq + softirq;
}

/*
 * Kernels go on with work of their own after they started us (keys are verified, devices
 * probed). It does not belong into a recording.
 */
static void wait_until_quiet(void)
{
	unsigned long before, now = busy_ticks();
	int round;

	for (round = 0; round < QUIET_ROUNDS_MAX; round++) {
		before = now;
		usleep(500 * 1000);
		now = busy_ticks();
		if (now - before <= 1)
			return;
	}
}

static void hand_over_symbols(void)
{
	char *buf = mmap(NULL, SYMBOLS_MAX, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (buf == MAP_FAILED)
		die_errno("memory for the symbols");
	if (fd < 0)
		die_errno("/proc/kallsyms");
	while ((n = read(fd, buf + len, SYMBOLS_MAX - len)) > 0)
		len += n;
	if (n < 0)
		die_errno("/proc/kallsyms");
	close(fd);
	host_say("symbols %#lx %zu", (unsigned long)buf, len);
	/*
	 * A run from power-on goes straight on: to stop and continue a machine is not
	 * repeatable.
	 */
	if (!fwcfg_has("opt/linemate/straight"))
		host_hold("snapshot");
	munmap(buf, SYMBOLS_MAX);
}

static void take_payload(void)
{
	size_t len;
	char *payload = fwcfg_read("opt/linemate/payload", &len);

	cpio_unpack(payload, len);
	munmap(payload, len + 1);
	host_say("payload %zu", len);
}

int main(void)
{
	cpu_set_t all;

	host_open();
	host_say("hello %d", PROTOCOL);
	mount_all();
	open_console();
	loopback_up();
	install_busybox();
	pin_to_cpu0(&all);
	wait_until_quiet();
	hand_over_symbols();
	if (sched_setaffinity(0, sizeof(all), &all))
		die_errno("sched_setaffinity");
	take_payload();
	run_setup();
	run_workload();
	host_power_off();
}
