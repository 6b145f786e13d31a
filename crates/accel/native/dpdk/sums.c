/* Checksums, CRCs and hashes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>
#include <rte_net_crc.h>
#include <rte_thash.h>
#if defined(__GFNI__) && defined(__AVX512VBMI__)
#include <rte_thash_gfni.h>
#endif

#include "libraries.h"

static inline const uint8_t *item_of(const struct dpb_batch *batch, uint32_t i, uint32_t *len)
{
	if (batch->offsets != NULL) {
		*len = batch->offsets[i + 1] - batch->offsets[i];
		return batch->src + batch->offsets[i];
	}
	*len = batch->len;
	return batch->src + (size_t)i * batch->len;
}

static void checksums(const struct dpb_batch *batch, uint8_t *dst)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		uint32_t len;
		const uint8_t *item = item_of(batch, i, &len);
		uint16_t sum = (uint16_t)~rte_raw_cksum(item, len);

		memcpy(dst + (size_t)i * sizeof(sum), &sum, sizeof(sum));
	}
}

/* The best that there can be; DPDK falls back to what the CPU has, but not from another architecture's. */
#ifdef RTE_ARCH_ARM64
#define BEST_CRC RTE_NET_CRC_NEON
#else
#define BEST_CRC RTE_NET_CRC_AVX512
#endif

static int choose_crc(void)
{
	uint16_t width = dpb_widen();
	int chosen = 0;

#if RTE_VERSION >= RTE_VERSION_NUM(25, 3, 0, 0)
	dpb_crc32 = rte_net_crc_set_alg(BEST_CRC, RTE_NET_CRC32_ETH);
	chosen = dpb_crc32 == NULL ? -ENOMEM : 0;
#else
	rte_net_crc_set_alg(BEST_CRC);
#endif
	dpb_narrow(width);
	return chosen;
}

static inline uint32_t net_crc32(const uint8_t *item, uint32_t len)
{
#if RTE_VERSION >= RTE_VERSION_NUM(25, 3, 0, 0)
	return rte_net_crc_calc(dpb_crc32, item, len);
#else
	return rte_net_crc_calc(item, len, RTE_NET_CRC32_ETH);
#endif
}

static void crc32s(const struct dpb_batch *batch, uint8_t *dst)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		uint32_t len;
		const uint8_t *item = item_of(batch, i, &len);
		uint32_t crc = rte_cpu_to_le_32(net_crc32(item, len));

		memcpy(dst + (size_t)i * sizeof(crc), &crc, sizeof(crc));
	}
}

static void crc32cs(const struct dpb_batch *batch, uint8_t *dst)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		uint32_t len;
		const uint8_t *item = item_of(batch, i, &len);
		uint32_t crc = rte_cpu_to_le_32(~rte_hash_crc(item, len, UINT32_MAX));

		memcpy(dst + (size_t)i * sizeof(crc), &crc, sizeof(crc));
	}
}

/* Tuples that are hashed at a time. */
#define TUPLES 64

struct dpb_hash {
	uint32_t tuple_len;
	/* As `rte_softrss_be` reads it: words in the CPU's byte order, one more than tuples have. */
	uint32_t key[16];
	uint64_t matrices[64];
};

static struct dpb_hash *hash_open(const uint8_t *key, uint32_t key_len, uint32_t tuple_len)
{
	struct dpb_hash *hash = calloc(1, sizeof(*hash));

	if (hash == NULL)
		return NULL;
	hash->tuple_len = tuple_len;
	memcpy(hash->key, key, key_len);
	rte_convert_rss_key(hash->key, hash->key, (int)key_len);
#ifdef RTE_THASH_GFNI_DEFINED
	rte_thash_complete_matrix(hash->matrices, key, (int)key_len);
#endif
	return hash;
}

#ifndef RTE_THASH_GFNI_DEFINED
static uint32_t softrss(const struct dpb_hash *hash, const uint8_t *tuple)
{
	uint32_t words[9], n = hash->tuple_len / 4;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(&words[i], tuple + 4 * i, 4);
		words[i] = rte_be_to_cpu_32(words[i]);
	}
	return rte_softrss_be(words, n, (const uint8_t *)hash->key);
}
#endif

static void hashes(const struct dpb_hash *hash, const uint8_t *tuples, uint32_t n, uint8_t *dst)
{
	uint32_t done[TUPLES], len = hash->tuple_len;

	for (uint32_t first = 0; first < n; first += TUPLES) {
		uint32_t count = RTE_MIN(n - first, (uint32_t)TUPLES);
#ifdef RTE_THASH_GFNI_DEFINED
		uint8_t *places[TUPLES];

		for (uint32_t i = 0; i < count; i++)
			places[i] = (uint8_t *)(uintptr_t)tuples + (size_t)i * len;
		rte_thash_gfni_bulk(hash->matrices, (int)len, places, done, count);
		tuples += (size_t)count * len;
#else
		for (uint32_t i = 0; i < count; i++, tuples += len)
			done[i] = softrss(hash, tuples);
#endif
		for (uint32_t i = 0; i < count; i++)
			done[i] = rte_cpu_to_le_32(done[i]);
		memcpy(dst + (size_t)first * 4, done, (size_t)count * 4);
	}
}

static void hash_bulk(const struct dpb_hash *hash, const uint8_t *const *tuples, uint32_t n, uint32_t *done)
{
#ifdef RTE_THASH_GFNI_DEFINED
	for (uint32_t first = 0; first < n; first += TUPLES) {
		uint32_t count = RTE_MIN(n - first, (uint32_t)TUPLES);

		rte_thash_gfni_bulk(hash->matrices, (int)hash->tuple_len, (uint8_t **)(uintptr_t)tuples + first,
				    done + first, count);
	}
#else
	for (uint32_t i = 0; i < n; i++)
		done[i] = softrss(hash, tuples[i]);
#endif
}

static void hash_close(struct dpb_hash *hash)
{
	/* The key is nobody else's business. */
	memset(hash, 0, sizeof(*hash));
	__asm__ volatile("" : : "r"(hash) : "memory");
	free(hash);
}

const struct dpb_sums AT_LEVEL(dpb_sums) = {
	.choose_crc = choose_crc,
	.checksums = checksums,
	.crc32s = crc32s,
	.crc32cs = crc32cs,
	.hash_open = hash_open,
	.hashes = hashes,
	.hash_bulk = hash_bulk,
	.hash_close = hash_close,
};
