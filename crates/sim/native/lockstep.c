/* A plugin of QEMU, 7.2 and later, that runs a guest in steps together with a simulation (`dpb sim live`).
 *
 * The guest's time is its count of instructions: -accel tcg -icount shift=0,sleep=off, one core. -seed 1 takes the host's random numbers from the guest's kernel, -rtc
 * clock=vm the host's date, and -nodefaults -vga none devices that finish their work when the host likes. Packets cross between the guest's card and its network at
 * the ends of quanta alone: -object filter-buffer,interval=US holds them until a timer of the guest's time. A second filter with the same interval holds a
 * beat, a frame that the simulation sends to itself through QEMU; when it comes back a quantum has ended.
 *
 * So the plugin has two things to do. It stops the guest after each piece of a quantum, tells the simulation, and goes on when it may: it cannot run past the
 * next end. And before a quantum begins it waits until QEMU has taken in all that the simulation has sent, so that this is there when the quantum ends. Where in a
 * quantum the guest is stopped makes no difference to the guest.
 *
 * -plugin lockstep.so,control=PATH,piece=INSTRUCTIONS. A message to the simulation is the count of instructions, eight bytes in the host's order; instructions that
 * were begun and not finished count again, so it is an upper bound. The answer is a byte: `g`, go on, or `s`, take in what was sent and go on.
 *
 * The few declarations it needs are those of qemu-plugin.h, which distributions do not always bring along. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* The first version whose functions these are; later ones take it, too. */
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
static int sockets[SOCKETS], socket_count = -1;

static void fail(const char *what)
{
	fprintf(stderr, "lockstep: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The sockets over which frames come, and the file that says what QEMU's main thread waits for. */
static void find(void)
{
	DIR *files = opendir("/proc/self/fd");
	struct dirent *entry;
	char path[64];

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
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
	call = open(path, O_RDONLY | O_CLOEXEC);
	if (call < 0)
		fail(path);
}

static int is_unread(void)
{
	int i, bytes;

	for (i = 0; i < socket_count; i++)
		if (!ioctl(sockets[i], FIONREAD, &bytes) && bytes > 0)
			return 1;
	return 0;
}

/* True if the main thread waits for files, and so has dealt with all that it has read. */
static int is_idle(void)
{
	char text[64];
	ssize_t bytes = pread(call, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		fail("the main thread's state");
	text[bytes] = 0;
	if (text[0] < '0' || text[0] > '9')
		return 0;
#ifdef SYS_poll
	if (atoi(text) == SYS_poll)
		return 1;
#endif
	return atoi(text) == SYS_ppoll;
}

static void take_in(void)
{
	if (socket_count < 0)
		find();
	while (is_unread() || !is_idle() || is_unread())
		sched_yield();
}

static void stop(void)
{
	char answer;
	ssize_t bytes;

	do
		bytes = write(control, &count, sizeof(count));
	while (bytes < 0 && errno == EINTR);
	if (bytes == sizeof(count))
		do
			bytes = read(control, &answer, 1);
		while (bytes < 0 && errno == EINTR);
	/* The simulation has ended, and so does the guest. */
	if (bytes <= 0)
		_exit(0);
	if (answer == 's')
		take_in();
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
	}
	if (!address.sun_path[0] || !piece) {
		fprintf(stderr, "lockstep: control=PATH,piece=INSTRUCTIONS\n");
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
