/* What a peer written in C gives, and what it gets. One file per library; Rust calls it through these types alone. */
#ifndef DPB_PEER_H
#define DPB_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What is computed, by the names that records use. Lives while a peer is set up. */
struct spec {
	const char *operator_name;
	const char *parameters; /* "format=raw,level=6," */
	const uint8_t *material; /* the key, route list or rules, if the operator has one; the keys of sessions, one behind another */
	size_t material_len;
};

/* All items of one call, described as dpb's own kernels have them: items of one length lie `stride` bytes apart, others begin and end
 * where `offsets` say; item i writes to slot i. */
struct task {
	const uint8_t *src;
	const uint32_t *offsets; /* count + 1 of them; NULL if all items have the length `stride` */
	size_t stride;
	uint8_t *dst;
	size_t slot;
	uint32_t *written; /* bytes of each output, UINT32_MAX for a refusal; NULL if all fill their slots */
	size_t count;
};

/* A peer that is ready. Everything that a program does once is done; what it does for each batch is `run`, which is timed. */
struct peer {
	void (*run)(struct peer *, const struct task *);
	/* Outputs into the slots, in the order of bytes that the operator has; not timed. May be NULL. */
	void (*finish)(struct peer *, const struct task *);
	void (*free)(struct peer *);
};

/* Item `i`. The loops that call this work on a copy of the task: a store into a slot might change the task itself, for all that the
 * compiler knows. */
static inline const uint8_t *src_of(const struct task *task, size_t i)
{
	return task->src + (task->offsets ? task->offsets[i] : i * task->stride);
}

static inline uint32_t len_of(const struct task *task, size_t i)
{
	return task->offsets ? task->offsets[i + 1] - task->offsets[i] : task->stride;
}

static inline uint8_t *dst_of(const struct task *task, size_t i)
{
	return task->dst + i * task->slot;
}

static inline void wrote(const struct task *task, size_t i, uint32_t bytes)
{
	if (task->written)
		task->written[i] = bytes;
}

static inline int is(const struct spec *spec, const char *operator_name)
{
	return strcmp(spec->operator_name, operator_name) == 0;
}

static inline int has(const struct spec *spec, const char *parameter)
{
	size_t len = strlen(parameter);
	for (const char *at = spec->parameters; (at = strstr(at, parameter)); at++)
		if ((at == spec->parameters || at[-1] == ',') && at[len] == ',')
			return 1;
	return 0;
}

/* The number of `name=`, or -1. */
static inline long number(const struct spec *spec, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = spec->parameters; (at = strstr(at, name)); at++)
		if ((at == spec->parameters || at[-1] == ',') && at[len] == '=')
			return strtol(at + len + 1, NULL, 10);
	return -1;
}

/* Bytes of a session's number, with which an item begins where there are sessions. */
#define SESSION 4

/* Sessions, each with a key of its own; 0 where one key serves all items. */
static inline size_t sessions(const struct spec *spec)
{
	long count = number(spec, "sessions");
	return count > 0 ? count : 0;
}

/* The session of item `i`: a number, little endian. */
static inline size_t session_of(const struct task *task, size_t i)
{
	const uint8_t *at = src_of(task, i);
	return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
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

/* Zeroed, where a line of a cache begins. */
static inline void *aligned_room(size_t bytes)
{
	void *at;
	if (posix_memalign(&at, 64, bytes))
		abort();
	return memset(at, 0, bytes);
}

#endif
