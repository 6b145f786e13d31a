/* Crypto devices: sessions, and queue pairs with their operations. */
#include <errno.h>
#include <string.h>

#include <rte_cryptodev.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include "parts.h"

#define IV_MAX 16
#define GCM_IV 12

/* What follows an operation in its memory. */
struct tail {
	uint8_t iv[IV_MAX];
	uint64_t user;
	struct rte_mbuf *dst; /* where it writes, unless that is where it reads */
};

#define TAIL_OFFSET (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))

enum kind { AEAD, CIPHER, HASH };

struct dpb_crypto_queue {
	uint8_t device;
	uint16_t queue_pair;
	uint16_t iv_len;
	enum kind kind;
	bool wants_iova;
	bool has_session; /* else each run brings its own */
	struct rte_mbuf **mbufs;
	uint32_t n_free;
	struct rte_crypto_op *free[]; /* last in, first out: what was used last is in the caches */
};

/* How DPDK calls an algorithm. */
static const struct {
	enum kind kind;
	int algorithm;
} algorithms[DPB_ALGORITHMS] = {
	[DPB_AES_GCM] = {AEAD, RTE_CRYPTO_AEAD_AES_GCM},
	[DPB_AES_CTR] = {CIPHER, RTE_CRYPTO_CIPHER_AES_CTR},
	[DPB_AES_CBC] = {CIPHER, RTE_CRYPTO_CIPHER_AES_CBC},
	[DPB_AES_XTS] = {CIPHER, RTE_CRYPTO_CIPHER_AES_XTS},
	[DPB_MD5] = {HASH, RTE_CRYPTO_AUTH_MD5},
	[DPB_SHA1] = {HASH, RTE_CRYPTO_AUTH_SHA1},
	[DPB_SHA256] = {HASH, RTE_CRYPTO_AUTH_SHA256},
	[DPB_SHA512] = {HASH, RTE_CRYPTO_AUTH_SHA512},
	[DPB_HMAC_MD5] = {HASH, RTE_CRYPTO_AUTH_MD5_HMAC},
	[DPB_HMAC_SHA1] = {HASH, RTE_CRYPTO_AUTH_SHA1_HMAC},
	[DPB_HMAC_SHA256] = {HASH, RTE_CRYPTO_AUTH_SHA256_HMAC},
	[DPB_HMAC_SHA512] = {HASH, RTE_CRYPTO_AUTH_SHA512_HMAC},
};

/* Pools of a device's sessions, each twice as large as the one before. */
#define SESSION_POOLS 13

static struct rte_mempool *session_pools[RTE_CRYPTO_MAX_DEVS][SESSION_POOLS];
static uint32_t sessions_first[RTE_CRYPTO_MAX_DEVS];

const char *dpb_crypto_status(int status)
{
	switch (status) {
	case RTE_CRYPTO_OP_STATUS_SUCCESS:
		return "success";
	case RTE_CRYPTO_OP_STATUS_NOT_PROCESSED:
		return "not processed";
	case RTE_CRYPTO_OP_STATUS_AUTH_FAILED:
		return "authentication failed";
	case RTE_CRYPTO_OP_STATUS_INVALID_SESSION:
		return "invalid session";
	case RTE_CRYPTO_OP_STATUS_INVALID_ARGS:
		return "invalid arguments";
	default:
		return "error";
	}
}

uint32_t dpb_crypto_devices(struct dpb_device *devices, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t id = 0; id < RTE_CRYPTO_MAX_DEVS && found < n; id++) {
		struct rte_cryptodev_info info;
		const char *name;

		if (!rte_cryptodev_is_valid_dev((uint8_t)id))
			continue;
		name = rte_cryptodev_name_get((uint8_t)id);
		rte_cryptodev_info_get((uint8_t)id, &info);
		struct dpb_device *device = &devices[found++];
		memset(device, 0, sizeof(*device));
		snprintf(device->name, sizeof(device->name), "%s", name);
		snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
		device->id = id;
		device->queue_pairs_max = info.max_nb_queue_pairs;
		device->is_hardware = (info.feature_flags & RTE_CRYPTODEV_FF_HW_ACCELERATED) != 0;
	}
	return found;
}

static struct dpb_range range(struct rte_crypto_param_range of)
{
	return (struct dpb_range){.min = of.min, .max = of.max, .step = of.increment};
}

int dpb_crypto_ranges(uint32_t device, uint32_t algorithm, struct dpb_ranges *ranges)
{
	struct rte_cryptodev_sym_capability_idx index = {0};
	const struct rte_cryptodev_symmetric_capability *found;

	if (algorithm >= DPB_ALGORITHMS)
		return -EINVAL;
	switch (algorithms[algorithm].kind) {
	case AEAD:
		index.type = RTE_CRYPTO_SYM_XFORM_AEAD;
		index.algo.aead = (enum rte_crypto_aead_algorithm)algorithms[algorithm].algorithm;
		break;
	case CIPHER:
		index.type = RTE_CRYPTO_SYM_XFORM_CIPHER;
		index.algo.cipher = (enum rte_crypto_cipher_algorithm)algorithms[algorithm].algorithm;
		break;
	case HASH:
		index.type = RTE_CRYPTO_SYM_XFORM_AUTH;
		index.algo.auth = (enum rte_crypto_auth_algorithm)algorithms[algorithm].algorithm;
		break;
	}
	found = rte_cryptodev_sym_capability_get((uint8_t)device, &index);
	if (found == NULL)
		return -ENOTSUP;
	memset(ranges, 0, sizeof(*ranges));
	switch (algorithms[algorithm].kind) {
	case AEAD:
		ranges->key = range(found->aead.key_size);
		ranges->iv = range(found->aead.iv_size);
		ranges->digest = range(found->aead.digest_size);
		ranges->aad = range(found->aead.aad_size);
		break;
	case CIPHER:
		ranges->key = range(found->cipher.key_size);
		ranges->iv = range(found->cipher.iv_size);
		break;
	case HASH:
		ranges->key = range(found->auth.key_size);
		ranges->iv = range(found->auth.iv_size);
		ranges->digest = range(found->auth.digest_size);
		break;
	}
	return 0;
}

/* A pool that has a session left, or NULL. */
static struct rte_mempool *session_pool(uint32_t device)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	for (uint32_t i = 0; i < SESSION_POOLS; i++) {
		struct rte_mempool **pool = &session_pools[device][i];

		if (*pool == NULL) {
			snprintf(name, sizeof(name), "dpb_sessions_%u_%u", device, i);
			*pool = rte_cryptodev_sym_session_pool_create(
				name, sessions_first[device] << i,
				rte_cryptodev_sym_get_private_session_size((uint8_t)device), 0, 0, SOCKET_ID_ANY);
			return *pool;
		}
		if (!rte_mempool_empty(*pool))
			return *pool;
	}
	return NULL;
}

int dpb_crypto_start(uint32_t device, uint32_t queue_pairs, uint32_t descriptors, uint32_t sessions)
{
	struct rte_cryptodev_config config = {
		.socket_id = SOCKET_ID_ANY,
		.nb_queue_pairs = (uint16_t)queue_pairs,
	};
	struct rte_cryptodev_qp_conf queue_pair = {.nb_descriptors = descriptors};
	int error = rte_cryptodev_configure((uint8_t)device, &config);

	if (error != 0)
		return error;
	sessions_first[device] = sessions;
	queue_pair.mp_session = session_pool(device);
	if (queue_pair.mp_session == NULL)
		return -ENOMEM;
	for (uint16_t i = 0; i < queue_pairs; i++) {
		error = rte_cryptodev_queue_pair_setup((uint8_t)device, i, &queue_pair, SOCKET_ID_ANY);
		if (error != 0)
			return error;
	}
	return rte_cryptodev_start((uint8_t)device);
}

int dpb_crypto_session(uint32_t device, const struct dpb_cipher *cipher, void **session)
{
	const enum kind kind = algorithms[cipher->algorithm].kind;
	const int algorithm = algorithms[cipher->algorithm].algorithm;
	struct rte_crypto_sym_xform transform = {0};
	struct rte_mempool *pool;

	if (cipher->iv_len > IV_MAX)
		return -EINVAL;
	pool = session_pool(device);
	if (pool == NULL)
		return -ENOMEM;
	switch (kind) {
	case AEAD:
		transform.type = RTE_CRYPTO_SYM_XFORM_AEAD;
		transform.aead.op = cipher->decrypts ? RTE_CRYPTO_AEAD_OP_DECRYPT : RTE_CRYPTO_AEAD_OP_ENCRYPT;
		transform.aead.algo = (enum rte_crypto_aead_algorithm)algorithm;
		transform.aead.key.data = cipher->key;
		transform.aead.key.length = cipher->key_len;
		transform.aead.iv.offset = TAIL_OFFSET + offsetof(struct tail, iv);
		transform.aead.iv.length = cipher->iv_len;
		transform.aead.digest_length = cipher->digest_len;
		transform.aead.aad_length = cipher->aad_len;
		break;
	case CIPHER:
		transform.type = RTE_CRYPTO_SYM_XFORM_CIPHER;
		transform.cipher.op =
			cipher->decrypts ? RTE_CRYPTO_CIPHER_OP_DECRYPT : RTE_CRYPTO_CIPHER_OP_ENCRYPT;
		transform.cipher.algo = (enum rte_crypto_cipher_algorithm)algorithm;
		transform.cipher.key.data = cipher->key;
		transform.cipher.key.length = cipher->key_len;
		transform.cipher.iv.offset = TAIL_OFFSET + offsetof(struct tail, iv);
		transform.cipher.iv.length = cipher->iv_len;
		break;
	case HASH:
		transform.type = RTE_CRYPTO_SYM_XFORM_AUTH;
		transform.auth.op = RTE_CRYPTO_AUTH_OP_GENERATE;
		transform.auth.algo = (enum rte_crypto_auth_algorithm)algorithm;
		transform.auth.key.data = cipher->key;
		transform.auth.key.length = cipher->key_len;
		transform.auth.digest_length = cipher->digest_len;
		break;
	}
	*session = rte_cryptodev_sym_session_create((uint8_t)device, &transform, pool);
	if (*session != NULL)
		return 0;
	return rte_errno > 0 ? -rte_errno : -EIO;
}

void dpb_crypto_session_free(uint32_t device, void *session)
{
	rte_cryptodev_sym_session_free((uint8_t)device, session);
}

static struct tail *tail(struct rte_crypto_op *op)
{
	return rte_crypto_op_ctod_offset(op, struct tail *, TAIL_OFFSET);
}

/* Whether a device may read by bus addresses: all do but those that say by which CPU's instructions they compute. */
static bool wants_iova(uint32_t device)
{
	const uint64_t by_cpu = RTE_CRYPTODEV_FF_CPU_SSE | RTE_CRYPTODEV_FF_CPU_AVX | RTE_CRYPTODEV_FF_CPU_AVX2 |
				RTE_CRYPTODEV_FF_CPU_AVX512 | RTE_CRYPTODEV_FF_CPU_AESNI | RTE_CRYPTODEV_FF_CPU_NEON |
				RTE_CRYPTODEV_FF_CPU_ARM_CE;
	struct rte_cryptodev_info info;

	rte_cryptodev_info_get((uint8_t)device, &info);
	return (info.feature_flags & by_cpu) == 0;
}

int dpb_crypto_open(uint32_t device, uint32_t queue_pair, uint32_t operations, struct dpb_crypto_queue **opened)
{
	struct dpb_crypto_queue *queue = rte_zmalloc(NULL, sizeof(*queue) + operations * sizeof(queue->free[0]), 0);
	struct rte_mbuf **mbufs = rte_calloc(NULL, 2 * operations, sizeof(mbufs[0]), 0);
	struct rte_mempool *op_pool, *mbuf_pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "dpb_ops_%u_%u", device, queue_pair);
	op_pool = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, operations, 0, sizeof(struct tail),
					    SOCKET_ID_ANY);
	snprintf(name, sizeof(name), "dpb_mbufs_%u_%u", device, queue_pair);
	mbuf_pool = dpb_bare_mbufs(name, 2 * operations);
	if (queue == NULL || mbufs == NULL || op_pool == NULL || mbuf_pool == NULL ||
	    rte_crypto_op_bulk_alloc(op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC, queue->free, (uint16_t)operations) == 0 ||
	    rte_mempool_get_bulk(mbuf_pool, (void **)mbufs, 2 * operations) != 0) {
		rte_mempool_free(op_pool);
		rte_mempool_free(mbuf_pool);
		rte_free(mbufs);
		rte_free(queue);
		return -ENOMEM;
	}
	queue->device = (uint8_t)device;
	queue->queue_pair = (uint16_t)queue_pair;
	queue->wants_iova = wants_iova(device);
	queue->mbufs = mbufs;
	queue->n_free = operations;
	*opened = queue;
	return 0;
}

void dpb_crypto_bind(struct dpb_crypto_queue *queue, const struct dpb_cipher *cipher, void *session)
{
	queue->iv_len = cipher->iv_len;
	queue->kind = algorithms[cipher->algorithm].kind;
	queue->has_session = session != NULL;
	for (uint32_t i = 0; i < queue->n_free; i++) {
		struct rte_crypto_sym_op *sym = queue->free[i]->sym;

		/* Drivers look at the cipher's part for hashes, too. Offsets stay 0. */
		memset(sym, 0, sizeof(*sym));
		rte_crypto_op_attach_sym_session(queue->free[i], session);
		sym->m_src = queue->mbufs[2 * i];
		/* A hash writes nothing but its digest. */
		tail(queue->free[i])->dst = queue->kind == HASH ? NULL : queue->mbufs[2 * i + 1];
	}
}

/* Operations of the front of a run, as many as are asked for. Where it is inlined, kind and length are known, and make neither
 * branches nor calls: for short texts what is done here takes as long as the device does. The run is read part by part, as it was
 * written just now, and nothing but distances is carried from one operation to the next.
 */
static inline __attribute__((always_inline)) void fill_all(struct dpb_crypto_queue *queue, enum kind kind, size_t iv_len,
							 struct rte_crypto_op **ops, const struct dpb_run *run,
							 uint32_t n)
{
	struct rte_crypto_op **last = queue->free + queue->n_free - 1;
	const uint8_t *const src = run->src, *const iv = run->iv, *const aad = run->aad;
	uint8_t *const dst = run->dst, *const digest = run->digest;
	const uint64_t user = run->user;
	const uint64_t item_step = run->item_step, slot_step = run->slot_step, digest_step = run->digest_step;
	const uint32_t src_len = run->src_len, dst_len = run->dst_len;
	/* Drivers then spare themselves a copy of the text. */
	const bool is_in_place = src == dst;
	const bool wants_iova = queue->wants_iova;
	uint64_t item_at = 0, slot_at = 0, digest_at = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rte_crypto_op *op = last[-(ptrdiff_t)i];
		struct rte_crypto_sym_op *sym = op->sym;

		ops[i] = op;
		op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
		tail(op)->user = user + i;
		memcpy(tail(op)->iv, iv + item_at, iv_len);
		dpb_point(sym->m_src, src + item_at, src_len);
		sym->m_dst = is_in_place ? NULL : tail(op)->dst;
		if (kind != HASH && !is_in_place)
			dpb_point(sym->m_dst, dst + slot_at, dst_len);
		switch (kind) {
		case AEAD:
			sym->aead.data.length = src_len;
			sym->aead.digest.data = digest + digest_at;
			sym->aead.aad.data = (uint8_t *)(uintptr_t)(aad + item_at);
			if (unlikely(wants_iova)) {
				sym->aead.digest.phys_addr = (rte_iova_t)(uintptr_t)(digest + digest_at);
				sym->aead.aad.phys_addr = (rte_iova_t)(uintptr_t)(aad + item_at);
			}
			break;
		case CIPHER:
			sym->cipher.data.length = src_len;
			break;
		case HASH:
			sym->auth.data.length = src_len;
			sym->auth.digest.data = digest + digest_at;
			if (unlikely(wants_iova))
				sym->auth.digest.phys_addr = (rte_iova_t)(uintptr_t)(digest + digest_at);
			break;
		}
		item_at += item_step;
		slot_at += slot_step;
		digest_at += digest_step;
	}
	queue->n_free -= n;
}

uint32_t dpb_crypto_submit(struct dpb_crypto_queue *queue, const struct dpb_run *runs, uint32_t n)
{
	struct rte_crypto_op *ops[DPB_BURST];
	uint32_t filled = 0, taken;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t wanted = RTE_MIN(RTE_MIN(runs[i].n, DPB_BURST - filled), queue->n_free);

		if (queue->kind == AEAD && queue->iv_len == GCM_IV)
			fill_all(queue, AEAD, GCM_IV, ops + filled, &runs[i], wanted);
		else if (queue->kind == AEAD)
			fill_all(queue, AEAD, queue->iv_len, ops + filled, &runs[i], wanted);
		else if (queue->kind == CIPHER)
			fill_all(queue, CIPHER, queue->iv_len, ops + filled, &runs[i], wanted);
		else
			fill_all(queue, HASH, 0, ops + filled, &runs[i], wanted);
		if (!queue->has_session)
			for (uint32_t j = 0; j < wanted; j++)
				ops[filled + j]->sym->session = runs[i].session;
		filled += wanted;
		if (wanted < runs[i].n)
			break;
	}
	taken = rte_cryptodev_enqueue_burst(queue->device, queue->queue_pair, ops, (uint16_t)filled);
	while (filled > taken)
		queue->free[queue->n_free++] = ops[--filled];
	return taken;
}

static inline enum dpb_verdict verdict(int status)
{
	switch (status) {
	case RTE_CRYPTO_OP_STATUS_SUCCESS:
		return DPB_DONE;
	case RTE_CRYPTO_OP_STATUS_AUTH_FAILED:
		return DPB_MALFORMED;
	default:
		return DPB_FAILED;
	}
}

uint32_t dpb_crypto_poll(struct dpb_crypto_queue *queue, struct dpb_done *done, uint32_t n)
{
	struct rte_crypto_op *ops[DPB_BURST];
	uint32_t said = 0;

	n = rte_cryptodev_dequeue_burst(queue->device, queue->queue_pair, ops,
					(uint16_t)RTE_MIN(n, (uint32_t)DPB_BURST));
	for (uint32_t i = 0; i < n; said++) {
		const uint64_t user = tail(ops[i])->user;
		const int status = ops[i]->status;
		uint32_t alike = 0;

		do {
			queue->free[queue->n_free + i] = ops[i];
			i++;
			alike++;
		} while (i < n && ops[i]->status == status && tail(ops[i])->user == user + alike);
		done[said] = (struct dpb_done){.user = user, .verdict = verdict(status), .status = status, .n = alike};
	}
	queue->n_free += n;
	return said;
}
