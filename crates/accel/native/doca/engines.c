/* The libraries of the stand-in's engines; LIB_* says which one this is. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define CTX(object) ((struct doca_ctx *)(object))
#define OUT(task) ((struct doca_task **)(task))

#define COMMON(X)                                                                                        \
    doca_error_t doca_##X##_destroy(struct doca_##X *engine) { return dpb_internal_destroy(CTX(engine)); } \
    struct doca_ctx *doca_##X##_as_ctx(struct doca_##X *engine) { return CTX(engine); }

#if FAMILY >= 25
#define CREATED(X)                                                            \
    COMMON(X)                                                                 \
    doca_error_t doca_##X##_create(struct doca_dev *dev, struct doca_##X **engine) \
    {                                                                         \
        return dpb_internal_create(dev, (struct doca_ctx **)engine);          \
    }
#define TASKS_MAX_OF(X, query)                               \
    doca_error_t query(struct doca_##X *engine, uint32_t *max) \
    {                                                        \
        (void)engine;                                        \
        *max = TASKS_MAX;                                    \
        return DOCA_SUCCESS;                                 \
    }
#define CONFIGURED_AS(X, Y, work)                                                                                         \
    doca_error_t doca_##X##_cap_task_##Y##_is_supported(const struct doca_devinfo *info)                                  \
    {                                                                                                                     \
        return dpb_internal_supports(info, work);                                                                         \
    }                                                                                                                     \
    doca_error_t doca_##X##_cap_task_##Y##_get_max_buf_size(const struct doca_devinfo *info, uint64_t *max)               \
    {                                                                                                                     \
        *max = BYTES_MAX;                                                                                                 \
        return dpb_internal_supports(info, work);                                                                         \
    }                                                                                                                     \
    doca_error_t doca_##X##_task_##Y##_set_conf(struct doca_##X *engine, doca_##X##_task_##Y##_completion_cb_t landed,     \
                                                doca_##X##_task_##Y##_completion_cb_t failed, uint32_t tasks)             \
    {                                                                                                                     \
        return dpb_internal_configure(CTX(engine), (landed_cb)landed, (landed_cb)failed, tasks);                          \
    }                                                                                                                     \
    struct doca_task *doca_##X##_task_##Y##_as_task(struct doca_##X##_task_##Y *task) { return (struct doca_task *)task; } \
    void doca_##X##_task_##Y##_set_src(struct doca_##X##_task_##Y *task, const struct doca_buf *src)                      \
    {                                                                                                                     \
        ((struct doca_task *)task)->src = src;                                                                            \
    }                                                                                                                     \
    void doca_##X##_task_##Y##_set_dst(struct doca_##X##_task_##Y *task, struct doca_buf *dst)                            \
    {                                                                                                                     \
        ((struct doca_task *)task)->dst = dst;                                                                            \
    }
#define PLAIN_AS(X, Y, work)                                                                                              \
    CONFIGURED_AS(X, Y, work)                                                                                             \
    doca_error_t doca_##X##_task_##Y##_alloc_init(struct doca_##X *engine, const struct doca_buf *src, struct doca_buf *dst, \
                                                  union doca_data data, struct doca_##X##_task_##Y **task)                \
    {                                                                                                                     \
        return dpb_internal_task(CTX(engine), work, src, dst, data, OUT(task));                                           \
    }
#endif

#if defined LIB_DMA && FAMILY >= 25
CREATED(dma)
TASKS_MAX_OF(dma, doca_dma_cap_get_max_num_tasks)
PLAIN_AS(dma, memcpy, WORK_COPY)
#endif

#if defined LIB_COMPRESS && FAMILY >= 25
CREATED(compress)
TASKS_MAX_OF(compress, SINCE_210(doca_compress_cap_get_max_num_tasks, doca_compress_get_max_num_tasks))
#define CHECKED_AS(Y)                                                                                            \
    uint32_t doca_compress_task_##Y##_get_crc_cs(const struct doca_compress_task_##Y *task)                      \
    {                                                                                                            \
        return ((const struct doca_task *)task)->crc;                                                            \
    }                                                                                                            \
    uint32_t doca_compress_task_##Y##_get_adler_cs(const struct doca_compress_task_##Y *task)                    \
    {                                                                                                            \
        return ((const struct doca_task *)task)->adler;                                                          \
    }
PLAIN_AS(compress, compress_deflate, WORK_DEFLATE)
CHECKED_AS(compress_deflate)
PLAIN_AS(compress, decompress_deflate, WORK_INFLATE)
CHECKED_AS(decompress_deflate)
#if FAMILY >= 210
PLAIN_AS(compress, decompress_lz4_block, WORK_UNLZ4)
#endif
#endif

#if defined LIB_SHA && FAMILY >= 25
CREATED(sha)
doca_error_t doca_sha_cap_task_hash_get_supported(const struct doca_devinfo *info, enum doca_sha_algorithm algorithm)
{
    return dpb_internal_supports(info, WORK_SHA1 + algorithm);
}
doca_error_t SINCE_210(doca_sha_cap_get_max_src_buf_size, doca_sha_cap_get_max_src_buffer_size)(const struct doca_devinfo *info,
                                                                                               uint64_t *max)
{
    *max = BYTES_MAX;
    return dpb_internal_supports(info, WORK_SHA1);
}
doca_error_t SINCE_210(doca_sha_cap_get_min_dst_buf_size, doca_sha_cap_get_min_dst_buffer_size)(const struct doca_devinfo *info,
                                                                                               enum doca_sha_algorithm algorithm,
                                                                                               uint32_t *min)
{
    static const uint32_t digests[] = {20, 32, 64};
    *min = digests[algorithm];
    return dpb_internal_supports(info, WORK_SHA1 + algorithm);
}
#if FAMILY >= 210
TASKS_MAX_OF(sha, doca_sha_cap_get_max_num_tasks)
#endif
doca_error_t doca_sha_task_hash_set_conf(struct doca_sha *engine, doca_sha_task_hash_completion_cb_t landed,
                                         doca_sha_task_hash_completion_cb_t failed, uint8_t log_tasks)
{
    uint32_t tasks = log_tasks < 32 ? 1u << log_tasks : 0;
    return dpb_internal_configure(CTX(engine), (landed_cb)landed, (landed_cb)failed, tasks);
}
doca_error_t doca_sha_task_hash_alloc_init(struct doca_sha *engine, enum doca_sha_algorithm algorithm, const struct doca_buf *src,
                                           struct doca_buf *dst, union doca_data data, struct doca_sha_task_hash **task)
{
    return dpb_internal_task(CTX(engine), WORK_SHA1 + algorithm, src, dst, data, OUT(task));
}
struct doca_task *doca_sha_task_hash_as_task(struct doca_sha_task_hash *task) { return (struct doca_task *)task; }
doca_error_t doca_sha_task_hash_set_src(struct doca_sha_task_hash *task, const struct doca_buf *src)
{
    ((struct doca_task *)task)->src = src;
    return DOCA_SUCCESS;
}
doca_error_t doca_sha_task_hash_set_dst(struct doca_sha_task_hash *task, struct doca_buf *dst)
{
    ((struct doca_task *)task)->dst = dst;
    return DOCA_SUCCESS;
}
#endif

#if defined LIB_AES_GCM && FAMILY >= 25
CREATED(aes_gcm)
TASKS_MAX_OF(aes_gcm, doca_aes_gcm_cap_get_max_num_tasks)
doca_error_t doca_aes_gcm_key_create(struct doca_aes_gcm *engine, const void *bytes, enum doca_aes_gcm_key_type type,
                                     struct doca_aes_gcm_key **key)
{
    (void)engine;
    *key = calloc(1, sizeof **key);
    (*key)->len = type == DOCA_AES_GCM_KEY_128 ? 16 : 32;
    memcpy((*key)->bytes, bytes, (*key)->len);
    return DOCA_SUCCESS;
}
doca_error_t doca_aes_gcm_key_destroy(struct doca_aes_gcm_key *key)
{
    free(key);
    return DOCA_SUCCESS;
}
#define AUTHENTICATED_AS(Y, work)                                                                                        \
    CONFIGURED_AS(aes_gcm, Y, work)                                                                                      \
    doca_error_t doca_aes_gcm_task_##Y##_alloc_init(struct doca_aes_gcm *engine, const struct doca_buf *src,             \
                                                    struct doca_buf *dst, struct doca_aes_gcm_key *key, const uint8_t *iv, \
                                                    uint32_t iv_len, uint32_t tag_len, uint32_t aad_len,                 \
                                                    union doca_data data, struct doca_aes_gcm_task_##Y **task)           \
    {                                                                                                                    \
        doca_error_t made = dpb_internal_task(CTX(engine), work, src, dst, data, OUT(task));                             \
        if (made != DOCA_SUCCESS)                                                                                        \
            return made;                                                                                                 \
        (*OUT(task))->key = key;                                                                                         \
        (*OUT(task))->iv = iv;                                                                                           \
        (*OUT(task))->iv_len = iv_len;                                                                                   \
        (*OUT(task))->tag_len = tag_len;                                                                                 \
        (*OUT(task))->aad_len = aad_len;                                                                                 \
        return DOCA_SUCCESS;                                                                                             \
    }                                                                                                                    \
    void doca_aes_gcm_task_##Y##_set_iv(struct doca_aes_gcm_task_##Y *task, const uint8_t *iv, uint32_t iv_len)          \
    {                                                                                                                    \
        ((struct doca_task *)task)->iv = iv;                                                                             \
        ((struct doca_task *)task)->iv_len = iv_len;                                                                     \
    }                                                                                                                    \
    doca_error_t SINCE_210(doca_aes_gcm_cap_task_##Y##_get_max_iv_len, doca_aes_gcm_cap_task_##Y##_get_max_iv_length)(   \
        const struct doca_devinfo *info, uint32_t *max)                                                                  \
    {                                                                                                                    \
        *max = 12;                                                                                                       \
        return dpb_internal_supports(info, work);                                                                        \
    }                                                                                                                    \
    doca_error_t doca_aes_gcm_cap_task_##Y##_is_tag_128_supported(const struct doca_devinfo *info)                       \
    {                                                                                                                    \
        return dpb_internal_supports(info, work);                                                                        \
    }                                                                                                                    \
    doca_error_t doca_aes_gcm_cap_task_##Y##_is_key_type_supported(const struct doca_devinfo *info,                      \
                                                                   enum doca_aes_gcm_key_type type)                      \
    {                                                                                                                    \
        (void)type;                                                                                                      \
        return dpb_internal_supports(info, work);                                                                        \
    }
AUTHENTICATED_AS(encrypt, WORK_ENCRYPT)
AUTHENTICATED_AS(decrypt, WORK_DECRYPT)
#endif

#if defined LIB_ERASURE_CODING && FAMILY >= 25
CREATED(ec)
doca_error_t doca_ec_cap_get_max_block_size(const struct doca_devinfo *info, uint64_t *max)
{
    *max = BLOCK_MAX;
    return dpb_internal_supports(info, WORK_ENCODE);
}
doca_error_t doca_ec_matrix_create(struct doca_ec *engine, enum doca_ec_matrix_type type, size_t data_blocks, size_t parity_blocks,
                                   struct doca_ec_matrix **matrix)
{
    if (type != DOCA_EC_MATRIX_TYPE_CAUCHY)
        return DOCA_ERROR_NOT_SUPPORTED;
    return dpb_internal_matrix(CTX(engine), data_blocks, parity_blocks, matrix);
}
doca_error_t doca_ec_matrix_create_recover(struct doca_ec *engine, const struct doca_ec_matrix *code, uint32_t *missing, size_t count,
                                           struct doca_ec_matrix **matrix)
{
    return dpb_internal_recover(CTX(engine), code, missing, count, matrix);
}
doca_error_t doca_ec_matrix_destroy(struct doca_ec_matrix *matrix) { return dpb_internal_matrix_destroy(matrix); }
#define CODING_AS(Y, SRC, DST, work)                                                                                     \
    doca_error_t doca_ec_cap_task_##Y##_is_supported(const struct doca_devinfo *info)                                    \
    {                                                                                                                    \
        return dpb_internal_supports(info, work);                                                                        \
    }                                                                                                                    \
    doca_error_t doca_ec_task_##Y##_set_conf(struct doca_ec *engine, doca_ec_task_##Y##_completion_cb_t landed,          \
                                             doca_ec_task_##Y##_completion_cb_t failed, uint32_t tasks)                  \
    {                                                                                                                    \
        return dpb_internal_configure(CTX(engine), (landed_cb)landed, (landed_cb)failed, tasks);                         \
    }                                                                                                                    \
    struct doca_task *doca_ec_task_##Y##_as_task(struct doca_ec_task_##Y *task) { return (struct doca_task *)task; }     \
    void doca_ec_task_##Y##_set_##SRC(struct doca_ec_task_##Y *task, const struct doca_buf *src)                         \
    {                                                                                                                    \
        ((struct doca_task *)task)->src = src;                                                                           \
    }                                                                                                                    \
    void doca_ec_task_##Y##_set_##DST(struct doca_ec_task_##Y *task, struct doca_buf *dst)                               \
    {                                                                                                                    \
        ((struct doca_task *)task)->dst = dst;                                                                           \
    }                                                                                                                    \
    doca_error_t doca_ec_task_##Y##_allocate_init(struct doca_ec *engine, const struct doca_ec_matrix *matrix,           \
                                                  const struct doca_buf *src, struct doca_buf *dst, union doca_data data, \
                                                  struct doca_ec_task_##Y **task)                                        \
    {                                                                                                                    \
        return dpb_internal_code(CTX(engine), work, matrix, src, dst, data, OUT(task));                                  \
    }
CODING_AS(create, original_data_blocks, rdnc_blocks, WORK_ENCODE)
CODING_AS(recover, available_blocks, recovered_data_blocks, WORK_RECOVER)
#endif

#if FAMILY < 25
#define CREATED_ALONE(X) \
    COMMON(X)            \
    doca_error_t doca_##X##_create(struct doca_##X **engine) { return dpb_internal_create(NULL, (struct doca_ctx **)engine); }
#endif

#if defined LIB_DMA && FAMILY < 25
CREATED_ALONE(dma)
doca_error_t doca_dma_job_get_supported(struct doca_devinfo *info, enum doca_dma_job_types type)
{
    (void)type;
    return dpb_internal_supports(info, WORK_COPY);
}
doca_error_t doca_dma_get_max_buf_size(const struct doca_devinfo *info, uint64_t *max)
{
    *max = BYTES_MAX;
    return dpb_internal_supports(info, WORK_COPY);
}
#endif

#if defined LIB_COMPRESS && FAMILY < 25
CREATED_ALONE(compress)
doca_error_t doca_compress_job_get_supported(struct doca_devinfo *info, enum doca_compress_job_types type)
{
    return dpb_internal_supports(info, WORK_DEFLATE + (type - DOCA_COMPRESS_DEFLATE_JOB));
}
doca_error_t doca_compress_get_max_buf_size(const struct doca_devinfo *info, enum doca_compress_job_types type, uint64_t *max)
{
    *max = BYTES_MAX;
    return doca_compress_job_get_supported((struct doca_devinfo *)info, type);
}
#endif

#if defined LIB_SHA && FAMILY < 25
CREATED_ALONE(sha)
doca_error_t doca_sha_job_get_supported(const struct doca_devinfo *info, enum doca_sha_job_type type)
{
    return dpb_internal_supports(info, WORK_SHA1 + (type - DOCA_SHA_JOB_SHA1));
}
doca_error_t doca_sha_get_max_src_buffer_size(const struct doca_devinfo *info, uint64_t *max)
{
    *max = BYTES_MAX;
    return dpb_internal_supports(info, WORK_SHA1);
}
doca_error_t doca_sha_get_hardware_supported(const struct doca_devinfo *info)
{
    return dpb_internal_supports(info, WORK_SHA1);
}
#endif

#if defined LIB_REGEX && FAMILY < 25
CREATED_ALONE(regex)
doca_error_t doca_regex_job_get_supported(const struct doca_devinfo *info, enum doca_regex_job_types type)
{
    (void)type;
    return dpb_internal_supports(info, WORK_MATCH);
}
doca_error_t doca_regex_get_hardware_supported(const struct doca_devinfo *info)
{
    return dpb_internal_supports(info, WORK_MATCH);
}
doca_error_t doca_regex_get_maximum_non_huge_job_size(const struct doca_devinfo *info, uint64_t *max)
{
    *max = SEARCH_BYTES_MAX;
    return dpb_internal_supports(info, WORK_MATCH);
}
doca_error_t doca_regex_set_hardware_uncompiled_rules(struct doca_regex *engine, const void *rules, size_t len)
{
    return dpb_internal_set_rules(CTX(engine), rules, len);
}
doca_error_t doca_regex_set_workq_matches_memory_pool_size(struct doca_regex *engine, uint32_t matches)
{
    return dpb_internal_set_pool_size(CTX(engine), matches);
}
void doca_regex_mempool_put_obj(struct doca_regex_mempool *pool, void *match) { dpb_internal_put(pool, match); }
#endif
