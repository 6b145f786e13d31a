/* OpenSSL's libcrypto through EVP: algorithms fetched and keys taken in once, contexts used again. */
#include "openssl_aes.h"
#include "openssl_keys.h"
#include "peer.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

const char *openssl_version(void)
{
	return OpenSSL_version(OPENSSL_VERSION_STRING);
}

struct own {
	struct peer peer;
	EVP_MD *digest;
	EVP_MD_CTX *context;
	EVP_MAC *mac;
	EVP_MAC_CTX *keyed;
};

static void digest(struct peer *peer)
{
	struct own *own = (struct own *)peer;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		EVP_DigestInit_ex2(own->context, own->digest, NULL);
		EVP_DigestUpdate(own->context, item->src, item->len);
		EVP_DigestFinal_ex(own->context, item->dst, &item->written);
	}
}

static void mac(struct peer *peer)
{
	struct own *own = (struct own *)peer;
	for (size_t i = 0; i < peer->task->count; i++) {
		struct item *item = &peer->task->items[i];
		size_t len;
		EVP_MAC_init(own->keyed, NULL, 0, NULL); /* the same key again */
		EVP_MAC_update(own->keyed, item->src, item->len);
		EVP_MAC_final(own->keyed, item->dst, &len, item->room);
		item->written = len;
	}
}

static void release(struct peer *peer)
{
	struct own *own = (struct own *)peer;
	EVP_MD_CTX_free(own->context);
	EVP_MD_free(own->digest);
	EVP_MAC_CTX_free(own->keyed);
	EVP_MAC_free(own->mac);
	free(own);
}

struct peer *openssl_peer(const char *name, const struct task *task)
{
	static const char *const names[][2] = {
		{ "md5", "MD5" }, { "sha1", "SHA1" }, { "sha256", "SHA256" }, { "sha512", "SHA512" },
	};
	struct peer *keyed = keyed_peer(task);
	if (keyed)
		return keyed;
	struct peer *aes = aes_peer(task);
	if (aes)
		return aes;
	struct own *own = room(sizeof(*own));
	(void)name;
	own->peer = (struct peer){ NULL, NULL, release, task };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (is(task, names[i][0])) {
			own->digest = EVP_MD_fetch(NULL, names[i][1], NULL);
			own->context = EVP_MD_CTX_new();
			own->peer.run = digest;
		} else if (!strncmp(task->operator_name, "hmac-", 5) && !strcmp(task->operator_name + 5, names[i][0])) {
			OSSL_PARAM params[] = {
				OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)names[i][1], 0),
				OSSL_PARAM_construct_end(),
			};
			own->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
			own->keyed = EVP_MAC_CTX_new(own->mac);
			EVP_MAC_init(own->keyed, task->material, task->material_len, params);
			own->peer.run = mac;
		}
	}
	if (own->peer.run)
		return &own->peer;
	free(own);
	return NULL;
}
