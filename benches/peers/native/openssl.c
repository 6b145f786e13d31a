/* OpenSSL's libcrypto through EVP: algorithms fetched and keys taken in once, contexts used again. */
#include "openssl_aes.h"
#include "openssl_keys.h"
#include "peer.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <stdio.h>

const char *openssl_version(void)
{
	static char version[512];
	snprintf(version, sizeof(version), "%s; %s", OpenSSL_version(OPENSSL_VERSION_STRING), OpenSSL_version(OPENSSL_CFLAGS));
	return version;
}

struct own {
	struct peer peer;
	EVP_MD *digest;
	EVP_MD_CTX *context;
	EVP_MAC *mac;
	EVP_MAC_CTX *keyed;
};

static void digest(struct peer *peer, const struct task *given)
{
	struct own *own = (struct own *)peer;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		EVP_DigestInit_ex2(own->context, own->digest, NULL);
		EVP_DigestUpdate(own->context, src_of(&task, i), len_of(&task, i));
		EVP_DigestFinal_ex(own->context, dst_of(&task, i), NULL);
	}
}

static void mac(struct peer *peer, const struct task *given)
{
	struct own *own = (struct own *)peer;
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++) {
		size_t len;
		EVP_MAC_init(own->keyed, NULL, 0, NULL); /* the same key again */
		EVP_MAC_update(own->keyed, src_of(&task, i), len_of(&task, i));
		EVP_MAC_final(own->keyed, dst_of(&task, i), &len, task.slot);
		wrote(&task, i, len);
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

struct peer *openssl_peer(const char *name, const struct spec *spec, const struct task *task)
{
	static const char *const names[][2] = {
		{ "md5", "MD5" }, { "sha1", "SHA1" }, { "sha256", "SHA256" }, { "sha512", "SHA512" },
	};
	struct peer *keyed = keyed_peer(spec, task);
	if (keyed)
		return keyed;
	struct peer *aes = aes_peer(spec);
	if (aes)
		return aes;
	struct own *own = room(sizeof(*own));
	(void)name, (void)task;
	own->peer = (struct peer){ NULL, NULL, release };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (is(spec, names[i][0])) {
			own->digest = EVP_MD_fetch(NULL, names[i][1], NULL);
			own->context = EVP_MD_CTX_new();
			own->peer.run = digest;
		} else if (!strncmp(spec->operator_name, "hmac-", 5) && !strcmp(spec->operator_name + 5, names[i][0])) {
			OSSL_PARAM params[] = {
				OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)names[i][1], 0),
				OSSL_PARAM_construct_end(),
			};
			own->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
			own->keyed = EVP_MAC_CTX_new(own->mac);
			EVP_MAC_init(own->keyed, spec->material, spec->material_len, params);
			own->peer.run = mac;
		}
	}
	if (own->peer.run)
		return &own->peer;
	free(own);
	return NULL;
}
