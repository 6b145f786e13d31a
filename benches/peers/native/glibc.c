/* The C library: memory and strings, one call an item. */
#define _GNU_SOURCE
#include "peer.h"

#include <gnu/libc-version.h>

const char *glibc_version(void)
{
	return gnu_get_libc_version();
}

__attribute__((noipa)) static void copy(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		memcpy(dst_of(&task, i), src_of(&task, i), len_of(&task, i));
		wrote(&task, i, len_of(&task, i));
	}
}

/* The same once more, for the bench to compare the two; the compiler must not notice. */
__attribute__((noipa)) static void copy_again(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		memcpy(dst_of(&task, i), src_of(&task, i), len_of(&task, i));
		wrote(&task, i, len_of(&task, i));
	}
}

static void compare(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const char *first = (const char *)src_of(&task, i);
		int order = strcmp(first, first + len_of(&task, i) / 2);
		*dst_of(&task, i) = (order > 0) - (order < 0);
		wrote(&task, i, 1);
	}
}

/* stpcpy, since strcat looks for an end that it has just written. */
static void join(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const char *first = (const char *)src_of(&task, i);
		char *dst = (char *)dst_of(&task, i);
		char *end = stpcpy(stpcpy(dst, first), first + len_of(&task, i) / 2);
		wrote(&task, i, end + 1 - dst);
	}
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *glibc_peer(const char *name, const struct spec *spec, const struct task *task)
{
	struct peer *peer = room(sizeof(*peer));
	(void)task;
	peer->free = release;
	if (is(spec, "copy"))
		peer->run = strcmp(name, "glibc-again") ? copy : copy_again;
	else if (is(spec, "strcmp"))
		peer->run = compare;
	else if (is(spec, "strcat"))
		peer->run = join;
	else {
		free(peer);
		return NULL;
	}
	return peer;
}
