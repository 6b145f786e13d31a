/* An operator that does next to nothing: each item's length, in its slot. What it costs is the harness's own. */
#include "peer.h"

const char *null_version(void)
{
	return "of the harness";
}

static void lengths(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const uint8_t *src = src_of(&task, i);
		uint32_t len = len_of(&task, i);
		__asm__ volatile("" : : "r"(&src) : "memory");
		memcpy(dst_of(&task, i), &len, 4);
	}
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *null_peer(const char *name, const struct spec *spec, const struct task *task)
{
	struct peer *peer;
	(void)name, (void)task;
	if (!is(spec, "null"))
		return NULL;
	peer = room(sizeof(*peer));
	*peer = (struct peer){ lengths, NULL, release };
	return peer;
}
