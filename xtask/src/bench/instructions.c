/* A plugin of qemu-user: how many instructions a program has executed, written to a file, eight bytes, whenever it asks for
 * the process group of a process that cannot be. The few declarations it needs are those of qemu-plugin.h, which
 * distributions do not always bring along. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { NO_REGISTERS = 0, GETPGID = 155, NO_PROCESS = 0x0dbb0b5e };

typedef uint64_t plugin;
struct qemu_plugin_tb;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin, void (*)(plugin, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin, void (*)(plugin, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
								 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));

EXPORT int qemu_plugin_version = VERSION;

static uint64_t executed;
static int file = -1;

static void block(unsigned cpu, void *instructions)
{
	(void)cpu;
	executed += (uintptr_t)instructions;
}

static void translated(plugin id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block, NO_REGISTERS, (void *)qemu_plugin_tb_n_insns(tb));
}

static void called(plugin id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
		   uint64_t a6, uint64_t a7, uint64_t a8)
{
	(void)id, (void)cpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
	if (number == GETPGID && a1 == NO_PROCESS && write(file, &executed, sizeof(executed)) < 0)
		executed = 0;
}

EXPORT int qemu_plugin_install(plugin id, const void *info, int count, char **arguments)
{
	(void)info;
	if (count != 1 || strncmp(arguments[0], "counts=", 7))
		return -1;
	file = open(arguments[0] + 7, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file < 0)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_vcpu_syscall_cb(id, called);
	return 0;
}
