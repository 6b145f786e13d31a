/* What a stand-in for DOCA's libraries exports, written from names, types and public documentation. FAMILY says which release
 * it stands for: 22 (jobs), 25 and 210 (tasks). */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DOCA_SUCCESS = 0,
    DOCA_ERROR_UNKNOWN = 1,
    DOCA_ERROR_NOT_PERMITTED = 2,
    DOCA_ERROR_IN_USE = 3,
    DOCA_ERROR_NOT_SUPPORTED = 4,
    DOCA_ERROR_AGAIN = 5,
    DOCA_ERROR_INVALID_VALUE = 6,
    DOCA_ERROR_NO_MEMORY = 7,
    DOCA_ERROR_SHUTDOWN = 10,
    DOCA_ERROR_IO_FAILED = 17,
    DOCA_ERROR_BAD_STATE = 18,
    DOCA_ERROR_OPERATING_SYSTEM = 20,
    DOCA_ERROR_DRIVER = 21,
    DOCA_ERROR_UNEXPECTED = 22,
    DOCA_ERROR_FULL = 24,
    DOCA_ERROR_IN_PROGRESS = 26,
#if FAMILY >= 25
    DOCA_ERROR_TOO_BIG = 27,
#endif
} doca_error_t;

union doca_data {
    void *ptr;
    uint64_t u64;
};

#define DOCA_DEVINFO_IBDEV_NAME_SIZE 64
#define DOCA_DEVINFO_PCI_ADDR_SIZE 13

#if FAMILY >= 25
enum doca_access_flag { DOCA_ACCESS_FLAG_LOCAL_READ_WRITE = 1 };
#else
enum doca_access_flags { DOCA_ACCESS_LOCAL_READ_WRITE = 1 };
#endif
enum doca_sha_algorithm { DOCA_SHA_ALGORITHM_SHA1, DOCA_SHA_ALGORITHM_SHA256, DOCA_SHA_ALGORITHM_SHA512 };
enum doca_aes_gcm_key_type { DOCA_AES_GCM_KEY_128 = 1, DOCA_AES_GCM_KEY_256 = 2 };
enum doca_ec_matrix_type { DOCA_EC_MATRIX_TYPE_CAUCHY = 1, DOCA_EC_MATRIX_TYPE_VANDERMONDE = 2 };
enum doca_ctx_states { DOCA_CTX_STATE_IDLE, DOCA_CTX_STATE_STARTING, DOCA_CTX_STATE_RUNNING, DOCA_CTX_STATE_STOPPING };

struct doca_devinfo;
struct doca_dev;
struct doca_mmap;
struct doca_buf_inventory;
struct doca_buf;
struct doca_ctx;

/* Tells that this is no DOCA. */
const char *dpb_stand_in(void);

/* Both families. */
const char *doca_version_runtime(void);
doca_error_t doca_dev_open(struct doca_devinfo *, struct doca_dev **);
doca_error_t doca_dev_close(struct doca_dev *);
struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *);
doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *, char *, uint32_t);
doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *, char *);
doca_error_t doca_mmap_destroy(struct doca_mmap *);
doca_error_t doca_mmap_start(struct doca_mmap *);
doca_error_t doca_mmap_stop(struct doca_mmap *);
doca_error_t doca_mmap_set_permissions(struct doca_mmap *, uint32_t);
doca_error_t doca_mmap_set_memrange(struct doca_mmap *, void *, size_t);
doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *);
doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *);
doca_error_t doca_buf_inventory_stop(struct doca_buf_inventory *);
doca_error_t doca_buf_get_data_len(const struct doca_buf *, size_t *);
doca_error_t doca_ctx_start(struct doca_ctx *);
doca_error_t doca_ctx_stop(struct doca_ctx *);

#define ENGINE(X)                                 \
    struct doca_##X;                              \
    doca_error_t doca_##X##_destroy(struct doca_##X *); \
    struct doca_ctx *doca_##X##_as_ctx(struct doca_##X *);
ENGINE(dma)
ENGINE(compress)
ENGINE(sha)

/* Which release's name a function has. */
#if FAMILY >= 210
#define SINCE_210(now, before) now
#else
#define SINCE_210(now, before) before
#endif

#if FAMILY >= 25
struct doca_pe;
struct doca_task;

const char *doca_error_get_name(doca_error_t);
const char *doca_error_get_descr(doca_error_t);
doca_error_t doca_devinfo_create_list(struct doca_devinfo ***, uint32_t *);
doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **);
doca_error_t doca_mmap_create(struct doca_mmap **);
doca_error_t doca_mmap_add_dev(struct doca_mmap *, struct doca_dev *);
doca_error_t doca_buf_inventory_create(size_t, struct doca_buf_inventory **);
doca_error_t doca_buf_inventory_buf_get_by_args(struct doca_buf_inventory *, struct doca_mmap *, void *, size_t, void *, size_t,
                                                struct doca_buf **);
doca_error_t doca_buf_dec_refcount(struct doca_buf *, uint16_t *);
doca_error_t doca_pe_create(struct doca_pe **);
doca_error_t doca_pe_destroy(struct doca_pe *);
doca_error_t doca_pe_connect_ctx(struct doca_pe *, struct doca_ctx *);
uint8_t doca_pe_progress(struct doca_pe *);
typedef int doca_notification_handle_t;
doca_error_t doca_pe_get_notification_handle(const struct doca_pe *, doca_notification_handle_t *);
doca_error_t doca_pe_request_notification(struct doca_pe *);
doca_error_t doca_pe_clear_notification(struct doca_pe *, doca_notification_handle_t);
doca_error_t doca_ctx_get_state(const struct doca_ctx *, enum doca_ctx_states *);
doca_error_t doca_ctx_set_user_data(struct doca_ctx *, union doca_data);
doca_error_t doca_task_submit(struct doca_task *);
doca_error_t doca_task_get_status(const struct doca_task *);
void doca_task_free(struct doca_task *);
#if FAMILY >= 210
enum doca_task_submit_flag { DOCA_TASK_SUBMIT_FLAG_NONE = 0, DOCA_TASK_SUBMIT_FLAG_FLUSH = 1 };
doca_error_t doca_task_submit_ex(struct doca_task *, uint32_t);
void doca_ctx_flush_tasks(struct doca_ctx *);
doca_error_t doca_mmap_enable_thread_safety(struct doca_mmap *);
#endif

doca_error_t doca_dma_create(struct doca_dev *, struct doca_dma **);
doca_error_t doca_compress_create(struct doca_dev *, struct doca_compress **);
doca_error_t doca_sha_create(struct doca_dev *, struct doca_sha **);
ENGINE(aes_gcm)
doca_error_t doca_aes_gcm_create(struct doca_dev *, struct doca_aes_gcm **);

#define TASK(X, Y)                                                                                                       \
    struct doca_##X##_task_##Y;                                                                                          \
    typedef void (*doca_##X##_task_##Y##_completion_cb_t)(struct doca_##X##_task_##Y *, union doca_data, union doca_data); \
    struct doca_task *doca_##X##_task_##Y##_as_task(struct doca_##X##_task_##Y *);
#define CONFIGURED(X, Y)                                                                                        \
    doca_error_t doca_##X##_cap_task_##Y##_is_supported(const struct doca_devinfo *);                           \
    doca_error_t doca_##X##_cap_task_##Y##_get_max_buf_size(const struct doca_devinfo *, uint64_t *);           \
    doca_error_t doca_##X##_task_##Y##_set_conf(struct doca_##X *, doca_##X##_task_##Y##_completion_cb_t,       \
                                                doca_##X##_task_##Y##_completion_cb_t, uint32_t);               \
    void doca_##X##_task_##Y##_set_src(struct doca_##X##_task_##Y *, const struct doca_buf *);                  \
    void doca_##X##_task_##Y##_set_dst(struct doca_##X##_task_##Y *, struct doca_buf *);
#define PLAIN(X, Y)                                                                                                      \
    TASK(X, Y)                                                                                                           \
    CONFIGURED(X, Y)                                                                                                     \
    doca_error_t doca_##X##_task_##Y##_alloc_init(struct doca_##X *, const struct doca_buf *, struct doca_buf *,         \
                                                  union doca_data, struct doca_##X##_task_##Y **);
#define AUTHENTICATED(X, Y)                                                                                              \
    TASK(X, Y)                                                                                                           \
    CONFIGURED(X, Y)                                                                                                     \
    doca_error_t doca_##X##_task_##Y##_alloc_init(struct doca_##X *, const struct doca_buf *, struct doca_buf *,         \
                                                  struct doca_aes_gcm_key *, const uint8_t *, uint32_t, uint32_t, uint32_t, \
                                                  union doca_data, struct doca_##X##_task_##Y **);                       \
    void doca_##X##_task_##Y##_set_iv(struct doca_##X##_task_##Y *, const uint8_t *, uint32_t);                          \
    doca_error_t SINCE_210(doca_##X##_cap_task_##Y##_get_max_iv_len, doca_##X##_cap_task_##Y##_get_max_iv_length)(       \
        const struct doca_devinfo *, uint32_t *);                                                                        \
    doca_error_t doca_##X##_cap_task_##Y##_is_tag_128_supported(const struct doca_devinfo *);                            \
    doca_error_t doca_##X##_cap_task_##Y##_is_key_type_supported(const struct doca_devinfo *, enum doca_aes_gcm_key_type);

doca_error_t doca_dma_cap_get_max_num_tasks(struct doca_dma *, uint32_t *);
PLAIN(dma, memcpy)

doca_error_t SINCE_210(doca_compress_cap_get_max_num_tasks, doca_compress_get_max_num_tasks)(struct doca_compress *, uint32_t *);
#define CHECKED(Y)                                                                                  \
    PLAIN(compress, Y)                                                                              \
    uint32_t doca_compress_task_##Y##_get_crc_cs(const struct doca_compress_task_##Y *);            \
    uint32_t doca_compress_task_##Y##_get_adler_cs(const struct doca_compress_task_##Y *);
CHECKED(compress_deflate)
CHECKED(decompress_deflate)
#if FAMILY >= 210
PLAIN(compress, decompress_lz4_block)
#endif

TASK(sha, hash)
doca_error_t doca_sha_cap_task_hash_get_supported(const struct doca_devinfo *, enum doca_sha_algorithm);
doca_error_t SINCE_210(doca_sha_cap_get_max_src_buf_size, doca_sha_cap_get_max_src_buffer_size)(const struct doca_devinfo *,
                                                                                               uint64_t *);
doca_error_t SINCE_210(doca_sha_cap_get_min_dst_buf_size, doca_sha_cap_get_min_dst_buffer_size)(const struct doca_devinfo *,
                                                                                               enum doca_sha_algorithm, uint32_t *);
#if FAMILY >= 210
doca_error_t doca_sha_cap_get_max_num_tasks(struct doca_sha *, uint32_t *);
#endif
doca_error_t doca_sha_task_hash_set_conf(struct doca_sha *, doca_sha_task_hash_completion_cb_t, doca_sha_task_hash_completion_cb_t,
                                         uint8_t);
doca_error_t doca_sha_task_hash_alloc_init(struct doca_sha *, enum doca_sha_algorithm, const struct doca_buf *, struct doca_buf *,
                                           union doca_data, struct doca_sha_task_hash **);
doca_error_t doca_sha_task_hash_set_src(struct doca_sha_task_hash *, const struct doca_buf *);
doca_error_t doca_sha_task_hash_set_dst(struct doca_sha_task_hash *, struct doca_buf *);

struct doca_aes_gcm_key;
doca_error_t doca_aes_gcm_cap_get_max_num_tasks(struct doca_aes_gcm *, uint32_t *);
doca_error_t doca_aes_gcm_key_create(struct doca_aes_gcm *, const void *, enum doca_aes_gcm_key_type, struct doca_aes_gcm_key **);
doca_error_t doca_aes_gcm_key_destroy(struct doca_aes_gcm_key *);
AUTHENTICATED(aes_gcm, encrypt)
AUTHENTICATED(aes_gcm, decrypt)

struct doca_ec_matrix;
ENGINE(ec)
doca_error_t doca_ec_create(struct doca_dev *, struct doca_ec **);
doca_error_t doca_ec_cap_get_max_block_size(const struct doca_devinfo *, uint64_t *);
doca_error_t doca_ec_matrix_create(struct doca_ec *, enum doca_ec_matrix_type, size_t, size_t, struct doca_ec_matrix **);
doca_error_t doca_ec_matrix_create_recover(struct doca_ec *, const struct doca_ec_matrix *, uint32_t *, size_t,
                                           struct doca_ec_matrix **);
doca_error_t doca_ec_matrix_destroy(struct doca_ec_matrix *);
#define CODING(Y, SRC, DST)                                                                                          \
    TASK(ec, Y)                                                                                                      \
    doca_error_t doca_ec_cap_task_##Y##_is_supported(const struct doca_devinfo *);                                   \
    doca_error_t doca_ec_task_##Y##_set_conf(struct doca_ec *, doca_ec_task_##Y##_completion_cb_t,                   \
                                             doca_ec_task_##Y##_completion_cb_t, uint32_t);                          \
    doca_error_t doca_ec_task_##Y##_allocate_init(struct doca_ec *, const struct doca_ec_matrix *,                   \
                                                  const struct doca_buf *, struct doca_buf *, union doca_data,       \
                                                  struct doca_ec_task_##Y **);                                       \
    void doca_ec_task_##Y##_set_##SRC(struct doca_ec_task_##Y *, const struct doca_buf *);                           \
    void doca_ec_task_##Y##_set_##DST(struct doca_ec_task_##Y *, struct doca_buf *);
CODING(create, original_data_blocks, rdnc_blocks)
CODING(recover, available_blocks, recovered_data_blocks)

#else
struct doca_workq;
struct doca_regex_mempool;

#define DOCA_ACTION_DMA_FIRST (1 << 16)
#define DOCA_ACTION_REGEX_FIRST (6 << 16)
#define DOCA_ACTION_SHA_FIRST (9 << 16)
#define DOCA_ACTION_COMPRESS_FIRST (10 << 16)
enum doca_dma_job_types { DOCA_DMA_JOB_MEMCPY = DOCA_ACTION_DMA_FIRST + 1 };
enum doca_sha_job_type {
    DOCA_SHA_JOB_SHA1 = DOCA_ACTION_SHA_FIRST + 1,
    DOCA_SHA_JOB_SHA256,
    DOCA_SHA_JOB_SHA512,
};
enum doca_regex_job_types { DOCA_REGEX_JOB_SEARCH = DOCA_ACTION_REGEX_FIRST + 1 };
enum doca_regex_status_flag {
    DOCA_REGEX_STATUS_MAX_LATENCY = 1 << 2,
    DOCA_REGEX_STATUS_MAX_MATCH = 1 << 3,
    DOCA_REGEX_STATUS_CQE_FAILURE_INVALID_JOB = 1 << 5,
};
enum doca_compress_job_types {
    DOCA_COMPRESS_DEFLATE_JOB = DOCA_ACTION_COMPRESS_FIRST + 1,
    DOCA_DECOMPRESS_DEFLATE_JOB,
    DOCA_DECOMPRESS_LZ4_JOB,
};

struct doca_job {
    int type;
    int flags;
    struct doca_ctx *ctx;
    union doca_data user_data;
};
struct doca_event {
    int type;
    union doca_data user_data;
    union doca_data result;
};
struct doca_dma_job_memcpy {
    struct doca_job base;
    struct doca_buf *dst_buff;
    const struct doca_buf *src_buff;
};
struct doca_compress_deflate_job {
    struct doca_job base;
    struct doca_buf *dst_buff;
    const struct doca_buf *src_buff;
    uint64_t *output_chksum;
};
struct doca_sha_job {
    struct doca_job base;
    struct doca_buf *req_buf;
    struct doca_buf *resp_buf;
    uint64_t flags;
};
struct doca_regex_match {
    struct doca_regex_match *next;
    uint32_t match_start, rule_id, length;
};
struct doca_regex_search_result {
    uint64_t status_flags;
    uint32_t detected_matches, num_matches;
    struct doca_regex_match *matches;
    struct doca_regex_mempool *matches_mempool;
};
struct doca_regex_job_search {
    struct doca_job base;
    uint16_t rule_group_ids[4];
    const struct doca_buf *buffer;
    struct doca_regex_search_result *result;
    uint8_t allow_batching;
};

const char *doca_get_error_name(doca_error_t);
const char *doca_get_error_string(doca_error_t);
doca_error_t doca_devinfo_list_create(struct doca_devinfo ***, uint32_t *);
doca_error_t doca_devinfo_list_destroy(struct doca_devinfo **);
doca_error_t doca_mmap_create(const union doca_data *, struct doca_mmap **);
doca_error_t doca_mmap_dev_add(struct doca_mmap *, struct doca_dev *);
doca_error_t doca_buf_inventory_create(const union doca_data *, size_t, uint32_t, struct doca_buf_inventory **);
doca_error_t doca_buf_inventory_buf_by_args(struct doca_buf_inventory *, struct doca_mmap *, void *, size_t, void *, size_t,
                                            struct doca_buf **);
doca_error_t doca_buf_refcount_rm(struct doca_buf *, uint16_t *);
doca_error_t doca_ctx_dev_add(struct doca_ctx *, struct doca_dev *);
doca_error_t doca_ctx_dev_rm(struct doca_ctx *, struct doca_dev *);
doca_error_t doca_ctx_workq_add(struct doca_ctx *, struct doca_workq *);
doca_error_t doca_ctx_workq_rm(struct doca_ctx *, struct doca_workq *);
doca_error_t doca_workq_create(uint32_t, struct doca_workq **);
doca_error_t doca_workq_destroy(struct doca_workq *);
doca_error_t doca_workq_submit(struct doca_workq *, const struct doca_job *);
doca_error_t doca_workq_progress_retrieve(struct doca_workq *, struct doca_event *, int);

doca_error_t doca_dma_create(struct doca_dma **);
doca_error_t doca_dma_job_get_supported(struct doca_devinfo *, enum doca_dma_job_types);
doca_error_t doca_dma_get_max_buf_size(const struct doca_devinfo *, uint64_t *);
doca_error_t doca_compress_create(struct doca_compress **);
doca_error_t doca_compress_job_get_supported(struct doca_devinfo *, enum doca_compress_job_types);
doca_error_t doca_compress_get_max_buf_size(const struct doca_devinfo *, enum doca_compress_job_types, uint64_t *);
doca_error_t doca_sha_create(struct doca_sha **);
doca_error_t doca_sha_job_get_supported(const struct doca_devinfo *, enum doca_sha_job_type);
doca_error_t doca_sha_get_max_src_buffer_size(const struct doca_devinfo *, uint64_t *);
doca_error_t doca_sha_get_hardware_supported(const struct doca_devinfo *);
ENGINE(regex)
doca_error_t doca_regex_create(struct doca_regex **);
doca_error_t doca_regex_job_get_supported(const struct doca_devinfo *, enum doca_regex_job_types);
doca_error_t doca_regex_get_hardware_supported(const struct doca_devinfo *);
doca_error_t doca_regex_get_maximum_non_huge_job_size(const struct doca_devinfo *, uint64_t *);
doca_error_t doca_regex_set_hardware_uncompiled_rules(struct doca_regex *, const void *, size_t);
doca_error_t doca_regex_set_workq_matches_memory_pool_size(struct doca_regex *, uint32_t);
void doca_regex_mempool_put_obj(struct doca_regex_mempool *, void *);
#endif
