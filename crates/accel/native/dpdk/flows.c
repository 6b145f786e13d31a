/* Flows by rte_hash: keys of a fixed length, and beside the table a line for each position with what is counted. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_net.h>
#include <rte_prefetch.h>

#include "libraries.h"

#define SLACK ((size_t)16 << 20)
/* Of an entry: its line here, and of rte_hash its key with what stands beside, its part of buckets that may be as many again, and its number in a ring. */
#define ENTRY_BYTES ((size_t)64 + 64 + 64 + 16)
/* Keys of a bulk call at most, as rte_hash has it. */
#define BULK RTE_HASH_LOOKUP_BULK_MAX
/* Packets ahead of the one whose headers are read, which are asked for; of 4, 8, 12 and 16 the fastest. */
#define AHEAD 12

struct line {
	uint64_t packets;
	uint64_t bytes;
	/* The call that began the flow. */
	uint64_t call;
	uint32_t last;
} __rte_cache_aligned;

struct dpb_flow_table {
	struct dpb_heap heap;
	struct rte_hash *hash;
	struct line *lines;
	/* What was received last. */
	struct rte_mbuf *mbufs;
	uint32_t received;
	/* The number of the newest call that begins flows. */
	uint64_t call;
	uint32_t key_len;
};

static void flows_close(struct dpb_flow_table *own)
{
	rte_hash_free(own->hash);
	rte_free(own->lines);
	rte_free(own->mbufs);
	dpb_heap_close(&own->heap);
	free(own);
}

static int flows_open(uint32_t entries, uint32_t key_len, struct dpb_flow_table **opened)
{
	struct dpb_flow_table *own = calloc(1, sizeof(*own));
	struct rte_hash_parameters parameters = {
		.entries = entries, .key_len = key_len, .hash_func = rte_hash_crc, .hash_func_init_val = 0};
	char name[16];
	int error;

	if (own == NULL)
		return -ENOMEM;
	own->key_len = key_len;
	error = dpb_heap_open(&own->heap, ((size_t)entries + 64) * 2 * ENTRY_BYTES + SLACK);
	if (error != 0) {
		free(own);
		return error;
	}
	dpb_name(name);
	parameters.name = name;
	parameters.socket_id = own->heap.socket;
	own->hash = rte_hash_create(&parameters);
	if (own->hash != NULL) {
		size_t lines = (size_t)rte_hash_max_key_id(own->hash) + 1;

		own->lines = rte_zmalloc_socket(NULL, lines * sizeof(*own->lines), sizeof(*own->lines), own->heap.socket);
		own->mbufs = rte_zmalloc_socket(NULL, DPB_RECEIVED_MAX * sizeof(*own->mbufs), RTE_CACHE_LINE_SIZE, own->heap.socket);
	}
	if (own->lines != NULL && own->mbufs != NULL) {
		*opened = own;
		return 0;
	}
	error = rte_errno > 0 ? -rte_errno : -ENOMEM;
	flows_close(own);
	return error;
}

static inline const uint8_t *key_of(const struct dpb_flow_table *own, const uint8_t *keys, uint32_t i)
{
	return keys + (size_t)i * own->key_len;
}

static void flows_hashes(const struct dpb_flow_table *own, const uint8_t *keys, uint32_t n, uint32_t *hashes)
{
	for (uint32_t i = 0; i < n; i++)
		hashes[i] = rte_hash_hash(own->hash, key_of(own, keys, i));
}

/* Begins a flow with a packet. rte_hash answers with the same position for a key that it has already, so the second packet of a flow that this very
 * call began is counted there. No key is removed during a call. */
static inline bool begin(struct dpb_flow_table *own, const uint8_t *key, uint32_t hash, uint32_t len, uint32_t now)
{
	int32_t at = rte_hash_add_key_with_hash(own->hash, key, hash);
	struct line *line;

	if (at < 0)
		return false;
	line = &own->lines[at];
	if (line->call != own->call)
		*line = (struct line){.call = own->call};
	line->packets++;
	line->bytes += len;
	line->last = now;
	return true;
}

static uint32_t flows_add(struct dpb_flow_table *own, const uint8_t *keys, const uint32_t *hashes, const uint32_t *lens,
			  uint32_t n, uint32_t now)
{
	uint32_t refused = 0;

	own->call++;
	for (uint32_t i = 0; i < n; i++)
		refused += !begin(own, key_of(own, keys, i), hashes[i], lens[i], now);
	return refused;
}

static uint32_t flows_remove(struct dpb_flow_table *own, const uint8_t *keys, const uint32_t *hashes, uint32_t n)
{
	uint32_t removed = 0;

	for (uint32_t i = 0; i < n; i++)
		removed += rte_hash_del_key_with_hash(own->hash, key_of(own, keys, i), hashes[i]) >= 0;
	return removed;
}

/* One bulk call, and what it found counted. */
static inline uint32_t count_bulk(struct dpb_flow_table *own, const uint8_t *keys, uint32_t *hashes, const uint32_t *lens,
				  uint32_t n, uint32_t now, int32_t *at)
{
	const void *places[BULK];
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		places[i] = key_of(own, keys, i);
	rte_hash_lookup_with_hash_bulk(own->hash, places, hashes, n, at);
	for (uint32_t i = 0; i < n; i++)
		if (at[i] >= 0)
			rte_prefetch0(&own->lines[at[i]]);
	for (uint32_t i = 0; i < n; i++) {
		struct line *line;

		if (at[i] < 0)
			continue;
		line = &own->lines[at[i]];
		line->packets++;
		line->bytes += lens[i];
		line->last = now;
		found++;
	}
	return found;
}

static uint32_t flows_count(struct dpb_flow_table *own, const uint8_t *keys, uint32_t *hashes, const uint32_t *lens, uint32_t n,
			    uint32_t size, uint32_t now)
{
	int32_t at[BULK];
	uint32_t found = 0;

	size = RTE_MIN(size, (uint32_t)BULK);
	for (uint32_t first = 0; first < n; first += size)
		found += count_bulk(own, key_of(own, keys, first), hashes + first, lens + first, RTE_MIN(n - first, size), now,
				    at);
	return found;
}

static uint32_t flows_pass(struct dpb_flow_table *own, const uint8_t *keys, uint32_t *hashes, const uint32_t *lens, uint32_t n,
			   uint32_t now)
{
	int32_t at[BULK];
	uint32_t refused = 0;

	own->call++;
	for (uint32_t first = 0; first < n; first += BULK) {
		uint32_t count = RTE_MIN(n - first, (uint32_t)BULK);

		if (count_bulk(own, key_of(own, keys, first), hashes + first, lens + first, count, now, at) == count)
			continue;
		for (uint32_t i = 0; i < count; i++)
			if (at[i] < 0)
				refused += !begin(own, key_of(own, keys, first + i), hashes[first + i], lens[first + i], now);
	}
	return refused;
}

static void flows_receive(struct dpb_flow_table *own, const uint8_t *const *frames, const uint32_t *lens, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = &own->mbufs[i];

		m->buf_addr = (void *)(uintptr_t)frames[i];
		m->buf_len = m->data_len = (uint16_t)lens[i];
		m->pkt_len = lens[i];
		m->nb_segs = 1;
	}
	own->received = n;
}

static inline void ask_for(const struct rte_mbuf *m)
{
	rte_prefetch0(rte_pktmbuf_mtod(m, const void *));
}

/* The five-tuple of a packet of TCP or UDP over IPv4, as it stands in the packet; false of others. */
static inline bool read_key(const struct rte_mbuf *m, uint8_t key[DPB_TUPLE_BYTES])
{
	struct rte_net_hdr_lens lens;
	uint32_t type = rte_net_get_ptype(m, &lens, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK);
	uint32_t l4 = type & RTE_PTYPE_L4_MASK;
	const uint8_t *ip, *ports;

	if (!RTE_ETH_IS_IPV4_HDR(type) || (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP))
		return false;
	/* It says what UDP is without a look at its header. */
	if (lens.l2_len + lens.l3_len + 4 > m->data_len)
		return false;
	ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, lens.l2_len);
	ports = ip + lens.l3_len;
	memset(key, 0, DPB_TUPLE_BYTES);
	memcpy(key, ip + 12, 8);
	memcpy(key + 8, ports, 4);
	key[12] = l4 == RTE_PTYPE_L4_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	return true;
}

static uint32_t flows_work(struct dpb_flow_table *own, uint32_t burst, uint32_t now)
{
	uint8_t keys[DPB_RECEIVED_MAX * DPB_TUPLE_BYTES];
	uint32_t hashes[DPB_RECEIVED_MAX], lens[DPB_RECEIVED_MAX];
	uint32_t without = 0;

	for (uint32_t first = 0; first < own->received; first += burst) {
		const struct rte_mbuf *packets = own->mbufs + first;
		uint32_t n = RTE_MIN(own->received - first, burst), count = 0;

		for (uint32_t i = 0; i < RTE_MIN(n, (uint32_t)AHEAD); i++)
			ask_for(&packets[i]);
		for (uint32_t i = 0; i < n; i++) {
			uint8_t *key = keys + (size_t)count * DPB_TUPLE_BYTES;

			if (i + AHEAD < n)
				ask_for(&packets[i + AHEAD]);
			if (!read_key(&packets[i], key)) {
				without++;
				continue;
			}
			hashes[count] = rte_hash_crc(key, DPB_TUPLE_BYTES, 0);
			lens[count++] = packets[i].pkt_len;
		}
		without += flows_pass(own, keys, hashes, lens, count, now);
	}
	return without;
}

static uint64_t flows_packets(const struct dpb_flow_table *own, const uint8_t *key)
{
	int32_t at = rte_hash_lookup(own->hash, key);

	return at < 0 ? 0 : own->lines[at].packets;
}

const struct dpb_flows AT_LEVEL(dpb_flows) = {
	.open = flows_open,
	.hashes = flows_hashes,
	.add = flows_add,
	.remove = flows_remove,
	.count = flows_count,
	.pass = flows_pass,
	.receive = flows_receive,
	.work = flows_work,
	.packets = flows_packets,
	.close = flows_close,
};
