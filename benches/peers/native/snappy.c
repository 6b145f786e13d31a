/* Snappy by its authors, through its C interface, as the distribution builds it. */
#include "peer.h"

#include <snappy-c.h>

const char *snappy_version(void)
{
	return "of the system";
}

static void compress(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		size_t len = item->room;
		item->written =
			snappy_compress((const char *)item->src, item->len, (char *)item->dst, &len) == SNAPPY_OK ? len : UINT32_MAX;
	}
}

static void uncompress(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		size_t len = item->room;
		item->written =
			snappy_uncompress((const char *)item->src, item->len, (char *)item->dst, &len) == SNAPPY_OK ? len : UINT32_MAX;
	}
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *snappy_peer(const char *name, const struct task *task)
{
	struct peer *peer = room(sizeof(*peer));
	(void)name;
	*peer = (struct peer){ is(task, "snappy") ? compress : uncompress, NULL, release, task };
	return peer;
}
