/* AES in its modes: GCM by its direct calls, CTR and CBC as bursts of jobs, which is each one's fastest way. It has no XTS. */
#ifndef DPB_IPSEC_AES_H
#define DPB_IPSEC_AES_H

#include "peer.h"

#include <intel-ipsec-mb.h>

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

static void aes_gcm(struct peer *peer)
{
	struct aes *own = aes_of(peer);
	struct gcm_context_data context;
	uint32_t head = 12 + own->aad;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		const uint8_t *text = item->src + head;
		uint8_t tag[16];
		if (own->direction == IMB_DIR_ENCRYPT) {
			uint32_t len = item->len - head;
			own->gcm(&own->hash, &context, item->dst, text, len, item->src, item->src + 12, own->aad,
				 item->dst + len, 16);
			item->written = len + 16;
		} else {
			uint32_t len = item->len - head - 16;
			own->gcm(&own->hash, &context, item->dst, text, len, item->src, item->src + 12, own->aad, tag, 16);
			item->written = memcmp(tag, text + len, 16) ? UINT32_MAX : len;
		}
	}
}

static void aes_bursts(struct peer *peer)
{
	struct aes *own = aes_of(peer);
	const struct task *task = peer->task;
	for (size_t i = 0; i < task->count;) {
		size_t count = task->count - i < IMB_MAX_BURST_SIZE ? task->count - i : IMB_MAX_BURST_SIZE;
		for (size_t k = 0; k < count; k++) {
			struct item *item = &task->items[i + k];
			IMB_JOB *job = &own->jobs[k];
			job->src = item->src + 16;
			job->dst = item->dst;
			job->iv = item->src;
			job->iv_len_in_bytes = 16;
			job->enc_keys = own->encrypt;
			job->dec_keys = own->decrypt;
			job->key_len_in_bytes = own->key_bytes;
			job->cipher_start_src_offset_in_bytes = 0;
			job->msg_len_to_cipher_in_bytes = item->len - 16;
			item->written = item->len - 16;
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
static struct peer *aes_peer(const struct task *task)
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
		if (!is(task, modes[i].operator_name))
			continue;
		if (posix_memalign((void **)&own, 64, sizeof(*own)))
			abort();
		memset(own, 0, sizeof(*own));
		own->manager = alloc_mb_mgr(0);
		init_mb_mgr_auto(own->manager, NULL);
		own->mode = modes[i].mode;
		own->direction = modes[i].direction;
		own->key_bytes = number(task, "bits") / 8;
		own->peer = (struct peer){ aes_bursts, NULL, aes_release, task };
		int encrypts = own->direction == IMB_DIR_ENCRYPT;
		if (own->key_bytes == 16) {
			IMB_AES_KEYEXP_128(own->manager, task->material, own->encrypt, own->decrypt);
			own->gcm = encrypts ? own->manager->gcm128_enc : own->manager->gcm128_dec;
		} else {
			IMB_AES_KEYEXP_256(own->manager, task->material, own->encrypt, own->decrypt);
			own->gcm = encrypts ? own->manager->gcm256_enc : own->manager->gcm256_dec;
		}
		if (own->mode == IMB_CIPHER_GCM) {
			own->aad = number(task, "aad");
			own->peer.run = aes_gcm;
			if (own->key_bytes == 16)
				IMB_AES128_GCM_PRE(own->manager, task->material, &own->hash);
			else
				IMB_AES256_GCM_PRE(own->manager, task->material, &own->hash);
		}
		return &own->peer;
	}
	return NULL;
}

#endif
