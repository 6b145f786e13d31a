/* What libdoca_common of the stand-in keeps, and gives to the libraries of its engines. */
#pragma once
#include "regex.h"
#include "work.h"

#if FAMILY >= 25
typedef void (*landed_cb)(void *task, union doca_data task_user_data, union doca_data ctx_user_data);
#endif

struct doca_devinfo {
    char ibdev[DOCA_DEVINFO_IBDEV_NAME_SIZE];
    char pci[DOCA_DEVINFO_PCI_ADDR_SIZE];
    uint32_t works; /* one bit each */
};

struct doca_ctx {
    struct doca_dev *dev;
    int is_running;
    uint32_t in_flight;
#if FAMILY >= 25
    enum doca_ctx_states state;
    union doca_data user_data;
    struct doca_pe *pe;
    landed_cb landed, failed;
    uint32_t tasks_max, tasks, matrices;
    int starts_left, stops_left;
#else
    struct doca_workq *workq;
    /* Of searches: rules as text, and compiled as long as the context runs; matches for its work queue. */
    char *rules_text;
    size_t rules_len;
    struct rules *rules;
    uint32_t pool_size;
    struct doca_regex_mempool *pool;
#endif
};

/* Most tasks of a context, longest input. */
#define TASKS_MAX 512
#define BYTES_MAX (2u << 20)
/* Longest input of a search that is not cut into pieces, most matches that it reports. */
#define SEARCH_BYTES_MAX (1u << 14)
#define MATCHES_MAX 254

doca_error_t dpb_internal_supports(const struct doca_devinfo *, enum work);
doca_error_t dpb_internal_create(struct doca_dev *, struct doca_ctx **);
doca_error_t dpb_internal_destroy(struct doca_ctx *);
#if FAMILY < 25
doca_error_t dpb_internal_set_rules(struct doca_ctx *, const void *, size_t);
doca_error_t dpb_internal_set_pool_size(struct doca_ctx *, uint32_t);
void dpb_internal_put(struct doca_regex_mempool *, void *);
#endif
#if FAMILY >= 25
struct doca_task {
    struct doca_ctx *ctx;
    enum work work;
    const struct doca_buf *src;
    struct doca_buf *dst;
    union doca_data user_data;
    struct doca_aes_gcm_key *key;
    const uint8_t *iv;
    uint32_t iv_len, tag_len, aad_len;
    struct doca_ec_matrix *matrix;
    uint32_t crc, adler;
    doca_error_t status;
    int is_in_flight, is_flushed;
    uint64_t number;
    uint32_t polls;
    uint64_t due_ns;
};
struct doca_aes_gcm_key {
    uint8_t bytes[32];
    uint32_t len;
};
struct doca_ec_matrix {
    struct doca_ctx *ctx;
    struct matrix of;
    uint32_t tasks;
};
/* Of a code, or to recover blocks of one. */
doca_error_t dpb_internal_matrix(struct doca_ctx *, size_t inputs, size_t outputs, struct doca_ec_matrix **);
doca_error_t dpb_internal_recover(struct doca_ctx *, const struct doca_ec_matrix *, const uint32_t *missing, size_t count,
                                  struct doca_ec_matrix **);
doca_error_t dpb_internal_matrix_destroy(struct doca_ec_matrix *);
doca_error_t dpb_internal_code(struct doca_ctx *, enum work, const struct doca_ec_matrix *, const struct doca_buf *src,
                               struct doca_buf *dst, union doca_data, struct doca_task **);
doca_error_t dpb_internal_configure(struct doca_ctx *, landed_cb, landed_cb, uint32_t tasks);
doca_error_t dpb_internal_task(struct doca_ctx *, enum work, const struct doca_buf *, struct doca_buf *, union doca_data,
                               struct doca_task **);
#endif
