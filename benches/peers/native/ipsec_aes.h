/* AES in its modes: GCM by its direct calls, CTR and CBC as bursts of jobs, which is each one's fastest way. It has no XTS. */
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
	else
		init_mb_mgr_avx2(manager);
	return manager;
}

struct aes {
	struct gcm_key_data hash __attribute__((aligned(64)));
	uint8_t encrypt[16 * 15] __attribute__((aligned(64)));
	uint8_t decrypt[16 * 15] __attribute__((aligned(64)));
	struct peer peer;
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

static void aes_gcm(struct peer *peer, const struct task *given)
{
	struct aes *own = aes_of(peer);
	struct gcm_context_data context;
	uint32_t head = 12 + own->aad;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const uint8_t *text = src_of(&task, i) + head;
		uint8_t tag[16];
		if (own->direction == IMB_DIR_ENCRYPT) {
			uint32_t len = len_of(&task, i) - head;
			own->gcm(&own->hash, &context, dst_of(&task, i), text, len, src_of(&task, i), src_of(&task, i) + 12, own->aad,
				 dst_of(&task, i) + len, 16);
			wrote(&task, i, len + 16);
		} else {
			uint32_t len = len_of(&task, i) - head - 16;
			own->gcm(&own->hash, &context, dst_of(&task, i), text, len, src_of(&task, i), src_of(&task, i) + 12, own->aad, tag, 16);
			wrote(&task, i, memcmp(tag, text + len, 16) ? UINT32_MAX : len);
		}
	}
}

static void aes_bursts(struct peer *peer, const struct task *given)
{
	struct aes *own = aes_of(peer);
	const struct task task = *given;
	for (size_t i = 0; i < task.count;) {
		size_t count = task.count - i < IMB_MAX_BURST_SIZE ? task.count - i : IMB_MAX_BURST_SIZE;
		for (size_t k = 0; k < count; k++) {
			IMB_JOB *job = &own->jobs[k];
			job->src = src_of(&task, i + k) + 16;
			job->dst = dst_of(&task, i + k);
			job->iv = src_of(&task, i + k);
			job->iv_len_in_bytes = 16;
			job->enc_keys = own->encrypt;
			job->dec_keys = own->decrypt;
			job->key_len_in_bytes = own->key_bytes;
			job->cipher_start_src_offset_in_bytes = 0;
			job->msg_len_to_cipher_in_bytes = len_of(&task, i + k) - 16;
			wrote(&task, i + k, len_of(&task, i + k) - 16);
		}
		IMB_SUBMIT_CIPHER_BURST_NOCHECK(own->manager, own->jobs, count, own->mode, own->direction,
						own->key_bytes);
		i += count;
	}
}

static void aes_release(struct peer *peer)
{
	struct aes *own = aes_of(peer);
	free_mb_mgr(own->manager);
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
		if (!is(spec, modes[i].operator_name))
			continue;
		if (posix_memalign((void **)&own, 64, sizeof(*own)))
			abort();
		memset(own, 0, sizeof(*own));
		own->manager = manager();
		own->mode = modes[i].mode;
		own->direction = modes[i].direction;
		own->key_bytes = number(spec, "bits") / 8;
		own->peer = (struct peer){ aes_bursts, NULL, aes_release };
		int encrypts = own->direction == IMB_DIR_ENCRYPT;
		if (own->key_bytes == 16) {
			IMB_AES_KEYEXP_128(own->manager, spec->material, own->encrypt, own->decrypt);
			own->gcm = encrypts ? own->manager->gcm128_enc : own->manager->gcm128_dec;
		} else {
			IMB_AES_KEYEXP_256(own->manager, spec->material, own->encrypt, own->decrypt);
			own->gcm = encrypts ? own->manager->gcm256_enc : own->manager->gcm256_dec;
		}
		if (own->mode == IMB_CIPHER_GCM) {
			own->aad = number(spec, "aad");
			own->peer.run = aes_gcm;
			if (own->key_bytes == 16)
				IMB_AES128_GCM_PRE(own->manager, spec->material, &own->hash);
			else
				IMB_AES256_GCM_PRE(own->manager, spec->material, &own->hash);
		}
		return &own->peer;
	}
	return NULL;
}

#endif
