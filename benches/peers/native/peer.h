/* What a peer written in C gives, and what it gets. One file per library; Rust calls it through these types alone. */
#ifndef DPB_PEER_H
#define DPB_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One item and the slot for what comes of it. `written` is UINT32_MAX for a refusal. */
struct item {
	const uint8_t *src;
	uint8_t *dst;
	uint32_t len;
	uint32_t room;
	uint32_t written;
};

/* What is computed, by the names that records use, and all items of one batch. Lives as long as the peer. */
struct task {
	const char *operator_name;
	const char *parameters; /* "format=raw,level=6," */
	const uint8_t *material; /* the key, route list or rules, if the operator has one */
	size_t material_len;
	struct item *items;
	size_t count;
};

/* A peer that is ready. Everything that a program does once is done; what it does for each batch is `run`, which is timed. */
struct peer {
	void (*run)(struct peer *);
	/* Outputs into the items' slots, in the order of bytes that the operator has; not timed. May be NULL. */
	void (*finish)(struct peer *);
	void (*free)(struct peer *);
	const struct task *task;
};

static inline int is(const struct task *task, const char *operator_name)
{
	return strcmp(task->operator_name, operator_name) == 0;
}

static inline int has(const struct task *task, const char *parameter)
{
	size_t len = strlen(parameter);
	for (const char *at = task->parameters; (at = strstr(at, parameter)); at++)
		if ((at == task->parameters || at[-1] == ',') && at[len] == ',')
			return 1;
	return 0;
}

/* The number of `name=`, or -1. */
static inline long number(const struct task *task, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = task->parameters; (at = strstr(at, name)); at++)
		if ((at == task->parameters || at[-1] == ',') && at[len] == '=')
			return strtol(at + len + 1, NULL, 10);
	return -1;
}

static inline void put_be16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value & 0xff;
}

/* Zeroed, or the end: a bench without memory has nothing to say. */
static inline void *room(size_t bytes)
{
	void *at = calloc(1, bytes ? bytes : 1);
	if (!at)
		abort();
	return at;
}

#endif
