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
    WORK_MATCH,
    WORKS,
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
};

/* Whether it was compiled in. */
int work_is_there(enum work);
doca_error_t work_run(enum work, struct piece *);
