/* AES in its modes: GCM by its direct calls, CTR and CBC as bursts of jobs, which is each one's fastest way, with one key and with a key
 * for each session alike: a call of GCM takes a key, a job of a burst has its own. It has no XTS. */
#ifndef DPB_IPSEC_AES_H
#define DPB_IPSEC_AES_H

#include "peer.h"

#include <intel-ipsec-mb.h>

/* For the best of the CPU, or what DPB_CPU_LEVEL leaves of it. */
static IMB_MGR *manager(void)
{
	const char *level = getenv("DPB_CPU_LEVEL");
	int is_v4 = !level || !strcmp(level, "x86-64-v4");
	/* Its code for AVX2 takes VAES too where it finds GFNI. */
	IMB_MGR *manager = alloc_mb_mgr(is_v4 || !strcmp(level, "x86-64-v3-vaes") ? 0 : IMB_FLAG_GFNI_OFF);
	if (is_v4)
		init_mb_mgr_auto(manager, NULL);
	else if (!strcmp(level, "x86-64-v2") || !strcmp(level, "x86-64-v1"))
		init_mb_mgr_sse(manager);
	else
		init_mb_mgr_avx2(manager);
	return manager;
}

/* A key, ready. */
struct aes_key {
	struct gcm_key_data hash __attribute__((aligned(64)));
	uint8_t encrypt[16 * 15] __attribute__((aligned(64)));
	uint8_t decrypt[16 * 15] __attribute__((aligned(64)));
};

struct aes {
	struct peer peer;
	/* One, or one for each session. */
	struct aes_key *keys;
	IMB_MGR *manager;
	aes_gcm_enc_dec_t gcm;
	uint32_t aad;
	IMB_CIPHER_MODE mode;
	IMB_CIPHER_DIRECTION direction;
	uint32_t key_bytes;
	IMB_JOB jobs[IMB_MAX_BURST_SIZE];
};

static struct aes *aes_of(struct peer *peer)
{
	return (struct aes *)((uint8_t *)peer - offsetof(struct aes, peer));
}

/* `session`: the bytes of a session's number in an item, known to the compiler. */
static inline __attribute__((always_inline)) void gcm_each(struct aes *own, const struct task *given, const uint32_t session)
{
	struct gcm_context_data context;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const struct gcm_key_data *key = &own->keys[session ? session_of(&task, i) : 0].hash;
		const uint8_t *nonce = src_of(&task, i) + session, *aad = nonce + 12, *text = aad + own->aad;
		uint32_t len = len_of(&task, i) - session - 12 - own->aad;
		uint8_t tag[16];
		if (own->direction == IMB_DIR_ENCRYPT) {
			own->gcm(key, &context, dst_of(&task, i), text, len, nonce, aad, own->aad, dst_of(&task, i) + len, 16);
			wrote(&task, i, len + 16);
		} else {
			len -= 16;
			own->gcm(key, &context, dst_of(&task, i), text, len, nonce, aad, own->aad, tag, 16);
			wrote(&task, i, memcmp(tag, text + len, 16) ? UINT32_MAX : len);
		}
	}
}

static void gcm_one_key(struct peer *peer, const struct task *task)
{
	gcm_each(aes_of(peer), task, 0);
}

static void gcm_sessions(struct peer *peer, const struct task *task)
{
	gcm_each(aes_of(peer), task, SESSION);
}

/* As above. */
static inline __attribute__((always_inline)) void burst_each(struct aes *own, const struct task *given, const uint32_t session)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count;) {
		size_t count = task.count - i < IMB_MAX_BURST_SIZE ? task.count - i : IMB_MAX_BURST_SIZE;
		for (size_t k = 0; k < count; k++) {
			IMB_JOB *job = &own->jobs[k];
			const struct aes_key *key = &own->keys[session ? session_of(&task, i + k) : 0];
			const uint8_t *iv = src_of(&task, i + k) + session;
			uint32_t len = len_of(&task, i + k) - session - 16;
			job->src = iv + 16;
			job->dst = dst_of(&task, i + k);
			job->iv = iv;
			job->iv_len_in_bytes = 16;
			job->enc_keys = key->encrypt;
			job->dec_keys = key->decrypt;
			job->key_len_in_bytes = own->key_bytes;
			job->cipher_start_src_offset_in_bytes = 0;
			job->msg_len_to_cipher_in_bytes = len;
			wrote(&task, i + k, len);
		}
		IMB_SUBMIT_CIPHER_BURST_NOCHECK(own->manager, own->jobs, count, own->mode, own->direction,
						own->key_bytes);
		i += count;
	}
}

static void bursts_one_key(struct peer *peer, const struct task *task)
{
	burst_each(aes_of(peer), task, 0);
}

static void bursts_sessions(struct peer *peer, const struct task *task)
{
	burst_each(aes_of(peer), task, SESSION);
}

/* Makes each key ready. */
static void expand(struct aes *own, const uint8_t *keys, size_t count)
{
	own->keys = aligned_room(count * sizeof(*own->keys));
	for (size_t i = 0; i < count; i++) {
		const uint8_t *key = keys + i * own->key_bytes;
		struct aes_key *to = &own->keys[i];
		if (own->key_bytes == 16) {
			IMB_AES_KEYEXP_128(own->manager, key, to->encrypt, to->decrypt);
			IMB_AES128_GCM_PRE(own->manager, key, &to->hash);
		} else {
			IMB_AES_KEYEXP_256(own->manager, key, to->encrypt, to->decrypt);
			IMB_AES256_GCM_PRE(own->manager, key, &to->hash);
		}
	}
}

static void aes_release(struct peer *peer)
{
	struct aes *own = aes_of(peer);
	free_mb_mgr(own->manager);
	free(own->keys);
	free(own);
}

/* NULL if the task is not AES, or is XTS. */
static struct peer *aes_peer(const struct spec *spec)
{
	static const struct {
		const char *operator_name;
		IMB_CIPHER_MODE mode;
		IMB_CIPHER_DIRECTION direction;
	} modes[] = {
		{ "aes-gcm", IMB_CIPHER_GCM, IMB_DIR_ENCRYPT },  { "aes-gcm-decrypt", IMB_CIPHER_GCM, IMB_DIR_DECRYPT },
		{ "aes-ctr", IMB_CIPHER_CNTR, IMB_DIR_ENCRYPT }, { "aes-cbc", IMB_CIPHER_CBC, IMB_DIR_ENCRYPT },
		{ "aes-cbc-decrypt", IMB_CIPHER_CBC, IMB_DIR_DECRYPT },
	};
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct aes *own;
		size_t count = sessions(spec);
		if (!is(spec, modes[i].operator_name))
			continue;
		own = aligned_room(sizeof(*own));
		own->manager = manager();
		own->mode = modes[i].mode;
		own->direction = modes[i].direction;
		own->key_bytes = number(spec, "bits") / 8;
		own->peer = (struct peer){ count ? bursts_sessions : bursts_one_key, NULL, aes_release };
		expand(own, spec->material, count ? count : 1);
		if (own->mode == IMB_CIPHER_GCM) {
			int encrypts = own->direction == IMB_DIR_ENCRYPT;
			own->aad = number(spec, "aad");
			if (own->key_bytes == 16)
				own->gcm = encrypts ? own->manager->gcm128_enc : own->manager->gcm128_dec;
			else
				own->gcm = encrypts ? own->manager->gcm256_enc : own->manager->gcm256_dec;
			own->peer.run = count ? gcm_sessions : gcm_one_key;
		}
		return &own->peer;
	}
	return NULL;
}

#endif
