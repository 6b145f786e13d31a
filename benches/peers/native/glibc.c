/* The C library: memory and strings, one call an item. */
#include "peer.h"

#include <gnu/libc-version.h>

const char *glibc_version(void)
{
	return gnu_get_libc_version();
}

static void copy(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		memcpy(item->dst, item->src, item->len);
		item->written = item->len;
	}
}

static void compare(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		const char *first = (const char *)item->src;
		int order = strcmp(first, first + item->len / 2);
		*item->dst = (order > 0) - (order < 0);
		item->written = 1;
	}
}

static void join(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		const char *first = (const char *)item->src;
		strcpy((char *)item->dst, first);
		strcat((char *)item->dst, first + item->len / 2);
	}
}

static void joined(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		item->written = strlen((char *)item->dst) + 1;
	}
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *glibc_peer(const char *name, const struct task *task)
{
	struct peer *peer = room(sizeof(*peer));
	(void)name;
	peer->task = task;
	peer->free = release;
	if (is(task, "copy"))
		peer->run = copy;
	else if (is(task, "strcmp"))
		peer->run = compare;
	else if (is(task, "strcat"))
		peer->run = join, peer->finish = joined;
	else {
		free(peer);
		return NULL;
	}
	return peer;
}
