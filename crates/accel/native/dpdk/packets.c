/* Packets that are cut and put together: rte_gso and rte_ip_frag, on IPv4 without options. What is set up for a batch can be run
 * on it again and again, packets in mbufs that are there before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_gso.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_tcp.h>

#include "libraries.h"

#define HEADER sizeof(struct rte_ipv4_hdr)
/* Most pieces of one packet. */
#define PIECES_MAX 2048
/* What a buffer has room for, the headroom included; what a pool and an mbuf put around it. */
#define WHOLE_BYTES UINT16_MAX
#define PIECE_BYTES (DPB_PIECE_MAX + RTE_PKTMBUF_HEADROOM)
#define MBUF_BYTES 512
#define CACHE 256
/* For pools themselves, their caches above all, the table of datagrams that wait, and what pages leave over. */
#define SLACK ((size_t)64 << 20)
/* Pieces of datagrams that are put together at once. */
#define WAITING 4096
/* Of the table: places that a key has in a bucket. */
#define BUCKETS 1024
#define PLACES 16

struct dpb_pieces {
	uint32_t kind;
	struct dpb_item *items;
	uint32_t n;
	struct dpb_heap heap;
	struct rte_mempool *whole, *direct, *indirect;
	struct rte_mbuf **in;
	struct rte_mbuf **out; /* of the last run */
	uint16_t *counts;      /* of each item */
	size_t out_count;
	uint32_t mtu;
	struct rte_gso_ctx gso;
	/* Reassembly: */
	struct rte_ip_frag_tbl *table;
	struct rte_ip_frag_death_row dead;
	struct rte_mbuf_ext_shared_info shared;
	uint8_t *bytes; /* the items', which are written to, with each first header behind */
};

/* Pools have caches for the threads that EAL knows, as an application's are; so ours is one of them while it has packets. */
static __thread unsigned int uses;
static __thread int is_registered;

static void thread_enter(void)
{
	if (uses++ == 0 && rte_lcore_id() == LCORE_ID_ANY)
		is_registered = rte_thread_register() == 0;
}

static void thread_leave(void)
{
	if (--uses == 0 && is_registered) {
		rte_thread_unregister();
		is_registered = 0;
	}
}

static void drop_output(struct dpb_pieces *own)
{
	rte_pktmbuf_free_bulk(own->out, (unsigned int)own->out_count);
	own->out_count = 0;
}

static void pieces_close(struct dpb_pieces *own)
{
	if (own->out != NULL)
		drop_output(own);
	for (uint32_t i = 0; own->in != NULL && i < own->n; i++)
		rte_pktmbuf_free(own->in[i]);
	if (own->table != NULL)
		rte_ip_frag_table_destroy(own->table);
	rte_mempool_free(own->whole);
	rte_mempool_free(own->direct);
	rte_mempool_free(own->indirect);
	dpb_heap_close(&own->heap);
	free(own->in);
	free(own->out);
	free(own->counts);
	free(own->bytes);
	free(own);
	thread_leave();
}

static struct rte_mempool *pool(const struct dpb_pieces *own, size_t n, unsigned int cache, uint16_t room)
{
	char name[16];

	dpb_name(name);
	return rte_pktmbuf_pool_create(name, (unsigned int)n, cache, 0, room, own->heap.socket);
}

/* With room for so many pieces at once. */
static int set_up(struct dpb_pieces *own, size_t pieces)
{
	own->in = calloc(own->n, sizeof(*own->in));
	own->out = calloc(pieces + PIECES_MAX, sizeof(*own->out));
	own->counts = calloc(own->n, sizeof(*own->counts));
	if (own->in == NULL || own->out == NULL || own->counts == NULL)
		return -ENOMEM;
	own->whole = pool(own, own->n + 7, 0, WHOLE_BYTES);
	own->direct = pool(own, pieces + 511, CACHE, PIECE_BYTES);
	own->indirect = pool(own, pieces + 511, CACHE, 0);
	return own->whole != NULL && own->direct != NULL && own->indirect != NULL ? 0 : -ENOMEM;
}

static int load(struct dpb_pieces *own)
{
	for (uint32_t i = 0; i < own->n; i++) {
		const struct dpb_item *item = &own->items[i];
		struct rte_mbuf *packet = own->in[i] = rte_pktmbuf_alloc(own->whole);
		char *bytes = packet == NULL ? NULL : rte_pktmbuf_append(packet, (uint16_t)item->len);

		if (bytes == NULL)
			return -ENOMEM;
		memcpy(bytes, item->src, item->len);
		packet->l3_len = HEADER;
	}
	return 0;
}

static void checksum(struct rte_ipv4_hdr *ip)
{
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
}

static int gso_open(struct dpb_pieces *own, uint32_t mss)
{
	int error = load(own);

	for (uint32_t i = 0; error == 0 && i < own->n; i++) {
		own->in[i]->l4_len = (own->items[i].src[HEADER + 12] >> 4) * 4;
		own->in[i]->packet_type = RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP;
		own->in[i]->tso_segsz = (uint16_t)mss;
		own->gso.gso_size = (uint16_t)(HEADER + own->in[i]->l4_len + mss);
	}
	own->gso.direct_pool = own->direct;
	own->gso.indirect_pool = own->indirect;
	own->gso.gso_types = RTE_ETH_TX_OFFLOAD_TCP_TSO;
	return error;
}

/* rte_gso leaves the checksums as they were; they are added here, as every user of it must. */
static void finish_segment(struct rte_mbuf *segment, int is_first)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(segment, struct rte_ipv4_hdr *);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

	checksum(ip);
	/* It clears FIN and PSH before the last segment, but leaves CWR on all (RFC 3168: the first alone). */
	if (!is_first)
		tcp->tcp_flags &= (uint8_t)~RTE_TCP_CWR_FLAG;
	tcp->cksum = 0;
	tcp->cksum = rte_ipv4_udptcp_cksum_mbuf(segment, ip, HEADER);
}

static void gso_run(struct dpb_pieces *own)
{
	int is_descriptor = own->kind == DPB_GSO_DESCRIPTORS;

	if (is_descriptor)
		drop_output(own);
	for (uint32_t i = 0; i < own->n; i++) {
		struct dpb_item *item = &own->items[i];
		struct rte_mbuf *packet = own->in[i], **out = own->out + own->out_count;
		uint8_t *dst = item->dst;
		int count;

		packet->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
		count = rte_gso_segment(packet, &own->gso, out, PIECES_MAX);
		for (int n = 0; n < count; n++) {
			finish_segment(out[n], n == 0);
			for (struct rte_mbuf *part = is_descriptor ? NULL : out[n]; part != NULL; part = part->next) {
				rte_memcpy(dst, rte_pktmbuf_mtod(part, void *), part->data_len);
				dst += part->data_len;
			}
		}
		item->written = (uint32_t)(dst - item->dst);
		own->counts[i] = count < 0 ? 0 : (uint16_t)count;
		if (is_descriptor)
			own->out_count += own->counts[i];
		else
			rte_pktmbuf_free_bulk(out, own->counts[i]);
	}
}

static void gso_finish(struct dpb_pieces *own)
{
	struct rte_mbuf **out = own->out;

	for (uint32_t i = 0; own->kind == DPB_GSO_DESCRIPTORS && i < own->n; i++) {
		struct dpb_item *item = &own->items[i];
		uint8_t *dst = item->dst;

		for (uint16_t n = 0; n < own->counts[i]; n++, out++) {
			uint16_t headers = (*out)->data_len, payload = (uint16_t)((*out)->pkt_len - headers);
			uint32_t at = (uint32_t)(rte_pktmbuf_mtod((*out)->next, uint8_t *) -
						 rte_pktmbuf_mtod(own->in[i], uint8_t *));
			size_t whole = RTE_ALIGN_CEIL((size_t)8 + headers, 64);

			memset(dst, 0, whole);
			memcpy(dst, &at, 4);
			memcpy(dst + 4, &payload, 2);
			memcpy(dst + 6, &headers, 2);
			memcpy(dst + 8, rte_pktmbuf_mtod(*out, void *), headers);
			dst += whole;
		}
		item->written = (uint32_t)(dst - item->dst);
	}
}

static void fragment_run(struct dpb_pieces *own)
{
	drop_output(own);
	for (uint32_t i = 0; i < own->n; i++) {
		struct rte_mbuf **out = own->out + own->out_count;
		int count = rte_ipv4_fragment_copy_nonseg_packet(own->in[i], out, PIECES_MAX, (uint16_t)own->mtu,
								 own->direct);

		for (int n = 0; n < count; n++)
			checksum(rte_pktmbuf_mtod(out[n], struct rte_ipv4_hdr *));
		own->counts[i] = count < 0 ? 0 : (uint16_t)count;
		own->out_count += own->counts[i];
	}
}

static void fragment_finish(struct dpb_pieces *own)
{
	struct rte_mbuf **out = own->out;

	for (uint32_t i = 0; i < own->n; i++) {
		struct dpb_item *item = &own->items[i];

		item->written = 0;
		for (uint16_t n = 0; n < own->counts[i]; n++, out++) {
			memcpy(item->dst + item->written, rte_pktmbuf_mtod(*out, void *), (*out)->data_len);
			item->written += (*out)->data_len;
		}
	}
}

/* Never called: nobody gives these bytes back one by one. */
static void keep(void *memory, void *opaque)
{
	RTE_SET_USED(memory);
	RTE_SET_USED(opaque);
}

static int is_first(const struct rte_ipv4_hdr *ip)
{
	return !(ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_OFFSET_MASK));
}

static int reassembly_open(struct dpb_pieces *own)
{
	size_t bytes = 0;
	uint8_t *at;

	for (uint32_t i = 0; i < own->n; i++)
		bytes += (size_t)own->items[i].len * 2;
	at = own->bytes = malloc(bytes);
	if (at == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < own->n; i++) {
		uint8_t *end = at + own->items[i].len, *first = end;

		memcpy(at, own->items[i].src, own->items[i].len);
		while (at < end) {
			struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)at;

			if (is_first(ip)) {
				memcpy(first, at, HEADER);
				first += HEADER;
			}
			at += rte_be_to_cpu_16(ip->total_length);
		}
		at = first;
	}
	own->shared.free_cb = keep;
	rte_mbuf_ext_refcnt_set(&own->shared, 1);
	own->table = rte_ip_frag_table_create(BUCKETS, PLACES, BUCKETS * PLACES, rte_get_tsc_hz() * 3600,
					      own->heap.socket);
	return own->table == NULL ? -ENOMEM : 0;
}

/* A fragment in an mbuf, without copying, as a driver would have it. */
static struct rte_mbuf *fragment_at(struct dpb_pieces *own, struct rte_ipv4_hdr *ip)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(own->indirect);
	uint16_t len = rte_be_to_cpu_16(ip->total_length);

	if (packet == NULL)
		return NULL;
	rte_mbuf_ext_refcnt_update(&own->shared, 1);
	rte_pktmbuf_attach_extbuf(packet, ip, 0, len, &own->shared);
	packet->data_len = len;
	packet->pkt_len = len;
	packet->l3_len = HEADER;
	return packet;
}

/* What became whole is copied out. */
static void reassembly_run(struct dpb_pieces *own)
{
	uint8_t *at = own->bytes;
	uint64_t now = rte_rdtsc();

	for (uint32_t i = 0; i < own->n; i++) {
		struct dpb_item *item = &own->items[i];
		uint8_t *end = at + item->len, *first = end;

		item->written = 0;
		while (at < end) {
			struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)at;
			struct rte_mbuf *packet;

			if (is_first(ip)) {
				memcpy(ip, first, HEADER); /* The last run has written to it. */
				first += HEADER;
			}
			at += rte_be_to_cpu_16(ip->total_length);
			/* One call adds less than is left beyond this, and nobody looks how much there is. */
			if (own->dead.cnt > RTE_IP_FRAG_DEATH_ROW_LEN)
				rte_ip_frag_free_death_row(&own->dead, 0);
			packet = fragment_at(own, ip);
			if (packet != NULL && rte_ipv4_frag_pkt_is_fragmented(ip))
				packet = rte_ipv4_frag_reassemble_packet(own->table, &own->dead, packet, now, ip);
			if (packet == NULL)
				continue;
			/* Fragments of an earlier item may have become whole with this one's. */
			if (packet->pkt_len > item->room - item->written) {
				rte_pktmbuf_free(packet);
				continue;
			}
			checksum(rte_pktmbuf_mtod(packet, struct rte_ipv4_hdr *));
			for (struct rte_mbuf *part = packet; part != NULL; part = part->next) {
				rte_memcpy(item->dst + item->written, rte_pktmbuf_mtod(part, void *), part->data_len);
				item->written += part->data_len;
			}
			rte_pktmbuf_free(packet);
		}
		rte_ip_frag_free_death_row(&own->dead, 0);
		at = first;
	}
}

static int pieces_open(uint32_t kind, uint32_t bytes, struct dpb_item *items, uint32_t n, struct dpb_pieces **opened)
{
	struct dpb_pieces *own = calloc(1, sizeof(*own));
	size_t pieces = kind == DPB_REASSEMBLY ? WAITING : 0;
	int error;

	if (own == NULL)
		return -ENOMEM;
	own->kind = kind;
	own->items = items;
	own->n = n;
	own->mtu = bytes;
	/* A fragment has less of the payload than of the MTU. */
	for (uint32_t i = 0; kind != DPB_REASSEMBLY && i < n; i++)
		pieces += items[i].len / (kind == DPB_FRAGMENTS ? bytes - HEADER - 8 : bytes) + 1;
	error = dpb_heap_open(&own->heap, ((size_t)n + 8) * (WHOLE_BYTES + MBUF_BYTES) * 5 / 4 +
						  (pieces + 512) * (PIECE_BYTES + 2 * MBUF_BYTES) * 5 / 4 + SLACK);
	if (error != 0) {
		free(own);
		return error;
	}
	thread_enter();
	error = set_up(own, pieces);
	if (error == 0)
		error = kind == DPB_REASSEMBLY ? reassembly_open(own) :
			kind == DPB_FRAGMENTS  ? load(own) :
						 gso_open(own, bytes);
	if (error != 0) {
		pieces_close(own);
		return error;
	}
	*opened = own;
	return 0;
}

static void pieces_run(struct dpb_pieces *own)
{
	if (own->kind == DPB_REASSEMBLY)
		reassembly_run(own);
	else if (own->kind == DPB_FRAGMENTS)
		fragment_run(own);
	else
		gso_run(own);
}

static void pieces_finish(struct dpb_pieces *own)
{
	if (own->kind == DPB_FRAGMENTS)
		fragment_finish(own);
	else if (own->kind != DPB_REASSEMBLY)
		gso_finish(own);
}

const struct dpb_packets AT_LEVEL(dpb_packets) = {
	.open = pieces_open,
	.run = pieces_run,
	.finish = pieces_finish,
	.close = pieces_close,
};
