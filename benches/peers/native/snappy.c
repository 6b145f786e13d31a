/* Snappy by its authors, through its C interface, as the distribution builds it. */
#include "peer.h"

#include <snappy-c.h>

const char *snappy_version(void)
{
	return "C interface";
}

static void compress(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		size_t len = task.slot;
		task.written[i] =
			snappy_compress((const char *)src_of(&task, i), len_of(&task, i), (char *)dst_of(&task, i), &len) == SNAPPY_OK ? len : UINT32_MAX;
	}
}

static void uncompress(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		size_t len = task.slot;
		task.written[i] =
			snappy_uncompress((const char *)src_of(&task, i), len_of(&task, i), (char *)dst_of(&task, i), &len) == SNAPPY_OK ? len : UINT32_MAX;
	}
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *snappy_peer(const char *name, const struct spec *spec, const struct task *task)
{
	struct peer *peer = room(sizeof(*peer));
	(void)name, (void)task;
	*peer = (struct peer){ is(spec, "snappy") ? compress : uncompress, NULL, release };
	return peer;
}
