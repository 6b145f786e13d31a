/* isa-l: CRCs, one call an item as the library has it, its DEFLATE (igzip), and its erasure codes. */
#include "peer.h"

#include <isa-l.h>
#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <isa-l/erasure_code.h>
#include <isa-l/igzip_lib.h>

#define STRINGIFIED_(text) #text
#define STRINGIFIED(text) STRINGIFIED_(text)

const char *isal_version(void)
{
	return STRINGIFIED(ISAL_MAJOR_VERSION) "." STRINGIFIED(ISAL_MINOR_VERSION) "." STRINGIFIED(ISAL_PATCH_VERSION);
}

static void crc32c(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		uint32_t crc = ~crc32_iscsi((unsigned char *)src_of(&task, i), len_of(&task, i), 0xffffffff);
		memcpy(dst_of(&task, i), &crc, 4);
	}
}

static void crc32(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		uint32_t crc = crc32_gzip_refl(0, src_of(&task, i), len_of(&task, i));
		memcpy(dst_of(&task, i), &crc, 4);
	}
}

static void t10dif(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		put_be16(dst_of(&task, i), crc16_t10dif(0, src_of(&task, i), len_of(&task, i)));
	}
}

struct igzip {
	struct peer peer;
	int level, wrapper;
	uint32_t room;
	uint8_t *buffer;
};

static void deflate(struct peer *peer, const struct task *given)
{
	struct igzip *own = (struct igzip *)peer;
	struct isal_zstream stream;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		isal_deflate_stateless_init(&stream);
		stream.level = own->level;
		stream.level_buf = own->buffer;
		stream.level_buf_size = own->room;
		stream.gzip_flag = own->wrapper;
		stream.end_of_stream = 1;
		stream.flush = NO_FLUSH;
		stream.hist_bits = 0;
		stream.next_in = (uint8_t *)src_of(&task, i);
		stream.avail_in = len_of(&task, i);
		stream.next_out = dst_of(&task, i);
		stream.avail_out = task.slot;
		wrote(&task, i, isal_deflate_stateless(&stream) == COMP_OK ? task.slot - stream.avail_out : UINT32_MAX);
	}
}

static void inflate(struct peer *peer, const struct task *given)
{
	struct igzip *own = (struct igzip *)peer;
	struct inflate_state state;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		isal_inflate_init(&state);
		state.crc_flag = own->wrapper;
		state.next_in = (uint8_t *)src_of(&task, i);
		state.avail_in = len_of(&task, i);
		state.next_out = dst_of(&task, i);
		state.avail_out = task.slot;
		wrote(&task, i, isal_inflate_stateless(&state) == ISAL_DECOMP_OK ? state.total_out : UINT32_MAX);
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

static void erasure(struct peer *peer, const struct task *given)
{
	struct erasure *own = (struct erasure *)peer;
	uint8_t *inputs[BLOCKS_MAX], *outputs[BLOCKS_MAX];
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		uint32_t block = len_of(&task, i) / own->inputs;
		for (int j = 0; j < own->inputs; j++)
			inputs[j] = (uint8_t *)src_of(&task, i) + j * (size_t)block;
		for (int j = 0; j < own->outputs; j++)
			outputs[j] = dst_of(&task, i) + j * (size_t)block;
		ec_encode_data(block, own->inputs, own->outputs, own->tables, inputs, outputs);
		wrote(&task, i, own->outputs * block);
	}
}

static void release_erasure(struct peer *peer)
{
	free(((struct erasure *)peer)->tables);
	free(peer);
}

/* Of missing data blocks the rows are those of the inverse of what the remaining blocks are computed by. */
static int recovers(const struct spec *spec, const uint8_t *code, int data, int blocks, uint8_t *rows)
{
	uint8_t *remain = room(data * data), *inverse = room(data * data), is_missing[BLOCKS_MAX] = { 0 };
	const char *at = strstr(spec->parameters, "missing=") + strlen("missing=");
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
static struct peer *erasure_peer(const struct spec *spec)
{
	int data = number(spec, "data"), parity = number(spec, "parity"), blocks = data + parity;
	uint8_t *code = room(blocks * data), *rows = room(blocks * data);
	struct erasure *own = room(sizeof(*own));
	own->peer.run = erasure;
	own->peer.free = release_erasure;
	own->inputs = data;
	own->outputs = parity;
	gf_gen_cauchy1_matrix(code, blocks, data);
	if (is(spec, "erasure-recover"))
		own->outputs = recovers(spec, code, data, blocks, rows);
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

struct peer *isal_peer(const char *name, const struct spec *spec, const struct task *task)
{
	static const uint32_t level_bytes[] = { 0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT };
	struct igzip *own = room(sizeof(*own));
	(void)name, (void)task;
	if (is(spec, "erasure-encode") || is(spec, "erasure-recover")) {
		free(own);
		return erasure_peer(spec);
	}
	own->peer.free = release;
	if (is(spec, "crc32c"))
		own->peer.run = crc32c;
	else if (is(spec, "crc32"))
		own->peer.run = crc32;
	else if (is(spec, "crc16-t10dif"))
		own->peer.run = t10dif;
	else if (is(spec, "deflate")) {
		if (number(spec, "level") > ISAL_DEF_MAX_LEVEL) {
			free(own);
			return NULL;
		}
		own->level = number(spec, "level");
		own->room = level_bytes[own->level];
		own->buffer = room(own->room);
		own->wrapper = has(spec, "format=zlib") ? IGZIP_ZLIB : has(spec, "format=gzip") ? IGZIP_GZIP : IGZIP_DEFLATE;
		own->peer.run = deflate;
	} else if (is(spec, "inflate")) {
		own->wrapper = has(spec, "format=zlib") ? ISAL_ZLIB : has(spec, "format=gzip") ? ISAL_GZIP : ISAL_DEFLATE;
		own->peer.run = inflate;
	} else {
		free(own);
		return NULL;
	}
	return &own->peer;
}
