// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs the set-up script, then the workload between the two marks. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 4096

char *read_all(const char *path, size_t *len)
{
	struct stat st;
	char *data;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st))
		die_errno(path);
	data = malloc(st.st_size + 1);
	if (!data)
		die("%s: out of memory", path);
	for (*len = 0; *len < (size_t)st.st_size; *len += n) {
		n = read(fd, data + *len, st.st_size - *len);
		if (n <= 0)
			die_errno(path);
	}
	data[*len] = 0;
	close(fd);
	return data;
}

/* A file of words, each ended by a zero byte, as an argument vector. */
static char **read_words(const char *path)
{
	size_t len, at, n = 0;
	char *data = read_all(path, &len);
	char **words = calloc(MAX_WORDS + 1, sizeof(*words));

	if (!data)
		die_errno(path);
	if (!words)
		die("%s: out of memory", path);
	for (at = 0; at < len; at += strlen(data + at) + 1) {
		if (n == MAX_WORDS)
			die("%s: more than %d words", path, MAX_WORDS);
		words[n++] = data + at;
	}
	return words;
}

static void move_fd(int from, int to)
{
	if (dup2(from, to) < 0)
		die_errno("dup2");
}

static void make_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC))
		die_errno("pipe");
}

static pid_t spawn(const char *program, char **argv, char **env, int out, int err)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (pid)
		return pid;
	setsid();
	move_fd(open("/dev/null", O_RDONLY), 0);
	move_fd(out, 1);
	move_fd(err, 2);
	execve(program, argv, env);
	host_say("error cannot execute %s: %s", program, strerror(errno));
	_exit(127);
}

/* Passes one pipe's waiting bytes on; returns 0 at its end. */
static int forward(int fd, unsigned short port)
{
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n < 0)
		return errno == EINTR;
	host_write(port, buf, n);
	return n != 0;
}

/* Passes output on until every process that could write some has gone. */
static void pump(int out, int err)
{
	struct pollfd fds[2] = { { .fd = out, .events = POLLIN }, { .fd = err, .events = POLLIN } };
	static const unsigned short ports[2] = { PORT_STDOUT, PORT_STDERR };
	int i;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		for (i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !forward(fds[i].fd, ports[i]))
				fds[i].fd = -1;
	}
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die_errno("waitpid");
	return status;
}

static void say_status(const char *what, int status)
{
	if (WIFSIGNALED(status))
		host_say("%s signal %d", what, WTERMSIG(status));
	else
		host_say("%s exit %d", what, WEXITSTATUS(status));
}

void run_setup(void)
{
	char *argv[] = { "sh", SPEC_DIR "/setup", NULL };
	char **env = read_words(SPEC_DIR "/env");
	int fds[2];
	int status;
	pid_t pid;

	if (access(SPEC_DIR "/setup", F_OK))
		return;
	make_pipe(fds);
	host_say("setup");
	pid = spawn("/bin/busybox", argv, env, fds[1], fds[1]);
	close(fds[1]);
	/*
	 * A background process of the script may keep the pipe open: stop with the script
	 * itself.
	 */
	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct pollfd fd = { .fd = fds[0], .events = POLLIN };

		if (poll(&fd, 1, 10) > 0 && !forward(fds[0], PORT_STDERR))
			break;
	}
	if (waitpid(pid, &status, 0) < 0 && errno != ECHILD)
		die_errno("waitpid");
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	while (forward(fds[0], PORT_STDERR))
		;
	close(fds[0]);
	say_status("setup", status);
	if (status)
		host_power_off();
}

/*
 * Runs in a process of its own that adopts every orphan of the workload, so that "finished"
 * means all of its processes, and none of those that the set-up script left running.
 */
static void supervise(void)
{
	size_t len;
	char *program = read_all(SPEC_DIR "/program", &len);
	char *cwd = read_all(SPEC_DIR "/cwd", &len);
	char **argv = read_words(SPEC_DIR "/argv");
	char **env = read_words(SPEC_DIR "/env");
	int out[2], err[2], status, command_status = 0;
	pid_t pid, command;

	if (!program || !cwd || chdir(cwd))
		die_errno("payload");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die_errno("subreaper");
	make_pipe(out);
	make_pipe(err);

	host_barrier("start");
	MARK(0x01);
	command = spawn(program, argv, env, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	pump(out[0], err[0]);
	while ((pid = waitpid(-1, &status, 0)) > 0)
		if (pid == command)
			command_status = status;
	MARK(0x02);
	say_status("command", command_status);
	host_barrier("stop");
	_exit(0);
}

void run_workload(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid)
		supervise();
	wait_for(pid);
}
