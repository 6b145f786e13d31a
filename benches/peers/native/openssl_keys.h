/* OpenSSL's libcrypto with public keys, through EVP: the key taken in and its context set up once, and used for every item.
   A part of openssl.c.

   OpenSSL writes the r and s of DSA and ECDSA as DER. What it is to verify is put so before time runs, what it signed is
   put into the operator's fixed form after. */
#ifndef DPB_OPENSSL_KEYS_H
#define DPB_OPENSSL_KEYS_H

#include "peer.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

/* Bytes of the longest signature, r and s of P-384 as DER or 4096 bits of RSA, and of the longest digest. */
enum { SIGNATURE_MAX = 512, DIGEST_MAX = 48 };

struct der {
	size_t len;
	unsigned char bytes[SIGNATURE_MAX];
};

struct keyed {
	struct peer peer;
	EVP_PKEY *key;
	EVP_PKEY_CTX *context;
	EVP_MD *digest;
	EVP_MD_CTX *hashing;
	size_t half; /* of r, and of s; 0 where a signature is one number */
	size_t signature_bytes; /* as the operator has it */
	struct der *signatures; /* of each item, as OpenSSL has it */
};

static size_t digest_of(struct keyed *own, const uint8_t *message, size_t len, unsigned char *digest)
{
	unsigned int digest_len = 0;
	EVP_DigestInit_ex2(own->hashing, own->digest, NULL);
	EVP_DigestUpdate(own->hashing, message, len);
	EVP_DigestFinal_ex(own->hashing, digest, &digest_len);
	return digest_len;
}

static void keyed_sign(struct peer *peer, const struct task *given)
{
	struct keyed *own = (struct keyed *)peer;
	unsigned char digest[DIGEST_MAX];
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		struct der *signature = &own->signatures[i];
		size_t len = digest_of(own, src_of(&task, i), len_of(&task, i), digest);
		signature->len = SIGNATURE_MAX;
		if (EVP_PKEY_sign(own->context, signature->bytes, &signature->len, digest, len) != 1)
			signature->len = 0;
	}
}

static void keyed_verify(struct peer *peer, const struct task *given)
{
	struct keyed *own = (struct keyed *)peer;
	unsigned char digest[DIGEST_MAX];
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		struct der *signature = &own->signatures[i];
		size_t signed_at = own->signature_bytes;
		size_t len = digest_of(own, src_of(&task, i) + signed_at, len_of(&task, i) - signed_at, digest);
		dst_of(&task, i)[0] = EVP_PKEY_verify(own->context, signature->bytes, signature->len, digest, len) == 1;
		wrote(&task, i, 1);
	}
}

static void keyed_encrypt(struct peer *peer, const struct task *given)
{
	struct keyed *own = (struct keyed *)peer;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		size_t len = task.slot;
		int done = EVP_PKEY_encrypt(own->context, dst_of(&task, i), &len, src_of(&task, i), len_of(&task, i));
		wrote(&task, i, done == 1 ? len : UINT32_MAX);
	}
}

static void keyed_decrypt(struct peer *peer, const struct task *given)
{
	struct keyed *own = (struct keyed *)peer;
	unsigned char message[SIGNATURE_MAX]; /* OpenSSL wants room for a whole modulus */
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		size_t len = sizeof(message);
		int done = EVP_PKEY_decrypt(own->context, message, &len, src_of(&task, i), len_of(&task, i));
		if (done == 1 && len <= task.slot) {
			memcpy(dst_of(&task, i), message, len);
			wrote(&task, i, len);
		} else {
			wrote(&task, i, UINT32_MAX);
		}
	}
}

/* r and s out of DER: the same SEQUENCE of two INTEGERs for DSA and ECDSA. */
static void keyed_finish(struct peer *peer, const struct task *given)
{
	struct keyed *own = (struct keyed *)peer;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		struct der *der = &own->signatures[i];
		const unsigned char *at = der->bytes;
		wrote(&task, i, own->signature_bytes);
		memset(dst_of(&task, i), 0, own->signature_bytes);
		if (!own->half) {
			memcpy(dst_of(&task, i), der->bytes, own->signature_bytes);
			continue;
		}
		ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, der->len);
		if (!pair)
			continue;
		BN_bn2binpad(ECDSA_SIG_get0_r(pair), dst_of(&task, i), own->half);
		BN_bn2binpad(ECDSA_SIG_get0_s(pair), dst_of(&task, i) + own->half, own->half);
		ECDSA_SIG_free(pair);
	}
}

static void keyed_take_signatures(struct keyed *own, const struct task *task)
{
	for (size_t i = 0; i < task->count; i++) {
		const uint8_t *src = src_of(task, i);
		struct der *der = &own->signatures[i];
		unsigned char *at = der->bytes;
		if (!own->half) {
			memcpy(at, src, own->signature_bytes);
			der->len = own->signature_bytes;
			continue;
		}
		ECDSA_SIG *pair = ECDSA_SIG_new();
		ECDSA_SIG_set0(pair, BN_bin2bn(src, own->half, NULL), BN_bin2bn(src + own->half, own->half, NULL));
		der->len = i2d_ECDSA_SIG(pair, &at);
		ECDSA_SIG_free(pair);
	}
}

static void keyed_free(struct peer *peer)
{
	struct keyed *own = (struct keyed *)peer;
	EVP_PKEY_CTX_free(own->context);
	EVP_PKEY_free(own->key);
	EVP_MD_CTX_free(own->hashing);
	EVP_MD_free(own->digest);
	free(own->signatures);
	free(own);
}

/* NULL if `spec` is none of these. */
static struct peer *keyed_peer(const struct spec *spec, const struct task *task)
{
	static const struct {
		const char *name;
		int is_private;
		int (*init)(EVP_PKEY_CTX *);
		void (*run)(struct peer *, const struct task *);
	} operators[] = {
		{ "rsa-sign", 1, EVP_PKEY_sign_init, keyed_sign },
		{ "dsa-sign", 1, EVP_PKEY_sign_init, keyed_sign },
		{ "ecdsa-sign", 1, EVP_PKEY_sign_init, keyed_sign },
		{ "rsa-verify", 0, EVP_PKEY_verify_init, keyed_verify },
		{ "dsa-verify", 0, EVP_PKEY_verify_init, keyed_verify },
		{ "ecdsa-verify", 0, EVP_PKEY_verify_init, keyed_verify },
		{ "rsa-encrypt", 0, EVP_PKEY_encrypt_init, keyed_encrypt },
		{ "rsa-decrypt", 1, EVP_PKEY_decrypt_init, keyed_decrypt },
	};
	size_t at = 0, count = sizeof(operators) / sizeof(*operators);
	const unsigned char *der = spec->material;
	while (at < count && !is(spec, operators[at].name))
		at++;
	if (at == count)
		return NULL;
	struct keyed *own = room(sizeof(*own));
	own->peer = (struct peer){ operators[at].run, NULL, keyed_free };
	own->key = operators[at].is_private ? d2i_AutoPrivateKey(NULL, &der, spec->material_len)
					    : d2i_PUBKEY(NULL, &der, spec->material_len);
	own->context = EVP_PKEY_CTX_new(own->key, NULL);
	own->digest = EVP_MD_fetch(NULL, has(spec, "curve=p384") ? "SHA384" : "SHA256", NULL);
	own->hashing = EVP_MD_CTX_new();
	own->half = has(spec, "curve=p384") ? 48 : strncmp(spec->operator_name, "rsa", 3) ? 32 : 0;
	own->signature_bytes = own->half ? 2 * own->half : (size_t)EVP_PKEY_get_size(own->key);
	own->signatures = room(task->count * sizeof(*own->signatures));
	operators[at].init(own->context);
	if (!own->half) {
		int is_oaep = !strstr(spec->parameters, "padding=");
		int padding = is_oaep ? RSA_PKCS1_OAEP_PADDING
			      : has(spec, "padding=pss") ? RSA_PKCS1_PSS_PADDING : RSA_PKCS1_PADDING;
		EVP_PKEY_CTX_set_rsa_padding(own->context, padding);
		if (is_oaep)
			EVP_PKEY_CTX_set_rsa_oaep_md(own->context, own->digest);
		else
			EVP_PKEY_CTX_set_signature_md(own->context, own->digest);
		if (padding == RSA_PKCS1_PSS_PADDING)
			EVP_PKEY_CTX_set_rsa_pss_saltlen(own->context, RSA_PSS_SALTLEN_DIGEST);
	}
	if (own->peer.run == keyed_sign)
		own->peer.finish = keyed_finish;
	if (own->peer.run == keyed_verify)
		keyed_take_signatures(own, task);
	return &own->peer;
}

#endif
