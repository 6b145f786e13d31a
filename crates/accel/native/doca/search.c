/* Rules, matches and their pools: part of jobs.c. */

struct pooled {
    struct doca_regex_match match;
    int is_out;
};

struct doca_regex_mempool {
    struct pooled *all;
    uint32_t count, out, next;
};

doca_error_t dpb_internal_set_rules(struct doca_ctx *ctx, const void *rules, size_t len)
{
    if (ctx->is_running || !len)
        return misuse("rules for a context that runs, or none", DOCA_ERROR_IN_USE);
    free(ctx->rules_text);
    ctx->rules_text = malloc(len);
    memcpy(ctx->rules_text, rules, len);
    ctx->rules_len = len;
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_set_pool_size(struct doca_ctx *ctx, uint32_t size)
{
    if (ctx->is_running || !size)
        return misuse("matches for a context that runs, or none", DOCA_ERROR_IN_USE);
    ctx->pool_size = size;
    return DOCA_SUCCESS;
}

/* Rules are compiled when their context starts. */
static doca_error_t start_searches(struct doca_ctx *ctx)
{
    if (!ctx->rules_text)
        return DOCA_SUCCESS;
    ctx->rules = rules_compile(ctx->rules_text, ctx->rules_len);
    return ctx->rules ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
}

static void stop_searches(struct doca_ctx *ctx)
{
    rules_free(ctx->rules);
    ctx->rules = NULL;
}

/* A pool for the context's work queue. */
static void make_pool(struct doca_ctx *ctx)
{
    if (!ctx->pool_size)
        return;
    ctx->pool = made(sizeof *ctx->pool);
    ctx->pool->all = calloc(ctx->pool_size, sizeof *ctx->pool->all);
    ctx->pool->count = ctx->pool_size;
}

static void destroy_pool(struct doca_ctx *ctx)
{
    if (!ctx->pool)
        return;
    if (ctx->pool->out)
        misuse("matches were not given back", DOCA_ERROR_IN_USE);
    free(ctx->pool->all);
    gone(ctx->pool);
    ctx->pool = NULL;
}

static struct doca_regex_match *take_match(struct doca_regex_mempool *pool)
{
    if (pool->out == pool->count)
        return NULL;
    while (pool->all[pool->next % pool->count].is_out)
        pool->next++;
    pool->out++;
    pool->all[pool->next % pool->count].is_out = 1;
    return &pool->all[pool->next++ % pool->count].match;
}

void dpb_internal_put(struct doca_regex_mempool *pool, void *match)
{
    struct pooled *pooled = match;
    if (!pool || pooled < pool->all || pooled >= pool->all + pool->count || !pooled->is_out) {
        misuse("a match is given back twice, or to another pool", DOCA_ERROR_INVALID_VALUE);
        return;
    }
    memset(&pooled->match, 0xa5, sizeof pooled->match);
    pooled->is_out = 0;
    pool->out--;
}

/* The last one found comes first. */
static void report(void *to, uint32_t id, uint32_t start, uint32_t len)
{
    struct doca_regex_search_result *result = to;
    uint32_t max = knobs.matches < MATCHES_MAX ? (uint32_t)knobs.matches : MATCHES_MAX;
    struct doca_regex_match *match;
    result->detected_matches++;
    match = result->num_matches < max ? take_match(result->matches_mempool) : NULL;
    if (!match) {
        if (result->num_matches == MATCHES_MAX)
            result->status_flags |= DOCA_REGEX_STATUS_MAX_MATCH;
        return;
    }
    *match = (struct doca_regex_match){result->matches, start, id, len};
    result->matches = match;
    result->num_matches++;
}

/* One that fails, or that is given up, reports what it has found so far. */
static doca_error_t search(const struct doca_regex_job_search *job)
{
    struct doca_ctx *ctx = job->base.ctx;
    const struct doca_buf *src = job->buffer;
    unsigned long number = ++tasks_run;
    int has_failed = number == (unsigned long)knobs.fail_task, is_given_up = number == (unsigned long)knobs.gives_up;
    size_t len;
    if (!ctx->rules || !ctx->pool || !job->result)
        return misuse("a search without rules, matches or a result", DOCA_ERROR_INVALID_VALUE);
    if (!src->inventory || !has_mmap_of(src, ctx->dev))
        return misuse("a search in a buffer that is gone or foreign", DOCA_ERROR_INVALID_VALUE);
    if (src->data_len > SEARCH_BYTES_MAX)
        return misuse("a search that is cut into pieces, between which matches are lost", DOCA_ERROR_INVALID_VALUE);
    *job->result = (struct doca_regex_search_result){.matches_mempool = ctx->pool};
    len = has_failed || is_given_up ? src->data_len / 2 : src->data_len;
    /* Rules that name no group are in the first. */
    for (int i = 0; i < 4; i++)
        if (job->rule_group_ids[i] == 1)
            rules_search(ctx->rules, src->data, len, report, job->result);
    if (is_given_up)
        job->result->status_flags |= DOCA_REGEX_STATUS_MAX_LATENCY;
    return has_failed ? DOCA_ERROR_IO_FAILED : DOCA_SUCCESS;
}
