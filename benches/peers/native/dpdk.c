/* DPDK's libraries, called as its own applications call them: bulk where there is a bulk call, packets in mbufs that exist
 * before the run, headers compiled for this CPU, vectors of 512 bits allowed. */
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_config.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ether.h>
#include <rte_ethdev.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_gso.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>
#include <rte_thash.h>
#include <rte_version.h>

const char *dpdk_version(void)
{
	return rte_version() + strlen("DPDK ");
}

/* Without hugetlbfs EAL maps a memfd, which transparent huge pages do not back. Refused one, it maps anonymous memory, and that
 * can have them, as our own tables can. */
static int is_starting;

int memfd_create(const char *name, unsigned int flags)
{
	if (is_starting) {
		errno = ENOSYS;
		return -1;
	}
	return syscall(SYS_memfd_create, name, flags);
}

static void advise_huge_pages(void)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, offset, inode;
		char access[8], device[16];
		if (sscanf(line, "%lx-%lx %7s %lx %15s %lu", &from, &to, access, &offset, device, &inode) == 6 && !inode &&
		    access[0] == 'r' && to - from > 64ul << 20)
			madvise((void *)from, to - from, MADV_HUGEPAGE);
	}
	if (maps)
		fclose(maps);
}

/* Once a process. */
static int start(void)
{
	static int is_started; /* 1: yes; -1: it cannot */
	static char *arguments[] = { "dpb",       "--no-huge", "--no-pci", "--no-telemetry",
				     "--no-shconf", "-m",      "8192",     "--log-level=3",
				     "--force-max-simd-bitwidth=512" };
	if (!is_started) {
		is_starting = 1;
		is_started = rte_eal_init(sizeof(arguments) / sizeof(*arguments), arguments) < 0 ? -1 : 1;
		is_starting = 0;
		advise_huge_pages();
	}
	return is_started == 1;
}

static void release(struct peer *peer)
{
	free(peer);
}

static void written_two(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++)
		peer->task->items[i].written = 2;
}

/* checksum */

static void raw_checksum(struct peer *peer)
{
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint16_t checksum = ~rte_raw_cksum(item->src, item->len);
		memcpy(item->dst, &checksum, 2);
	}
}

static struct peer *checksum(const struct task *task)
{
	struct peer *peer;
	if (!has(task, "form=plain"))
		return NULL;
	peer = room(sizeof(*peer));
	*peer = (struct peer){ raw_checksum, written_two, release, task };
	return peer;
}

/* toeplitz */

#if defined(__GFNI__) && defined(__AVX512F__)
#include <rte_thash_gfni.h>

enum { BULK = 64 };

struct hash {
	struct peer peer;
	uint64_t matrices[64];
	uint8_t **tuples;
	uint32_t *hashes;
	size_t count;
	int bytes;
};

static void hash_bulk(struct peer *peer)
{
	struct hash *own = (struct hash *)peer;
	for (size_t i = 0; i < own->count; i += BULK) {
		size_t count = own->count - i < BULK ? own->count - i : BULK;
		rte_thash_gfni_bulk(own->matrices, own->bytes, own->tuples + i, own->hashes + i, count);
	}
}

static void hash_finish(struct peer *peer)
{
	struct hash *own = (struct hash *)peer;
	const uint32_t *hash = own->hashes;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		item->written = item->len / own->bytes * 4;
		memcpy(item->dst, hash, item->written);
		hash += item->written / 4;
	}
}

static void hash_free(struct peer *peer)
{
	struct hash *own = (struct hash *)peer;
	free(own->tuples);
	free(own->hashes);
	free(own);
}

static struct peer *toeplitz(const struct task *task)
{
	struct hash *own;
	if (number(task, "queues") != 0)
		return NULL;
	own = room(sizeof(*own));
	own->peer = (struct peer){ hash_bulk, hash_finish, hash_free, task };
	own->bytes = has(task, "form=ipv4") ? 8 : has(task, "form=ipv4-ports") ? 12 : has(task, "form=ipv6") ? 32 : 36;
	rte_thash_complete_matrix(own->matrices, task->material, task->material_len);
	for (size_t i = 0; i < task->count; i++)
		own->count += task->items[i].len / own->bytes;
	own->tuples = room(own->count * sizeof(*own->tuples));
	own->hashes = room(own->count * sizeof(*own->hashes));
	for (size_t i = 0, n = 0; i < task->count; i++)
		for (uint32_t at = 0; at < task->items[i].len; at += own->bytes)
			own->tuples[n++] = (uint8_t *)task->items[i].src + at;
	return &own->peer;
}
#else
static struct peer *toeplitz(const struct task *task)
{
	(void)task;
	return NULL;
}
#endif

/* lpm4, lpm6 */

enum { BURST = 64 };

struct table {
	struct peer peer;
	struct rte_lpm *lpm;
	struct rte_fib *fib;
	struct rte_fib6 *fib6;
	uint64_t no_route;
	uint32_t *addresses; /* host order */
	uint8_t *addresses6;
	size_t count;
};

static int serial;

static char *fresh_name(void)
{
	static char name[16];
	snprintf(name, sizeof(name), "dpb%d", serial++);
	return name;
}

static void lpm_run(struct peer *peer)
{
	struct table *own = (struct table *)peer;
	uint32_t hops[BURST];
	for (size_t i = 0; i < own->count; i += BURST) {
		rte_lpm_lookup_bulk(own->lpm, own->addresses + i, hops, own->count - i < BURST ? own->count - i : BURST);
		__asm__ volatile("" : : "r"(hops) : "memory");
	}
}

static void fib_run(struct peer *peer)
{
	struct table *own = (struct table *)peer;
	uint64_t hops[BURST];
	for (size_t i = 0; i < own->count; i += BURST)
		rte_fib_lookup_bulk(own->fib, own->addresses + i, hops, own->count - i < BURST ? own->count - i : BURST);
}

static void fib6_run(struct peer *peer)
{
	struct table *own = (struct table *)peer;
	uint64_t hops[BURST];
	for (size_t i = 0; i < own->count; i += BURST)
		rte_fib6_lookup_bulk(own->fib6, (uint8_t(*)[16])(own->addresses6 + 16 * i), hops,
				     own->count - i < BURST ? own->count - i : BURST);
}

/* All hops, by the same bursts that are timed. */
static void table_finish(struct peer *peer)
{
	struct table *own = (struct table *)peer;
	uint32_t *hops = room(own->count * sizeof(*hops)), *next = hops;
	for (size_t i = 0; i < own->count; i += BURST) {
		unsigned count = own->count - i < BURST ? own->count - i : BURST;
		uint32_t narrow[BURST];
		uint64_t wide[BURST];
		if (own->lpm)
			rte_lpm_lookup_bulk(own->lpm, own->addresses + i, narrow, count);
		else if (own->fib)
			rte_fib_lookup_bulk(own->fib, own->addresses + i, wide, count);
		else
			rte_fib6_lookup_bulk(own->fib6, (uint8_t(*)[16])(own->addresses6 + 16 * i), wide, count);
		for (unsigned n = 0; n < count; n++)
			if (own->lpm)
				hops[i + n] = narrow[n] & RTE_LPM_LOOKUP_SUCCESS ? narrow[n] & 0xffffff : UINT32_MAX;
			else
				hops[i + n] = wide[n] == own->no_route ? UINT32_MAX : wide[n];
	}
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		item->written = item->len / (own->fib6 ? 16 : 4) * 4;
		memcpy(item->dst, next, item->written);
		next += item->written / 4;
	}
	free(hops);
}

static void table_free(struct peer *peer)
{
	struct table *own = (struct table *)peer;
	rte_lpm_free(own->lpm);
	rte_fib_free(own->fib);
	rte_fib6_free(own->fib6);
	free(own->addresses);
	free(own->addresses6);
	free(own);
}

struct route {
	uint8_t address[16];
	uint32_t hop;
	uint8_t bits;
};

/* The list's routes; `count` of them. A line is `192.0.2.0/24 17`. */
static struct route *routes_of(const struct task *task, int family, size_t *count)
{
	char *text = room(task->material_len + 1), *line, *rest;
	struct route *routes;
	size_t lines = 1;
	memcpy(text, task->material, task->material_len);
	for (char *at = text; *at; at++)
		lines += *at == '\n';
	routes = room(lines * sizeof(*routes));
	*count = 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct route *route = &routes[*count];
		char *slash = strchr(line, '/');
		if (!slash)
			continue;
		*slash = 0;
		if (inet_pton(family, line, route->address) != 1)
			continue;
		route->bits = strtol(slash + 1, &line, 10);
		route->hop = strtoul(line, NULL, 10);
		++*count;
	}
	free(text);
	return routes;
}

static uint32_t host(const uint8_t *address)
{
	uint32_t word;
	memcpy(&word, address, 4);
	return ntohl(word);
}

static int fill_lpm(struct table *own, const struct route *routes, size_t count)
{
	struct rte_lpm_config config = { .max_rules = 1 << 21, .number_tbl8s = 1 << 16 };
	own->lpm = rte_lpm_create(fresh_name(), SOCKET_ID_ANY, &config);
	for (size_t i = 0; own->lpm && i < count; i++)
		if (rte_lpm_add(own->lpm, host(routes[i].address), routes[i].bits, routes[i].hop))
			return 0;
	return own->lpm != NULL;
}

/* Its hops have 1, 2 or 4 bytes; fewer are faster, and bound how many blocks there can be. */
static int fill_fib(struct table *own, const struct route *routes, size_t count, int bytes)
{
	struct rte_fib_conf config = { .type = RTE_FIB_DIR24_8, .max_routes = 1 << 21 };
	size_t i;
	own->no_route = bytes == 1 ? 127 : bytes == 2 ? 32767 : 0x7fffffff;
	config.default_nh = own->no_route;
	config.dir24_8.nh_sz = bytes == 1 ? RTE_FIB_DIR24_8_1B : bytes == 2 ? RTE_FIB_DIR24_8_2B : RTE_FIB_DIR24_8_4B;
	config.dir24_8.num_tbl8 = bytes == 1 ? 127 : bytes == 2 ? 32767 : 65535;
	own->fib = rte_fib_create(fresh_name(), SOCKET_ID_ANY, &config);
	for (i = 0; own->fib && i < count; i++)
		if (routes[i].hop >= own->no_route ||
		    rte_fib_add(own->fib, host(routes[i].address), routes[i].bits, routes[i].hop))
			break;
	if (own->fib && i == count) {
		rte_fib_select_lookup(own->fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
		return 1;
	}
	rte_fib_free(own->fib);
	own->fib = NULL;
	return 0;
}

static int fill_fib6(struct table *own, const struct route *routes, size_t count, int bytes)
{
	struct rte_fib6_conf config = { .type = RTE_FIB6_TRIE, .max_routes = 1 << 21 };
	size_t i;
	own->no_route = bytes == 2 ? 32767 : 0x7fffffff;
	config.default_nh = own->no_route;
	config.trie.nh_sz = bytes == 2 ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B;
	config.trie.num_tbl8 = bytes == 2 ? 32767 : 1 << 19;
	own->fib6 = rte_fib6_create(fresh_name(), SOCKET_ID_ANY, &config);
	for (i = 0; own->fib6 && i < count; i++)
		if (routes[i].hop >= own->no_route ||
		    rte_fib6_add(own->fib6, routes[i].address, routes[i].bits, routes[i].hop))
			break;
	if (own->fib6 && i == count) {
		rte_fib6_select_lookup(own->fib6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
		return 1;
	}
	rte_fib6_free(own->fib6);
	own->fib6 = NULL;
	return 0;
}

static struct peer *lookup(const char *name, const struct task *task)
{
	int is6 = is(task, "lpm6");
	size_t route_count, n = 0;
	struct route *routes = routes_of(task, is6 ? AF_INET6 : AF_INET, &route_count);
	struct table *own = room(sizeof(*own));
	int is_filled = 0;
	own->peer = (struct peer){ NULL, table_finish, table_free, task };
	for (size_t i = 0; i < task->count; i++)
		own->count += task->items[i].len / (is6 ? 16 : 4);
	if (!is6 && !strcmp(name, "rte_lpm")) {
		own->peer.run = lpm_run;
		is_filled = fill_lpm(own, routes, route_count);
	} else if (!is6 && !strcmp(name, "rte_fib")) {
		own->peer.run = fib_run;
		is_filled = fill_fib(own, routes, route_count, 1) || fill_fib(own, routes, route_count, 2) ||
			    fill_fib(own, routes, route_count, 4);
	} else if (is6 && !strcmp(name, "rte_fib6")) {
		own->peer.run = fib6_run;
		is_filled = fill_fib6(own, routes, route_count, 2) || fill_fib6(own, routes, route_count, 4);
	}
	free(routes);
	if (!is_filled) {
		table_free(&own->peer);
		return NULL;
	}
	if (is6) {
		own->addresses6 = room(own->count * 16);
		for (size_t i = 0; i < task->count; n += task->items[i++].len)
			memcpy(own->addresses6 + n, task->items[i].src, task->items[i].len);
	} else {
		own->addresses = room(own->count * 4);
		for (size_t i = 0; i < task->count; i++)
			for (uint32_t at = 0; at < task->items[i].len; at += 4)
				own->addresses[n++] = host(task->items[i].src + at);
	}
	return &own->peer;
}

/* segmentation, fragmentation, reassembly: of IPv4 without options, which is what these libraries do best */

enum { PIECES_MAX = 2048 };

struct packets {
	struct peer peer;
	struct rte_mempool *whole, *direct, *indirect;
	struct rte_mbuf **in;
	struct rte_mbuf **out; /* of the last run */
	uint16_t *pieces; /* of each item */
	size_t out_count;
	struct rte_gso_ctx gso;
	int mtu, is_descriptor;
	/* Reassembly: */
	struct rte_ip_frag_tbl *fragments;
	struct rte_ip_frag_death_row dead;
	struct rte_mbuf_ext_shared_info shared;
	uint8_t *bytes; /* The items', written to, with each first header behind. */
};

static void drop_output(struct packets *own)
{
	rte_pktmbuf_free_bulk(own->out, own->out_count);
	own->out_count = 0;
}

static struct packets *packets(const struct task *task, size_t pieces)
{
	struct packets *own;
	if (task->items[0].len < 20 || task->items[0].src[0] != 0x45)
		return NULL;
	own = room(sizeof(*own));
	own->peer.task = task;
	own->whole = rte_pktmbuf_pool_create(fresh_name(), task->count + 7, 0, 0, UINT16_MAX, SOCKET_ID_ANY);
	own->direct = rte_pktmbuf_pool_create(fresh_name(), pieces + 511, 256, 0, 2048, SOCKET_ID_ANY);
	own->indirect = rte_pktmbuf_pool_create(fresh_name(), pieces + 511, 256, 0, 0, SOCKET_ID_ANY);
	own->in = room(task->count * sizeof(*own->in));
	own->out = room((pieces + PIECES_MAX) * sizeof(*own->out));
	own->pieces = room(task->count * sizeof(*own->pieces));
	if (own->whole && own->direct && own->indirect)
		return own;
	return NULL;
}

static void load(struct packets *own)
{
	for (size_t i = 0; i < own->peer.task->count; i++) {
		const struct item *item = &own->peer.task->items[i];
		struct rte_mbuf *packet = own->in[i] = rte_pktmbuf_alloc(own->whole);
		memcpy(rte_pktmbuf_append(packet, item->len), item->src, item->len);
		packet->l3_len = 20;
	}
}

static void packets_free(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	drop_output(own);
	for (size_t i = 0; i < peer->task->count; i++)
		rte_pktmbuf_free(own->in[i]);
	if (own->fragments)
		rte_ip_frag_table_destroy(own->fragments);
	rte_mempool_free(own->whole);
	rte_mempool_free(own->direct);
	rte_mempool_free(own->indirect);
	free(own->in);
	free(own->out);
	free(own->pieces);
	free(own->bytes);
	free(own);
}

static size_t pieces_of(const struct task *task, long payload)
{
	size_t pieces = 0;
	for (size_t i = 0; i < task->count; i++)
		pieces += task->items[i].len / payload + 1;
	return pieces;
}

/* rte_gso leaves the checksums as they were; they are added here, as every user of it must. */
static void segment(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	if (own->is_descriptor)
		drop_output(own);
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		struct rte_mbuf *packet = own->in[i], **out = own->out + own->out_count;
		int count;
		uint8_t *dst = item->dst;
		packet->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
		count = rte_gso_segment(packet, &own->gso, out, PIECES_MAX);
		for (int n = 0; n < count; n++) {
			struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(out[n], struct rte_ipv4_hdr *);
			struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);
			ip->hdr_checksum = 0;
			ip->hdr_checksum = rte_ipv4_cksum(ip);
			/* It clears FIN and PSH before the last segment, but leaves CWR on all (RFC 3168: the first alone). */
			if (n)
				tcp->tcp_flags &= ~RTE_TCP_CWR_FLAG;
			tcp->cksum = 0;
			tcp->cksum = rte_ipv4_udptcp_cksum_mbuf(out[n], ip, 20);
			if (!own->is_descriptor)
				for (struct rte_mbuf *part = out[n]; part; part = part->next) {
					rte_memcpy(dst, rte_pktmbuf_mtod(part, void *), part->data_len);
					dst += part->data_len;
				}
		}
		item->written = dst - item->dst;
		own->pieces[i] = count;
		if (own->is_descriptor)
			own->out_count += count;
		else
			rte_pktmbuf_free_bulk(out, count);
	}
}

static void describe(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	struct rte_mbuf **out = own->out;
	for (size_t i = 0; own->is_descriptor && i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint8_t *dst = item->dst;
		for (int n = 0; n < own->pieces[i]; n++, out++) {
			uint16_t headers = (*out)->data_len, payload = (*out)->pkt_len - headers;
			uint32_t at = rte_pktmbuf_mtod((*out)->next, uint8_t *) - rte_pktmbuf_mtod(own->in[i], uint8_t *);
			size_t whole = (8 + headers + 63) / 64 * 64;
			memset(dst, 0, whole);
			memcpy(dst, &at, 4);
			memcpy(dst + 4, &payload, 2);
			memcpy(dst + 6, &headers, 2);
			memcpy(dst + 8, rte_pktmbuf_mtod(*out, void *), headers);
			dst += whole;
		}
		item->written = dst - item->dst;
	}
}

static struct peer *gso(const struct task *task)
{
	int mss = number(task, "mss");
	struct packets *own = packets(task, pieces_of(task, mss));
	if (!own)
		return NULL;
	load(own);
	for (size_t i = 0; i < task->count; i++) {
		own->in[i]->l4_len = (task->items[i].src[32] >> 4) * 4;
		own->in[i]->packet_type = RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP;
		own->in[i]->tso_segsz = mss;
	}
	own->is_descriptor = has(task, "mode=descriptor");
	own->gso = (struct rte_gso_ctx){ .direct_pool = own->direct,
					 .indirect_pool = own->indirect,
					 .gso_types = RTE_ETH_TX_OFFLOAD_TCP_TSO,
					 .gso_size = 20 + own->in[0]->l4_len + mss };
	own->peer.run = segment;
	own->peer.finish = describe;
	own->peer.free = packets_free;
	return &own->peer;
}

static void fragment(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	drop_output(own);
	for (size_t i = 0; i < peer->task->count; i++) {
		struct rte_mbuf **out = own->out + own->out_count;
		int count = rte_ipv4_fragment_copy_nonseg_packet(own->in[i], out, PIECES_MAX, own->mtu, own->direct);
		for (int n = 0; n < count; n++) {
			struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod(out[n], struct rte_ipv4_hdr *);
			ip->hdr_checksum = 0;
			ip->hdr_checksum = rte_ipv4_cksum(ip);
		}
		own->pieces[i] = count < 0 ? 0 : count;
		own->out_count += own->pieces[i];
	}
}

static void copy_out(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	struct rte_mbuf **out = own->out;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		item->written = 0;
		for (int n = 0; n < own->pieces[i]; n++, out++) {
			memcpy(item->dst + item->written, rte_pktmbuf_mtod(*out, void *), (*out)->data_len);
			item->written += (*out)->data_len;
		}
	}
}

static struct peer *ip_frag(const struct task *task)
{
	int mtu = number(task, "mtu");
	struct packets *own = mtu > 2048 ? NULL : packets(task, pieces_of(task, mtu - 28));
	if (!own)
		return NULL;
	load(own);
	own->mtu = mtu;
	own->peer.run = fragment;
	own->peer.finish = copy_out;
	own->peer.free = packets_free;
	return &own->peer;
}

static void keep(void *address, void *opaque)
{
	(void)address, (void)opaque;
}

/* Each fragment is put into an mbuf without copying, as a driver would have; what became whole is copied out, as ours is. */
static void reassemble(struct peer *peer)
{
	struct packets *own = (struct packets *)peer;
	uint8_t *at = own->bytes;
	uint64_t now = rte_rdtsc();
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		uint8_t *end = at + item->len, *first = end;
		item->written = 0;
		while (at < end) {
			struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)at;
			struct rte_mbuf *packet = rte_pktmbuf_alloc(own->indirect);
			uint16_t len;
			if (!(ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_OFFSET_MASK))) {
				memcpy(ip, first, 20); /* The last run has written to it. */
				first += 20;
			}
			len = rte_be_to_cpu_16(ip->total_length);
			rte_mbuf_ext_refcnt_update(&own->shared, 1);
			rte_pktmbuf_attach_extbuf(packet, at, 0, len, &own->shared);
			packet->data_len = packet->pkt_len = len;
			packet->l3_len = 20;
			at += len;
			if (rte_ipv4_frag_pkt_is_fragmented(ip))
				packet = rte_ipv4_frag_reassemble_packet(own->fragments, &own->dead, packet, now, ip);
			if (!packet)
				continue;
			ip = rte_pktmbuf_mtod(packet, struct rte_ipv4_hdr *);
			ip->hdr_checksum = 0;
			ip->hdr_checksum = rte_ipv4_cksum(ip);
			for (struct rte_mbuf *part = packet; part; part = part->next) {
				rte_memcpy(item->dst + item->written, rte_pktmbuf_mtod(part, void *), part->data_len);
				item->written += part->data_len;
			}
			rte_pktmbuf_free(packet);
		}
		rte_ip_frag_free_death_row(&own->dead, 0);
		at = first;
	}
}

static struct peer *ip_reassembly(const struct task *task)
{
	struct packets *own = packets(task, 4096);
	size_t bytes = 0;
	uint8_t *at;
	if (!own)
		return NULL;
	for (size_t i = 0; i < task->count; i++)
		bytes += task->items[i].len * 2;
	at = own->bytes = room(bytes);
	for (size_t i = 0; i < task->count; i++) {
		uint8_t *end = at + task->items[i].len, *first = end;
		memcpy(at, task->items[i].src, task->items[i].len);
		while (at < end) {
			struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)at;
			if (at[0] != 0x45) {
				packets_free(&own->peer);
				return NULL;
			}
			if (!(ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_OFFSET_MASK))) {
				memcpy(first, at, 20);
				first += 20;
			}
			at += rte_be_to_cpu_16(ip->total_length);
		}
		at = first;
	}
	own->shared.free_cb = keep;
	rte_mbuf_ext_refcnt_set(&own->shared, 1);
	own->fragments = rte_ip_frag_table_create(1024, 16, 1024 * 16, rte_get_tsc_hz() * 3600, SOCKET_ID_ANY);
	own->peer.run = reassemble;
	own->peer.free = packets_free;
	return &own->peer;
}

struct peer *dpdk_peer(const char *name, const struct task *task)
{
	if (!start())
		return NULL;
	if (!strcmp(name, "rte_cksum") && is(task, "checksum"))
		return checksum(task);
	if (!strcmp(name, "rte_thash") && is(task, "toeplitz"))
		return toeplitz(task);
	if (is(task, "lpm4") || is(task, "lpm6"))
		return lookup(name, task);
	if (!strcmp(name, "rte_gso") && is(task, "segmentation"))
		return gso(task);
	if (!strcmp(name, "rte_ip_frag") && is(task, "fragmentation"))
		return ip_frag(task);
	if (!strcmp(name, "rte_ip_frag") && is(task, "reassembly"))
		return ip_reassembly(task);
	return NULL;
}
