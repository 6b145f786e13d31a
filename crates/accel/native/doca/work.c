/* The engines of the stand-in, in software: zlib, libcrypto, and a decoder of LZ4 blocks. */
#include "work.h"

#include <limits.h>
#include <string.h>

#ifdef WITH_CRYPTO
#include <openssl/evp.h>
#endif
#ifdef WITH_ZLIB
#include <zlib.h>
#endif

/* What a task that runs out of room ends in. */
#if FAMILY >= 25
#define NO_ROOM DOCA_ERROR_TOO_BIG
#else
#define NO_ROOM DOCA_ERROR_NO_MEMORY
#endif

int work_is_there(enum work work)
{
    switch (work) {
    case WORK_DEFLATE:
    case WORK_INFLATE:
#ifdef WITH_ZLIB
        return 1;
#else
        return 0;
#endif
    case WORK_COPY:
    case WORK_UNLZ4:
    case WORK_ENCODE:
    case WORK_RECOVER:
        return 1;
    case WORK_MATCH:
#ifdef WITH_PCRE2
        return 1;
#else
        return 0;
#endif
    default:
#ifdef WITH_CRYPTO
        return 1;
#else
        return 0;
#endif
    }
}

static doca_error_t copy(struct piece *piece)
{
    if (piece->src_len > piece->dst_len)
        return NO_ROOM;
    memcpy(piece->dst, piece->src, piece->src_len);
    piece->dst_len = piece->src_len;
    return DOCA_SUCCESS;
}

/* A length of LZ4: four bits, and bytes of 255 more if they are all set. */
static int lz4_length(const uint8_t **at, const uint8_t *end, size_t *len)
{
    uint8_t more = 255;
    if (*len != 15)
        return 1;
    while (more == 255) {
        if (*at == end)
            return 0;
        more = *(*at)++;
        *len += more;
    }
    return 1;
}

static doca_error_t unlz4(struct piece *piece)
{
    const uint8_t *at = piece->src, *end = at + piece->src_len;
    size_t len = 0;
    while (at < end) {
        uint8_t token = *at++;
        size_t literals = token >> 4, match = token & 15, distance;
        if (!lz4_length(&at, end, &literals) || literals > (size_t)(end - at))
            return DOCA_ERROR_IO_FAILED;
        if (literals > piece->dst_len - len)
            return NO_ROOM;
        memcpy(piece->dst + len, at, literals);
        at += literals;
        len += literals;
        if (at == end) {
            piece->dst_len = len;
            /* The last sequence has literals alone, whatever its token says of a repeat. */
            return DOCA_SUCCESS;
        }
        if (end - at < 2)
            return DOCA_ERROR_IO_FAILED;
        distance = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (!lz4_length(&at, end, &match) || distance == 0 || distance > len)
            return DOCA_ERROR_IO_FAILED;
        match += 4;
        if (match > piece->dst_len - len)
            return NO_ROOM;
        for (; match > 0; match--, len++)
            piece->dst[len] = piece->dst[len - distance];
    }
    return DOCA_ERROR_IO_FAILED;
}

#ifdef WITH_ZLIB
static doca_error_t deflate_or_inflate(struct piece *piece, int deflates)
{
    uint8_t none = 0;
    z_stream stream = {0};
    int result;
    if (piece->src_len > UINT_MAX || piece->dst_len > UINT_MAX)
        return DOCA_ERROR_INVALID_VALUE;
    /* Little memory, which is quickly set up. */
    result = deflates ? deflateInit2(&stream, 1, Z_DEFLATED, -12, 1, Z_DEFAULT_STRATEGY) : inflateInit2(&stream, -15);
    if (result != Z_OK)
        return DOCA_ERROR_NO_MEMORY;
    stream.next_in = (Bytef *)piece->src;
    stream.avail_in = (uInt)piece->src_len;
    /* zlib takes no room of nothing, though a stream may decode to it. */
    stream.next_out = piece->dst_len ? piece->dst : &none;
    stream.avail_out = piece->dst_len ? (uInt)piece->dst_len : 1;
    result = deflates ? deflate(&stream, Z_FINISH) : inflate(&stream, Z_FINISH);
    if (deflates)
        deflateEnd(&stream);
    else
        inflateEnd(&stream);
    if (result == Z_STREAM_END && stream.total_out <= piece->dst_len) {
        const Bytef *plain = deflates ? piece->src : piece->dst;
        uInt plain_len = (uInt)(deflates ? piece->src_len : stream.total_out);
        piece->dst_len = stream.total_out;
        piece->crc = (uint32_t)crc32(crc32(0, NULL, 0), plain, plain_len);
        piece->adler = (uint32_t)adler32(adler32(0, NULL, 0), plain, plain_len);
        return DOCA_SUCCESS;
    }
    return result == Z_STREAM_END || stream.avail_out == 0 ? NO_ROOM : DOCA_ERROR_IO_FAILED;
}
#endif

#ifdef WITH_CRYPTO
static doca_error_t hash(struct piece *piece, const EVP_MD *md)
{
    unsigned len = 0;
    if (piece->dst_len < (size_t)EVP_MD_size(md))
        return NO_ROOM;
    if (!EVP_Digest(piece->src, piece->src_len, piece->dst, &len, md, NULL))
        return DOCA_ERROR_OPERATING_SYSTEM;
    piece->dst_len = len;
    return DOCA_SUCCESS;
}

/* Whether this stand-in writes additional data in front of its output is not asked for: it takes none. */
static doca_error_t gcm(struct piece *piece, int encrypts)
{
    EVP_CIPHER_CTX *ctx;
    uint8_t *tag = NULL;
    size_t text = piece->src_len;
    int len = 0, tail = 0, is_right;
    if (piece->aad_len != 0 || piece->iv_len != 12 || piece->tag_len != 16 || text > INT_MAX)
        return DOCA_ERROR_INVALID_VALUE;
    if (!encrypts && text < 16)
        return DOCA_ERROR_INVALID_VALUE;
    text -= encrypts ? 0 : 16;
    if (piece->dst_len < text + (encrypts ? 16 : 0))
        return NO_ROOM;
    tag = encrypts ? piece->dst + text : (uint8_t *)piece->src + text;
    ctx = EVP_CIPHER_CTX_new();
    is_right = ctx
        && EVP_CipherInit_ex(ctx, piece->key_len == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm(), NULL, piece->key, piece->iv, encrypts)
        && EVP_CipherUpdate(ctx, piece->dst, &len, piece->src, (int)text)
        && (encrypts || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, 16, tag))
        && EVP_CipherFinal_ex(ctx, piece->dst + len, &tail)
        && (!encrypts || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, 16, tag));
    EVP_CIPHER_CTX_free(ctx);
    piece->dst_len = text + (encrypts ? 16 : 0);
    return is_right ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED;
}
#endif

doca_error_t work_run(enum work work, struct piece *piece)
{
    switch (work) {
    case WORK_COPY:
        return copy(piece);
    case WORK_UNLZ4:
        return unlz4(piece);
    case WORK_ENCODE:
    case WORK_RECOVER:
        return matrix_apply(piece->matrix, piece);
#ifdef WITH_ZLIB
    case WORK_DEFLATE:
    case WORK_INFLATE:
        return deflate_or_inflate(piece, work == WORK_DEFLATE);
#endif
#ifdef WITH_CRYPTO
    case WORK_SHA1:
        return hash(piece, EVP_sha1());
    case WORK_SHA256:
        return hash(piece, EVP_sha256());
    case WORK_SHA512:
        return hash(piece, EVP_sha512());
    case WORK_ENCRYPT:
    case WORK_DECRYPT:
        return gcm(piece, work == WORK_ENCRYPT);
#endif
    default:
        return DOCA_ERROR_NOT_SUPPORTED;
    }
}
