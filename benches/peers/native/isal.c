/* isa-l: CRCs, one call an item as the library has it, and its DEFLATE (igzip). */
#include "peer.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <isa-l/igzip_lib.h>

const char *isal_version(void)
{
	return "of the system";
}

static void crc32c(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint32_t crc = ~crc32_iscsi((unsigned char *)item->src, item->len, 0xffffffff);
		memcpy(item->dst, &crc, 4);
	}
}

static void crc32(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint32_t crc = crc32_gzip_refl(0, item->src, item->len);
		memcpy(item->dst, &crc, 4);
	}
}

static void t10dif(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		put_be16(item->dst, crc16_t10dif(0, item->src, item->len));
	}
}

static void four(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++)
		peer->task->items[i].written = 4;
}

static void two(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++)
		peer->task->items[i].written = 2;
}

struct igzip {
	struct peer peer;
	int level, wrapper;
	uint32_t room;
	uint8_t *buffer;
};

static void deflate(struct peer *peer)
{
	struct igzip *own = (struct igzip *)peer;
	struct isal_zstream stream;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		isal_deflate_stateless_init(&stream);
		stream.level = own->level;
		stream.level_buf = own->buffer;
		stream.level_buf_size = own->room;
		stream.gzip_flag = own->wrapper;
		stream.end_of_stream = 1;
		stream.flush = NO_FLUSH;
		stream.next_in = (uint8_t *)item->src;
		stream.avail_in = item->len;
		stream.next_out = item->dst;
		stream.avail_out = item->room;
		item->written = isal_deflate_stateless(&stream) == COMP_OK ? item->room - stream.avail_out : UINT32_MAX;
	}
}

static void inflate(struct peer *peer)
{
	struct igzip *own = (struct igzip *)peer;
	struct inflate_state state;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		isal_inflate_init(&state);
		state.crc_flag = own->wrapper;
		state.next_in = (uint8_t *)item->src;
		state.avail_in = item->len;
		state.next_out = item->dst;
		state.avail_out = item->room;
		item->written = isal_inflate_stateless(&state) == ISAL_DECOMP_OK ? state.total_out : UINT32_MAX;
	}
}

static void release(struct peer *peer)
{
	free(((struct igzip *)peer)->buffer);
	free(peer);
}

struct peer *isal_peer(const char *name, const struct task *task)
{
	static const uint32_t level_bytes[] = { 0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT };
	struct igzip *own = room(sizeof(*own));
	(void)name;
	own->peer.task = task;
	own->peer.free = release;
	if (is(task, "crc32c"))
		own->peer.run = crc32c, own->peer.finish = four;
	else if (is(task, "crc32"))
		own->peer.run = crc32, own->peer.finish = four;
	else if (is(task, "crc16-t10dif"))
		own->peer.run = t10dif, own->peer.finish = two;
	else if (is(task, "deflate")) {
		/* Its levels end at 3. */
		own->level = number(task, "level") <= 1 ? 1 : number(task, "level") <= 6 ? 2 : 3;
		own->room = level_bytes[own->level];
		own->buffer = room(own->room);
		own->wrapper = has(task, "format=zlib") ? IGZIP_ZLIB : has(task, "format=gzip") ? IGZIP_GZIP : IGZIP_DEFLATE;
		own->peer.run = deflate;
	} else if (is(task, "inflate")) {
		own->wrapper = has(task, "format=zlib") ? ISAL_ZLIB : has(task, "format=gzip") ? ISAL_GZIP : ISAL_DEFLATE;
		own->peer.run = inflate;
	} else {
		free(own);
		return NULL;
	}
	return &own->peer;
}
