/* Longest prefix match: rte_lpm and rte_lpm6, rte_fib and rte_fib6. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>

#include "libraries.h"

/* For what has a size of its own, and what allocators put between. */
#define SLACK ((size_t)16 << 20)
#define TABLE24 ((size_t)1 << 24)
#define TABLE8 ((size_t)256)
/* Of a route in the tree that a FIB keeps beside its table: two nodes, with what a pool puts around them, by lines of the cache, which
 * DPDK takes for longer on Arm. */
#define TREE_BYTES ((size_t)416 * RTE_CACHE_LINE_SIZE / 64)
/* Of a route in the lists that rte_lpm and rte_lpm6 keep. */
#define RULE_BYTES 256

struct dpb_routes {
	uint32_t kind;
	uint64_t no_route;
	struct dpb_heap heap;
	struct rte_lpm *lpm;
	struct rte_fib *fib;
	struct rte_lpm6 *lpm6;
	struct rte_fib6 *fib6;
};

static uint32_t host(const uint8_t *address)
{
	uint32_t word;

	memcpy(&word, address, sizeof(word));
	return rte_be_to_cpu_32(word);
}

/* Of an entry of this many bytes, whose last bit says what it is. */
static uint64_t no_route(uint32_t hop_bytes)
{
	return ((uint64_t)1 << (8 * hop_bytes - 1)) - 1;
}

static int create(struct dpb_routes *own, const struct dpb_table *table)
{
	char name[16];
	int socket = own->heap.socket;

	dpb_name(name);
	own->no_route = no_route(table->hop_bytes);
	if (own->kind == DPB_LPM) {
		struct rte_lpm_config config = {.max_rules = table->n + 1, .number_tbl8s = table->tbl8s};

		own->lpm = rte_lpm_create(name, socket, &config);
	} else if (own->kind == DPB_LPM6) {
		struct rte_lpm6_config config = {.max_rules = table->n + 1, .number_tbl8s = table->tbl8s};

		own->lpm6 = rte_lpm6_create(name, socket, &config);
	} else if (own->kind == DPB_FIB) {
		struct rte_fib_conf config = {
			.type = RTE_FIB_DIR24_8, .max_routes = (int)table->n + 1, .default_nh = own->no_route};

		config.dir24_8.nh_sz = table->hop_bytes == 1   ? RTE_FIB_DIR24_8_1B
				       : table->hop_bytes == 2 ? RTE_FIB_DIR24_8_2B
							       : RTE_FIB_DIR24_8_4B;
		config.dir24_8.num_tbl8 = table->tbl8s;
		own->fib = rte_fib_create(name, socket, &config);
	} else {
		struct rte_fib6_conf config = {
			.type = RTE_FIB6_TRIE, .max_routes = (int)table->n + 1, .default_nh = own->no_route};

		config.trie.nh_sz = table->hop_bytes == 2 ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B;
		config.trie.num_tbl8 = table->tbl8s;
		own->fib6 = rte_fib6_create(name, socket, &config);
	}
	if (own->lpm != NULL || own->lpm6 != NULL || own->fib != NULL || own->fib6 != NULL)
		return 0;
	return rte_errno > 0 ? -rte_errno : -ENOMEM;
}

static int add(struct dpb_routes *own, const struct dpb_route *route)
{
	/* Later releases have a type for IPv6 addresses. */
	void *address = (void *)(uintptr_t)route->address;
	uint8_t bits = (uint8_t)route->bits;

	switch (own->kind) {
	case DPB_LPM:
		return rte_lpm_add(own->lpm, host(route->address), bits, route->hop);
	case DPB_LPM6:
		return rte_lpm6_add(own->lpm6, address, bits, route->hop);
	case DPB_FIB:
		return rte_fib_add(own->fib, host(route->address), bits, route->hop);
	default:
		return rte_fib6_add(own->fib6, address, bits, route->hop);
	}
}

/* The fastest that the CPU has; what was chosen before stays if it has none. */
static void choose(struct dpb_routes *own)
{
	uint16_t width = dpb_widen();

	if (own->fib != NULL)
		rte_fib_select_lookup(own->fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
	if (own->fib6 != NULL)
		rte_fib6_select_lookup(own->fib6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
	dpb_narrow(width);
}

static void routes_close(struct dpb_routes *own)
{
	rte_lpm_free(own->lpm);
	rte_lpm6_free(own->lpm6);
	rte_fib_free(own->fib);
	rte_fib6_free(own->fib6);
	dpb_heap_close(&own->heap);
	free(own);
}

static int routes_open(const struct dpb_table *table, struct dpb_routes **opened)
{
	struct dpb_routes *own = calloc(1, sizeof(*own));
	int is_fib = table->kind == DPB_FIB || table->kind == DPB_FIB6;
	size_t entry = is_fib ? table->hop_bytes : 4;
	size_t len = (TABLE24 + TABLE8 * ((size_t)table->tbl8s + 64)) * entry + SLACK +
		     ((size_t)table->n + 1) * (is_fib ? TREE_BYTES : RULE_BYTES);
	int error;

	if (own == NULL)
		return -ENOMEM;
	own->kind = table->kind;
	error = dpb_heap_open(&own->heap, len);
	if (error != 0) {
		free(own);
		return error;
	}
	error = create(own, table);
	for (uint32_t i = 0; error == 0 && i < table->n; i++)
		error = add(own, &table->routes[i]);
	if (error != 0) {
		routes_close(own);
		return error;
	}
	choose(own);
	*opened = own;
	return 0;
}

static void burst(const struct dpb_routes *own, const void *addresses, void *hops, uint32_t n)
{
	/* Neither looks up in a table that it may change. */
	void *keys = (void *)(uintptr_t)addresses;

	switch (own->kind) {
	case DPB_LPM:
		rte_lpm_lookup_bulk(own->lpm, (const uint32_t *)addresses, (uint32_t *)hops, n);
		break;
	case DPB_LPM6:
		rte_lpm6_lookup_bulk_func(own->lpm6, keys, (int32_t *)hops, n);
		break;
	case DPB_FIB:
		rte_fib_lookup_bulk(own->fib, keys, (uint64_t *)hops, (int)n);
		break;
	default:
		rte_fib6_lookup_bulk(own->fib6, keys, (uint64_t *)hops, (int)n);
	}
}

static void bursts(const struct dpb_routes *own, const void *addresses, uint32_t n, uint32_t size, void *hops)
{
	size_t key = own->kind == DPB_LPM || own->kind == DPB_FIB ? 4 : 16;
	size_t hop = own->kind == DPB_LPM || own->kind == DPB_LPM6 ? 4 : 8;

	for (uint32_t i = 0; i < n; i += size)
		burst(own, (const uint8_t *)addresses + i * key, (uint8_t *)hops + i * hop, RTE_MIN(n - i, size));
}

static void lookup(const struct dpb_routes *own, const uint8_t *addresses, uint32_t n, uint8_t *dst)
{
	uint32_t keys[DPB_BURST], found[DPB_BURST];
	uint64_t wide[DPB_BURST];
	int is_v6 = own->kind == DPB_LPM6 || own->kind == DPB_FIB6;

	for (uint32_t first = 0; first < n; first += DPB_BURST) {
		uint32_t count = RTE_MIN(n - first, (uint32_t)DPB_BURST);

		if (is_v6) {
			burst(own, addresses, own->kind == DPB_LPM6 ? (void *)found : (void *)wide, count);
			addresses += 16 * (size_t)count;
		} else {
			for (uint32_t i = 0; i < count; i++)
				keys[i] = host(addresses + 4 * (size_t)i);
			burst(own, keys, own->kind == DPB_LPM ? (void *)found : (void *)wide, count);
			addresses += 4 * (size_t)count;
		}
		for (uint32_t i = 0; i < count; i++) {
			if (own->kind == DPB_LPM)
				found[i] = found[i] & RTE_LPM_LOOKUP_SUCCESS ? found[i] & 0xffffff : UINT32_MAX;
			else if (own->kind != DPB_LPM6)
				found[i] = wide[i] == own->no_route ? UINT32_MAX : (uint32_t)wide[i];
			found[i] = rte_cpu_to_le_32(found[i]);
		}
		memcpy(dst + 4 * (size_t)first, found, 4 * (size_t)count);
	}
}

const struct dpb_lookups AT_LEVEL(dpb_lookups) = {
	.open = routes_open,
	.lookup = lookup,
	.bursts = bursts,
	.close = routes_close,
};
