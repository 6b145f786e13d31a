/* isa-l: CRCs, one call an item as the library has it, its DEFLATE (igzip), and its erasure codes. */
#include "peer.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <isa-l/erasure_code.h>
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

#define BLOCKS_MAX 255

struct erasure {
	struct peer peer;
	int inputs, outputs;
	uint8_t *tables;
};

static void erasure(struct peer *peer)
{
	struct erasure *own = (struct erasure *)peer;
	uint8_t *inputs[BLOCKS_MAX], *outputs[BLOCKS_MAX];
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint32_t block = item->len / own->inputs;
		for (int j = 0; j < own->inputs; j++)
			inputs[j] = (uint8_t *)item->src + j * (size_t)block;
		for (int j = 0; j < own->outputs; j++)
			outputs[j] = item->dst + j * (size_t)block;
		ec_encode_data(block, own->inputs, own->outputs, own->tables, inputs, outputs);
		item->written = own->outputs * block;
	}
}

static void release_erasure(struct peer *peer)
{
	free(((struct erasure *)peer)->tables);
	free(peer);
}

/* Of missing data blocks the rows are those of the inverse of what the remaining blocks are computed by. */
static int recovers(const struct task *task, const uint8_t *code, int data, int blocks, uint8_t *rows)
{
	uint8_t *remain = room(data * data), *inverse = room(data * data), is_missing[BLOCKS_MAX] = { 0 };
	const char *at = strstr(task->parameters, "missing=") + strlen("missing=");
	int missing = 0;
	for (char *end; *at != ','; at = *end == '+' ? end + 1 : end) {
		long block = strtol(at, &end, 10);
		if (end == at || block >= data)
			break;
		is_missing[block] = 1;
	}
	for (int block = 0, row = 0; block < blocks && row < data; block++)
		if (!is_missing[block])
			memcpy(remain + data * row++, code + data * block, data);
	if (*at == ',' && gf_invert_matrix(remain, inverse, data) == 0)
		for (int block = 0; block < data; block++)
			if (is_missing[block])
				memcpy(rows + data * missing++, inverse + data * block, data);
	free(remain);
	free(inverse);
	return missing;
}

/* NULL for what this file has no code for: a missing parity block. */
static struct peer *erasure_peer(const struct task *task)
{
	int data = number(task, "data"), parity = number(task, "parity"), blocks = data + parity;
	uint8_t *code = room(blocks * data), *rows = room(blocks * data);
	struct erasure *own = room(sizeof(*own));
	own->peer.task = task;
	own->peer.run = erasure;
	own->peer.free = release_erasure;
	own->inputs = data;
	own->outputs = parity;
	gf_gen_cauchy1_matrix(code, blocks, data);
	if (is(task, "erasure-recover"))
		own->outputs = recovers(task, code, data, blocks, rows);
	else
		memcpy(rows, code + data * data, parity * data);
	own->tables = room(32 * data * own->outputs);
	if (own->outputs)
		ec_init_tables(data, own->outputs, rows, own->tables);
	free(code);
	free(rows);
	if (own->outputs)
		return &own->peer;
	release_erasure(&own->peer);
	return NULL;
}

struct peer *isal_peer(const char *name, const struct task *task)
{
	static const uint32_t level_bytes[] = { 0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT };
	struct igzip *own = room(sizeof(*own));
	(void)name;
	if (is(task, "erasure-encode") || is(task, "erasure-recover")) {
		free(own);
		return erasure_peer(task);
	}
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
