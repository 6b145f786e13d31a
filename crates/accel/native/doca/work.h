/* What the stand-in computes, and what its libraries share. */
#pragma once
#include "stand_in.h"

enum work {
    WORK_COPY,
    WORK_DEFLATE,
    WORK_INFLATE,
    WORK_UNLZ4,
    WORK_SHA1,
    WORK_SHA256,
    WORK_SHA512,
    WORK_ENCRYPT,
    WORK_DECRYPT,
    WORK_ENCODE,
    WORK_RECOVER,
    WORK_MATCH,
    WORKS,
};

/* Most blocks of an erasure code, what their length is a multiple of, and how long they may be. */
#define BLOCKS_MAX 255
#define BLOCK_UNIT 64
#define BLOCK_MAX (1u << 20)

/* Output j is the sum of the inputs i, each times at[j][i]. */
struct matrix {
    size_t inputs, outputs;
    uint8_t at[BLOCKS_MAX][BLOCKS_MAX];
};

/* One task's input and output; `dst_len` is the room, then what was written. */
struct piece {
    const uint8_t *src;
    size_t src_len;
    uint8_t *dst;
    size_t dst_len;
    const uint8_t *key;
    uint32_t key_len;
    const uint8_t *iv;
    uint32_t iv_len;
    uint32_t tag_len;
    uint32_t aad_len;
    const struct matrix *matrix;
    /* Of the plain bytes, when it has run. */
    uint32_t crc, adler;
};

/* Whether it was compiled in. */
int work_is_there(enum work);
doca_error_t work_run(enum work, struct piece *);

/* Whether there is such a matrix: of a code's parity, of what recovers missing blocks from the first others. */
int matrix_cauchy(struct matrix *parity, size_t inputs, size_t outputs);
int matrix_recover(struct matrix *recover, const struct matrix *parity, const uint32_t *missing, size_t count);
doca_error_t matrix_apply(const struct matrix *, struct piece *);
