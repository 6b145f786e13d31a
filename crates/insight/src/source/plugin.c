/* A plugin of qemu-user: everything that a program executes and accesses, written to a file descriptor (`out=NUMBER`) in the
 * form that trace/plugin.rs reads. It computes nothing. The few declarations it needs are those of qemu-plugin.h, which
 * distributions do not always bring along; VERSION is that of the interface. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { NO_REGISTERS = 0, READ_AND_WRITE = 3 };
enum { BLOCK = 1, EVENTS = 2, END = 3 };
enum { WORDS = 8192, THREADS = 4096, INSTRUCTION_WORDS = 4, INSTRUCTIONS = 512 };

typedef uint64_t plugin;
typedef uint32_t access_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
/* Where the instruction lies in this process. (What qemu_plugin_insn_data takes differs from version to version.) */
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin, void (*)(plugin, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, access_info, uint64_t, void *), int, int,
					     void *);
extern void qemu_plugin_register_atexit_cb(plugin, void (*)(plugin, void *), void *);
extern unsigned qemu_plugin_mem_size_shift(access_info);
extern _Bool qemu_plugin_mem_is_store(access_info);

EXPORT int qemu_plugin_version = VERSION;

/* What a thread did and has not handed over. */
struct thread {
	size_t count;
	uint64_t words[1 + WORDS]; /* behind the chunk's head */
};

static struct thread *threads[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t blocks;
static int out = -1;
static pid_t own;

static uint64_t head(uint64_t kind, uint64_t thread, uint64_t count)
{
	return kind << 56 | thread << 32 | count;
}

/* The lock is held. A process that was forked off has copies of what its parent will write. */
static void put(const void *from, size_t bytes)
{
	const char *at = from;

	if (out < 0 || getpid() != own)
		return;
	while (bytes) {
		ssize_t put = write(out, at, bytes);
		if (put < 0) {
			out = -1;
			return;
		}
		at += put;
		bytes -= put;
	}
}

static void hand_over(unsigned number, struct thread *thread)
{
	thread->words[0] = head(EVENTS, number, thread->count);
	put(thread->words, 8 * (1 + thread->count));
	thread->count = 0;
}

static void keep(unsigned number, uint64_t word)
{
	struct thread *thread;

	if (number >= THREADS)
		abort();
	thread = threads[number];
	if (__builtin_expect(!thread, 0)) {
		thread = threads[number] = calloc(1, sizeof(*thread));
		if (!thread)
			abort();
	}
	thread->words[1 + thread->count++] = word;
	if (__builtin_expect(thread->count == WORDS, 0)) {
		pthread_mutex_lock(&lock);
		hand_over(number, thread);
		pthread_mutex_unlock(&lock);
	}
}

static void executed(unsigned thread, void *block)
{
	keep(thread, (uintptr_t)block);
}

static void accessed(unsigned thread, access_info info, uint64_t address, void *instruction)
{
	uint64_t word = (uint64_t)1 << 63 | (uint64_t)qemu_plugin_mem_is_store(info) << 62 |
			(uint64_t)(qemu_plugin_mem_size_shift(info) & 15) << 58 | (uint64_t)(uintptr_t)instruction << 49;

	keep(thread, word | (address & (((uint64_t)1 << 49) - 1)));
}

static void translated(plugin id, struct qemu_plugin_tb *tb)
{
	size_t i, count = qemu_plugin_tb_n_insns(tb);
	static uint64_t words[2 + INSTRUCTION_WORDS * INSTRUCTIONS];
	uint64_t number;

	(void)id;
	if (count > INSTRUCTIONS)
		abort();
	pthread_mutex_lock(&lock);
	number = blocks++;
	words[0] = head(BLOCK, 0, 1 + INSTRUCTION_WORDS * count);
	words[1] = number;
	for (i = 0; i < count; i++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
		uint64_t *to = words + 2 + INSTRUCTION_WORDS * i;
		const void *code = qemu_plugin_insn_haddr(instruction);
		size_t size = qemu_plugin_insn_size(instruction);

		memset(to, 0, 8 * INSTRUCTION_WORDS);
		to[0] = qemu_plugin_insn_vaddr(instruction);
		to[1] = size;
		if (code && size <= 16)
			memcpy(to + 2, code, size);
		qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, READ_AND_WRITE, (void *)(uintptr_t)i);
	}
	/* Before any thread can say that it executes the block. */
	put(words, 8 * (2 + INSTRUCTION_WORDS * count));
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, (void *)(uintptr_t)number);
}

static void ended(plugin id, void *data)
{
	uint64_t end = head(END, 0, 0);
	unsigned i;

	(void)id, (void)data;
	pthread_mutex_lock(&lock);
	for (i = 0; i < THREADS; i++)
		if (threads[i])
			hand_over(i, threads[i]);
	put(&end, sizeof(end));
	pthread_mutex_unlock(&lock);
}

EXPORT int qemu_plugin_install(plugin id, const void *info, int count, char **arguments)
{
	(void)info;
	if (count != 1 || strncmp(arguments[0], "out=", 4))
		return -1;
	out = atoi(arguments[0] + 4);
	own = getpid();
	put("DPBTRAC1", 8);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return out < 0 ? -1 : 0;
}
