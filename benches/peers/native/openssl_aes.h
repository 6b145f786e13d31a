/* AES in its modes: the cipher and the key set once, each item's nonce, counter, vector or tweak by one more call. */
#ifndef DPB_OPENSSL_AES_H
#define DPB_OPENSSL_AES_H

#include "peer.h"

#include <openssl/evp.h>

struct aes {
	struct peer peer;
	EVP_CIPHER *cipher;
	EVP_CIPHER_CTX *context;
	uint32_t head; /* bytes in front of the text */
	uint32_t aad;
	uint32_t tag;
	int encrypts;
};

static void aes_run(struct peer *peer, const struct task *given)
{
	struct aes *own = (struct aes *)peer;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		const uint8_t *text = src_of(&task, i) + own->head;
		uint32_t len = len_of(&task, i) - own->head - (own->encrypts ? 0 : own->tag);
		int done, last = 0;
		wrote(&task, i, UINT32_MAX);
		EVP_CipherInit_ex2(own->context, NULL, NULL, src_of(&task, i), -1, NULL);
		if (own->aad)
			EVP_CipherUpdate(own->context, NULL, &done, src_of(&task, i) + own->head - own->aad, own->aad);
		if (!EVP_CipherUpdate(own->context, dst_of(&task, i), &done, text, len))
			continue;
		if (own->tag && !own->encrypts)
			EVP_CIPHER_CTX_ctrl(own->context, EVP_CTRL_AEAD_SET_TAG, own->tag, (void *)(text + len));
		if (own->tag && EVP_CipherFinal_ex(own->context, dst_of(&task, i) + done, &last) != 1)
			continue;
		if (own->tag && own->encrypts) {
			EVP_CIPHER_CTX_ctrl(own->context, EVP_CTRL_AEAD_GET_TAG, own->tag, dst_of(&task, i) + len);
			len += own->tag;
		}
		wrote(&task, i, len);
	}
}

static void aes_release(struct peer *peer)
{
	struct aes *own = (struct aes *)peer;
	EVP_CIPHER_CTX_free(own->context);
	EVP_CIPHER_free(own->cipher);
	free(own);
}

/* NULL if the task is not AES. */
static struct peer *aes_peer(const struct spec *spec)
{
	static const struct {
		const char *operator_name;
		const char *mode;
		int encrypts;
	} modes[] = {
		{ "aes-gcm", "GCM", 1 }, { "aes-gcm-decrypt", "GCM", 0 }, { "aes-ctr", "CTR", 1 },
		{ "aes-cbc", "CBC", 1 }, { "aes-cbc-decrypt", "CBC", 0 }, { "aes-xts", "XTS", 1 },
		{ "aes-xts-decrypt", "XTS", 0 },
	};
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		char name[16];
		if (!is(spec, modes[i].operator_name))
			continue;
		struct aes *own = room(sizeof(*own));
		int is_gcm = !strcmp(modes[i].mode, "GCM");
		snprintf(name, sizeof(name), "AES-%ld-%s", number(spec, "bits"), modes[i].mode);
		own->aad = is_gcm ? number(spec, "aad") : 0;
		own->head = (is_gcm ? 12 : 16) + own->aad;
		own->tag = is_gcm ? 16 : 0;
		own->encrypts = modes[i].encrypts;
		own->cipher = EVP_CIPHER_fetch(NULL, name, NULL);
		own->context = EVP_CIPHER_CTX_new();
		EVP_CipherInit_ex2(own->context, own->cipher, spec->material, NULL, own->encrypts, NULL);
		EVP_CIPHER_CTX_set_padding(own->context, 0);
		own->peer = (struct peer){ aes_run, NULL, aes_release };
		return &own->peer;
	}
	return NULL;
}

#endif
