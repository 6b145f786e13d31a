/* A plugin of QEMU, 7.2 and later, that runs a guest in steps together with a simulation (`dpb sim live`).
 *
 * The guest's time is its count of instructions: -accel tcg -icount shift=0,sleep=off, one core. -seed 1 takes the host's random numbers from the guest's kernel, -rtc
 * clock=vm the host's date, and -nodefaults -vga none devices that finish their work when the host likes. Packets cross between the guest's card and its network at
 * the ends of quanta alone: -object filter-buffer,interval=US holds them until a timer of the guest's time. A second filter with the same interval holds a
 * beat, a frame that the simulation sends to itself through QEMU; when it comes back a quantum has ended.
 *
 * The plugin stops the guest after each piece of a quantum, waits until the simulation has read all that QEMU has sent, tells it, and goes on when it may: the guest
 * cannot run past the next end. Before a quantum begins it waits until QEMU has taken in all that the simulation has sent, so that this is there when the quantum ends.
 * Where in a quantum the guest is stopped makes no difference to the guest.
 *
 * -plugin lockstep.so,control=PATH,piece=INSTRUCTIONS,sockets=COUNT. The count is of QEMU's sockets for packets; -name debug-threads=on tells which of its threads still
 * connect them. A message to the simulation is the count of instructions, eight bytes in the host's order; instructions that were begun and not finished count again, so
 * it is an upper bound. The answer is a byte: `g`, go on, or `s`, take in what was sent and go on.
 *
 * The few declarations it needs are those of qemu-plugin.h, which distributions do not always bring along. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The interface's version, of which these functions are in all. QEMU 7.2 to 8.1 take 1, later ones 2: -DVERSION=2. */
#ifndef VERSION
#define VERSION 1
#endif

/* Sockets of a guest's network, and of beats. */
enum { SOCKETS = 16 };

typedef uint64_t plugin;
struct qemu_plugin_tb;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin, void (*)(plugin, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);

EXPORT int qemu_plugin_version = VERSION;

static uint64_t count, stop_at, piece;
static int control = -1, call = -1;
static int sockets[SOCKETS], socket_count, sockets_expected;

static void fail(const char *what)
{
	fprintf(stderr, "lockstep: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The sockets that are connected, beside the plugin's own. */
static void find_sockets(void)
{
	DIR *files = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!files)
		fail("/proc/self/fd");
	socket_count = 0;
	while ((entry = readdir(files))) {
		struct sockaddr_un address;
		socklen_t bytes = sizeof(address);
		int file = atoi(entry->d_name);

		if (file == control || getpeername(file, (struct sockaddr *)&address, &bytes))
			continue;
		if (address.sun_family == AF_UNIX && socket_count < SOCKETS)
			sockets[socket_count++] = file;
	}
	closedir(files);
}

/* True while a thread of QEMU's connects a socket, or has yet to say so to the main thread. */
static int is_connecting(void)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *entry;
	int is_there = 0;

	if (!threads)
		fail("/proc/self/task");
	while ((entry = readdir(threads)) && !is_there) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file))
			is_there = !strncmp(name, "io-task-worker", 14);
		fclose(file);
	}
	closedir(threads);
	return is_there;
}

static int is_unread(void)
{
	int i, bytes;

	for (i = 0; i < socket_count; i++)
		if (!ioctl(sockets[i], FIONREAD, &bytes) && bytes > 0)
			return 1;
	return 0;
}

static int is_unsent(void)
{
	int i, bytes;

	for (i = 0; i < socket_count; i++)
		if (!ioctl(sockets[i], SIOCOUTQ, &bytes) && bytes > 0)
			return 1;
	return 0;
}

/* What QEMU's main thread does. */
enum state {
	BUSY,
	/* It waits for files, and so has dealt with all that it has read. */
	WAITS_FOR_FILES,
	/* It waits for the core, that is, for this thread, as it does when the guest has switched itself off. */
	WAITS_FOR_CORE
};

static enum state state(void)
{
	char text[160];
	unsigned long address, operation;
	ssize_t bytes = pread(call, text, sizeof(text) - 1, 0);
	int number;

	if (bytes <= 0)
		fail("the main thread's state");
	text[bytes] = 0;
	if (sscanf(text, "%d %lx %lx", &number, &address, &operation) != 3)
		return BUSY;
#ifdef SYS_poll
	if (number == SYS_poll)
		return WAITS_FOR_FILES;
#endif
	if (number == SYS_ppoll)
		return WAITS_FOR_FILES;
	/* Conditions are waited for with bits, locks are not. */
	if (number == SYS_futex && (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
		return WAITS_FOR_CORE;
	return BUSY;
}

/* Waits until the main thread has nothing to do, and there is nothing of that kind. */
static void settle(int (*is_left)(void))
{
	for (;;) {
		int was_left = is_left();

		switch (state()) {
		case WAITS_FOR_CORE:
			return;
		case WAITS_FOR_FILES:
			if (!was_left && !is_left())
				return;
			break;
		case BUSY:
			break;
		}
		sched_yield();
	}
}

/* Waits until all sockets are there. A beat that is sent before would be lost. */
static void begin(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
	call = open(path, O_RDONLY | O_CLOEXEC);
	if (call < 0)
		fail(path);
	for (;;) {
		find_sockets();
		if (socket_count >= sockets_expected && !is_connecting() && state() == WAITS_FOR_FILES)
			return;
		sched_yield();
	}
}

static void stop(void)
{
	char answer;
	ssize_t bytes;

	if (call < 0)
		begin();
	/* QEMU's main thread sends what did not fit into a socket as soon as there is room. */
	settle(is_unsent);
	do
		bytes = write(control, &count, sizeof(count));
	while (bytes < 0 && errno == EINTR);
	/* The simulation has ended, and so does the guest. */
	if (bytes != sizeof(count))
		_exit(0);
	do
		bytes = read(control, &answer, 1);
	while (bytes < 0 && errno == EINTR);
	if (bytes != 1)
		_exit(0);
	if (answer == 's')
		settle(is_unread);
}

static void executed(unsigned cpu, void *instructions)
{
	(void)cpu;
	count += (uintptr_t)instructions;
	if (count < stop_at)
		return;
	stop_at = count + piece;
	stop();
}

static void translated(plugin id, struct qemu_plugin_tb *block)
{
	uintptr_t instructions = qemu_plugin_tb_n_insns(block);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, (void *)instructions);
}

EXPORT int qemu_plugin_install(plugin id, const void *info, int words, char **word)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int i;

	(void)info;
	for (i = 0; i < words; i++) {
		if (!strncmp(word[i], "control=", 8))
			strncpy(address.sun_path, word[i] + 8, sizeof(address.sun_path) - 1);
		if (!strncmp(word[i], "piece=", 6))
			piece = strtoull(word[i] + 6, NULL, 10);
		if (!strncmp(word[i], "sockets=", 8))
			sockets_expected = atoi(word[i] + 8);
	}
	if (!address.sun_path[0] || !piece || sockets_expected < 1 || sockets_expected > SOCKETS) {
		fprintf(stderr, "lockstep: control=PATH,piece=INSTRUCTIONS,sockets=COUNT\n");
		return 1;
	}
	control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (control < 0 || connect(control, (struct sockaddr *)&address, sizeof(address))) {
		fprintf(stderr, "lockstep: %s: %s\n", address.sun_path, strerror(errno));
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
