/* Contexts, work queues and jobs: part of common.c up to 2.2. */

struct flight {
    const struct doca_job *job;
    uint64_t number;
    uint32_t polls;
};

struct doca_workq {
    struct flight *flights;
    uint32_t count, depth;
};

const char *doca_get_error_name(doca_error_t code) { return name_of(code); }
const char *doca_get_error_string(doca_error_t code) { return text_of(code); }
doca_error_t doca_devinfo_list_create(struct doca_devinfo ***infos, uint32_t *count) { return list(infos, count); }
doca_error_t doca_devinfo_list_destroy(struct doca_devinfo **infos) { return unlist(infos); }
doca_error_t doca_mmap_create(const union doca_data *data, struct doca_mmap **mmap)
{
    (void)data;
    return new_mmap(mmap);
}
doca_error_t doca_mmap_dev_add(struct doca_mmap *mmap, struct doca_dev *dev) { return add_device(mmap, dev); }
doca_error_t doca_buf_inventory_create(const union doca_data *data, size_t count, uint32_t extensions,
                                       struct doca_buf_inventory **inventory)
{
    (void)data;
    return extensions ? DOCA_ERROR_INVALID_VALUE : new_inventory(count, inventory);
}
doca_error_t doca_buf_inventory_buf_by_args(struct doca_buf_inventory *inventory, struct doca_mmap *mmap, void *addr, size_t len,
                                            void *data, size_t data_len, struct doca_buf **buf)
{
    return get_buf(inventory, mmap, addr, len, data, data_len, buf);
}
doca_error_t doca_buf_refcount_rm(struct doca_buf *buf, uint16_t *count)
{
    if (count)
        *count = 1;
    return put_buf(buf);
}

/* The trap: 2.2 exports these beside its work queues, though no header of its own declares them. */
int doca_pe_create(void *pe);
int doca_pe_create(void *pe)
{
    (void)pe;
    return misuse("doca_pe_create of the wrong family", DOCA_ERROR_NOT_SUPPORTED);
}
int doca_task_submit(void *task);
int doca_task_submit(void *task)
{
    (void)task;
    return misuse("doca_task_submit of the wrong family", DOCA_ERROR_NOT_SUPPORTED);
}

#include "search.c"

doca_error_t doca_ctx_dev_add(struct doca_ctx *ctx, struct doca_dev *dev)
{
    if (ctx->dev || ctx->is_running)
        return misuse("a second device for a context, or a late one", DOCA_ERROR_BAD_STATE);
    ctx->dev = dev;
    dev->uses++;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_dev_rm(struct doca_ctx *ctx, struct doca_dev *dev)
{
    if (ctx->is_running || ctx->dev != dev)
        return misuse("a device is taken from a running context", DOCA_ERROR_IN_USE);
    dev->uses--;
    ctx->dev = NULL;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_start(struct doca_ctx *ctx)
{
    if (!ctx->dev)
        return misuse("a context is started without a device", DOCA_ERROR_BAD_STATE);
    if (knobs.fail_start)
        return DOCA_ERROR_DRIVER;
    if (start_searches(ctx) != DOCA_SUCCESS)
        return DOCA_ERROR_INVALID_VALUE;
    ctx->is_running = 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_stop(struct doca_ctx *ctx)
{
    if (ctx->workq || !ctx->is_running)
        return misuse("a context is stopped while it has a work queue", DOCA_ERROR_IN_USE);
    stop_searches(ctx);
    ctx->is_running = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_workq_add(struct doca_ctx *ctx, struct doca_workq *workq)
{
    if (!ctx->is_running)
        return misuse("a work queue for a context that does not run", DOCA_ERROR_BAD_STATE);
    make_pool(ctx);
    ctx->workq = workq;
    return DOCA_SUCCESS;
}

/* What is in flight is dropped, unless it is wedged. */
doca_error_t doca_ctx_workq_rm(struct doca_ctx *ctx, struct doca_workq *workq)
{
    for (uint32_t i = 0; i < workq->count; i++)
        if (is_wedged(workq->flights[i].number))
            return DOCA_ERROR_IN_USE;
    destroy_pool(ctx);
    workq->count = 0;
    ctx->workq = NULL;
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_destroy(struct doca_ctx *ctx)
{
    if (ctx->dev || ctx->is_running)
        return misuse("a context is destroyed before it is stopped", DOCA_ERROR_IN_USE);
    contexts--;
    free(ctx->rules_text);
    gone(ctx);
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_create(uint32_t depth, struct doca_workq **workq)
{
    *workq = made(sizeof **workq);
    (*workq)->flights = calloc(depth, sizeof(struct flight));
    (*workq)->depth = depth;
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_destroy(struct doca_workq *workq)
{
    if (workq->count)
        return misuse("a work queue is destroyed while it is busy", DOCA_ERROR_IN_USE);
    free(workq->flights);
    gone(workq);
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_submit(struct doca_workq *workq, const struct doca_job *job)
{
    uint64_t number = ++submits;
    doca_error_t admitted = admit(number, workq->count);
    if (admitted != DOCA_SUCCESS)
        return admitted;
    if (!job->ctx || job->ctx->workq != workq || job->flags)
        return misuse("a job of another work queue", DOCA_ERROR_INVALID_VALUE);
    if (workq->count == workq->depth)
        return DOCA_ERROR_NO_MEMORY;
    workq->flights[workq->count++] = (struct flight){job, number, knobs.delay ? lot((uint32_t)knobs.delay + 1) : 0};
    return DOCA_SUCCESS;
}

static doca_error_t carry_out(const struct doca_job *job)
{
    struct piece piece = {0};
    enum work work;
    switch (job->type) {
    case DOCA_DMA_JOB_MEMCPY: {
        const struct doca_dma_job_memcpy *dma = (const void *)job;
        return run(job->ctx, WORK_COPY, dma->src_buff, dma->dst_buff, &piece);
    }
    case DOCA_COMPRESS_DEFLATE_JOB:
    case DOCA_DECOMPRESS_DEFLATE_JOB: {
        const struct doca_compress_deflate_job *deflate = (const void *)job;
        work = job->type == DOCA_COMPRESS_DEFLATE_JOB ? WORK_DEFLATE : WORK_INFLATE;
        doca_error_t status = run(job->ctx, work, deflate->src_buff, deflate->dst_buff, &piece);
        if (deflate->output_chksum)
            *deflate->output_chksum = (uint64_t)piece.adler << 32 | piece.crc;
        return status;
    }
    case DOCA_SHA_JOB_SHA1:
    case DOCA_SHA_JOB_SHA256:
    case DOCA_SHA_JOB_SHA512: {
        const struct doca_sha_job *sha = (const void *)job;
        work = WORK_SHA1 + (job->type - DOCA_SHA_JOB_SHA1);
        return run(job->ctx, work, sha->req_buf, sha->resp_buf, &piece);
    }
    case DOCA_REGEX_JOB_SEARCH:
        return search((const void *)job);
    default:
        return misuse("a job of no type", DOCA_ERROR_INVALID_VALUE);
    }
}

doca_error_t doca_workq_progress_retrieve(struct doca_workq *workq, struct doca_event *event, int flags)
{
    uint32_t due = 0, chosen = 0;
    const struct doca_job *job = NULL;
    doca_error_t status;
    (void)flags;
    if (knobs.unplugged && submits >= (unsigned long)knobs.unplugged)
        return DOCA_ERROR_DRIVER;
    for (uint32_t i = 0; i < workq->count; i++) {
        struct flight *flight = &workq->flights[i];
        int is_due = !is_wedged(flight->number) && flight->polls == 0;
        if (is_due && (due++ == 0 || (knobs.shuffle && lot(due) == 0))) {
            job = flight->job;
            chosen = i;
        }
        if (job && !knobs.delay && !knobs.shuffle)
            break;
        if (flight->polls)
            flight->polls--;
    }
    if (!job)
        return DOCA_ERROR_AGAIN;
    memmove(&workq->flights[chosen], &workq->flights[chosen + 1], (--workq->count - chosen) * sizeof(struct flight));
    status = carry_out(job);
    *event = (struct doca_event){.type = job->type, .user_data = job->user_data};
    event->result.u64 = (uint64_t)status;
    if (job->type == DOCA_REGEX_JOB_SEARCH)
        event->result.ptr = ((const struct doca_regex_job_search *)(const void *)job)->result;
    return status == DOCA_SUCCESS ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED;
}
