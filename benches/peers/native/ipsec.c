/* intel-ipsec-mb: bursts of jobs where it takes an algorithm so, else jobs through its manager, flushed at the end of a batch. */
#include "ipsec_aes.h"
#include "peer.h"

#include <intel-ipsec-mb.h>

const char *ipsec_version(void)
{
	return imb_get_version_str();
}

/* What a key makes of the state. */
struct hmac_key {
	uint8_t inner[64] __attribute__((aligned(64)));
	uint8_t outer[64] __attribute__((aligned(64)));
};

struct own {
	struct peer peer;
	IMB_MGR *manager;
	IMB_HASH_ALG algorithm;
	uint32_t tag;
	/* One, or one for each session. */
	struct hmac_key *keys;
	IMB_JOB jobs[IMB_MAX_BURST_SIZE];
};

/* `session`: the bytes of a session's number in an item, known to the compiler. */
static inline __attribute__((always_inline)) void describe(const struct own *own, IMB_JOB *job, const struct task *task, size_t i,
							   const uint32_t session)
{
	const struct hmac_key *key = &own->keys[session ? session_of(task, i) : 0];
	job->cipher_mode = IMB_CIPHER_NULL;
	job->cipher_direction = IMB_DIR_ENCRYPT;
	job->chain_order = IMB_ORDER_HASH_CIPHER;
	job->hash_alg = own->algorithm;
	job->src = src_of(task, i) + session;
	job->hash_start_src_offset_in_bytes = 0;
	job->msg_len_to_hash_in_bytes = len_of(task, i) - session;
	job->auth_tag_output = dst_of(task, i);
	job->auth_tag_output_len_in_bytes = own->tag;
	job->u.HMAC._hashed_auth_key_xor_ipad = key->inner;
	job->u.HMAC._hashed_auth_key_xor_opad = key->outer;
	wrote(task, i, own->tag);
}

static inline __attribute__((always_inline)) void job_each(struct own *own, const struct task *given, const uint32_t session)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		describe(own, IMB_GET_NEXT_JOB(own->manager), &task, i, session);
		IMB_SUBMIT_JOB_NOCHECK(own->manager);
	}
	while (IMB_FLUSH_JOB(own->manager))
		;
}

static void jobs_one_key(struct peer *peer, const struct task *task)
{
	job_each((struct own *)peer, task, 0);
}

static void jobs_sessions(struct peer *peer, const struct task *task)
{
	job_each((struct own *)peer, task, SESSION);
}

static inline __attribute__((always_inline)) void burst_hashes(struct own *own, const struct task *given, const uint32_t session)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count;) {
		size_t count = task.count - i < IMB_MAX_BURST_SIZE ? task.count - i : IMB_MAX_BURST_SIZE;
		for (size_t k = 0; k < count; k++)
			describe(own, &own->jobs[k], &task, i + k, session);
		IMB_SUBMIT_HASH_BURST_NOCHECK(own->manager, own->jobs, count, own->algorithm);
		i += count;
	}
}

static void hashes_one_key(struct peer *peer, const struct task *task)
{
	burst_hashes((struct own *)peer, task, 0);
}

static void hashes_sessions(struct peer *peer, const struct task *task)
{
	burst_hashes((struct own *)peer, task, SESSION);
}

/* Whether the library takes this algorithm in bursts. */
static int takes_bursts(struct own *own, const struct task *task, uint32_t session)
{
	describe(own, &own->jobs[0], task, 0, session);
	return IMB_SUBMIT_HASH_BURST(own->manager, own->jobs, 1, own->algorithm) == 1;
}

static void release(struct peer *peer)
{
	struct own *own = (struct own *)peer;
	free_mb_mgr(own->manager);
	free(own->keys);
	free(own);
}

/* The state behind one block of the key, padded. A key longer than a block would be hashed first; no bench has one. */
static int take_key(const struct own *own, struct hmac_key *to, const uint8_t *key, size_t len)
{
	uint8_t inner[128], outer[128];
	if (len > (own->algorithm == IMB_AUTH_HMAC_SHA_512 ? 128 : 64))
		return 0;
	memset(inner, 0x36, sizeof(inner));
	memset(outer, 0x5c, sizeof(outer));
	for (size_t i = 0; i < len; i++) {
		inner[i] ^= key[i];
		outer[i] ^= key[i];
	}
	switch (own->algorithm) {
	case IMB_AUTH_MD5:
		IMB_MD5_ONE_BLOCK(own->manager, inner, to->inner);
		IMB_MD5_ONE_BLOCK(own->manager, outer, to->outer);
		return 1;
	case IMB_AUTH_HMAC_SHA_1:
		IMB_SHA1_ONE_BLOCK(own->manager, inner, to->inner);
		IMB_SHA1_ONE_BLOCK(own->manager, outer, to->outer);
		return 1;
	case IMB_AUTH_HMAC_SHA_256:
		IMB_SHA256_ONE_BLOCK(own->manager, inner, to->inner);
		IMB_SHA256_ONE_BLOCK(own->manager, outer, to->outer);
		return 1;
	case IMB_AUTH_HMAC_SHA_512:
		IMB_SHA512_ONE_BLOCK(own->manager, inner, to->inner);
		IMB_SHA512_ONE_BLOCK(own->manager, outer, to->outer);
		return 1;
	default:
		return 1;
	}
}

/* Makes each key ready, or says that the library does not take it. */
static int take_keys(struct own *own, const struct spec *spec)
{
	size_t count = sessions(spec) ? sessions(spec) : 1, len = spec->material_len / count;
	int taken = 1;
	own->keys = aligned_room(count * sizeof(*own->keys));
	for (size_t i = 0; taken && i < count; i++)
		taken = take_key(own, &own->keys[i], spec->material + i * len, len);
	return taken;
}

struct peer *ipsec_peer(const char *name, const struct spec *spec, const struct task *task)
{
	static const struct {
		const char *operator_name;
		IMB_HASH_ALG algorithm;
		uint32_t tag;
	} hashes[] = {
		{ "sha1", IMB_AUTH_SHA_1, 20 },        { "sha256", IMB_AUTH_SHA_256, 32 },
		{ "sha512", IMB_AUTH_SHA_512, 64 },    { "hmac-md5", IMB_AUTH_MD5, 16 },
		{ "hmac-sha1", IMB_AUTH_HMAC_SHA_1, 20 }, { "hmac-sha256", IMB_AUTH_HMAC_SHA_256, 32 },
		{ "hmac-sha512", IMB_AUTH_HMAC_SHA_512, 64 },
	};
	struct own *own;
	size_t count = sessions(spec);
	struct peer *aes = aes_peer(spec);
	(void)name;
	if (aes)
		return aes;
	for (size_t i = 0; i < sizeof(hashes) / sizeof(*hashes); i++) {
		if (!is(spec, hashes[i].operator_name))
			continue;
		own = aligned_room(sizeof(*own));
		own->manager = manager();
		own->algorithm = hashes[i].algorithm;
		own->tag = hashes[i].tag;
		own->peer = (struct peer){ count ? jobs_sessions : jobs_one_key, NULL, release };
		if (!take_keys(own, spec)) {
			release(&own->peer);
			return NULL;
		}
		if (takes_bursts(own, task, count ? SESSION : 0))
			own->peer.run = count ? hashes_sessions : hashes_one_key;
		return &own->peer;
	}
	return NULL;
}
