/* A plugin of qemu-user: how many instructions a program has executed, written to a file, eight bytes, whenever it asks for
 * the process group of a process that cannot be. By the number of that process it also begins and ends a recording of the
 * translation blocks that are executed, and writes them to another file: lines of
 *
 *	NUMBER TIMES SYMBOL CODE NEXT:TIMES...
 *
 * CODE is the block's instructions, eight hexadecimal digits each; NEXT are the numbers of blocks that came behind it. The few
 * declarations it needs are those of qemu-plugin.h, which distributions do not always bring along. */
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { NO_REGISTERS = 0, GETPGID = 155 };

/* What the program asks for by the process. All count; blocks are recorded between the second and the third. */
enum { COUNT = 0x0dbb0b5e, BEGIN, END, WRITE };

/* Blocks that a block is seen to go on with; a jump through a table may have more. */
enum { NEXT = 4 };

typedef uint64_t plugin;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
/* Where the instruction lies in this process. (What qemu_plugin_insn_data takes differs from version to version.) */
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin, void (*)(plugin, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin, void (*)(plugin, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
								 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));

EXPORT int qemu_plugin_version = VERSION;

struct block {
	uint32_t instructions;
	uint32_t recording; /* the last one that it was executed in */
	uint64_t number, times;
	struct block *next[NEXT];
	uint64_t next_times[NEXT];
	struct block *recorded; /* the one before it in that recording */
	const char *symbol;
	uint32_t code[];
};

static uint64_t executed, blocks;
static uint32_t recording;
static int is_recording;
static struct block *recorded, *before;
static int file = -1;
static const char *blocks_path;

static void record(struct block *block)
{
	int i;

	if (block->recording != recording) {
		block->recording = recording;
		block->times = 0;
		memset(block->next, 0, sizeof(block->next));
		memset(block->next_times, 0, sizeof(block->next_times));
		block->recorded = recorded;
		recorded = block;
	}
	block->times++;
	if (before) {
		for (i = 0; i < NEXT && before->next[i] && before->next[i] != block; i++)
			;
		if (i < NEXT) {
			before->next[i] = block;
			before->next_times[i]++;
		}
	}
	before = block;
}

static void block(unsigned cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	executed += block->instructions;
	if (is_recording)
		record(block);
}

static void translated(plugin id, struct qemu_plugin_tb *tb)
{
	size_t i, count = qemu_plugin_tb_n_insns(tb);
	struct block *made = calloc(1, sizeof(*made) + count * sizeof(made->code[0]));

	(void)id;
	if (!made)
		abort();
	made->instructions = count;
	made->number = blocks++;
	if (blocks_path) {
		made->symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
		for (i = 0; i < count; i++) {
			const void *code = qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, i));
			/* Zeros are no instruction. */
			if (code)
				memcpy(&made->code[i], code, sizeof(made->code[i]));
		}
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block, NO_REGISTERS, made);
}

static void write_blocks(void)
{
	FILE *out = fopen(blocks_path, "w");
	struct block *block;
	uint32_t i;

	if (!out)
		return;
	for (block = recorded; block; block = block->recorded) {
		const char *symbol = block->symbol && *block->symbol ? block->symbol : "?";
		fprintf(out, "%" PRIu64 " %" PRIu64 " %s ", block->number, block->times, symbol);
		for (i = 0; i < block->instructions; i++)
			fprintf(out, "%08" PRIx32, block->code[i]);
		for (i = 0; i < NEXT && block->next[i]; i++)
			fprintf(out, " %" PRIu64 ":%" PRIu64, block->next[i]->number, block->next_times[i]);
		fputc('\n', out);
	}
	fclose(out);
}

static void called(plugin id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
		   uint64_t a6, uint64_t a7, uint64_t a8)
{
	(void)id, (void)cpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
	if (number != GETPGID || a1 < COUNT || a1 > WRITE)
		return;
	is_recording = blocks_path && a1 == BEGIN;
	if (is_recording) {
		recording++;
		recorded = before = NULL;
	}
	if (a1 == WRITE && blocks_path)
		write_blocks();
	else if (write(file, &executed, sizeof(executed)) < 0)
		executed = 0;
}

EXPORT int qemu_plugin_install(plugin id, const void *info, int count, char **arguments)
{
	int i;

	(void)info;
	for (i = 0; i < count; i++) {
		if (!strncmp(arguments[i], "counts=", 7))
			file = open(arguments[i] + 7, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		else if (!strncmp(arguments[i], "blocks=", 7))
			blocks_path = strdup(arguments[i] + 7);
		else
			return -1;
	}
	if (file < 0)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_vcpu_syscall_cb(id, called);
	return 0;
}
