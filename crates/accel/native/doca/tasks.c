/* Contexts, progress engines and tasks: part of common.c from 2.5 on. */

/* Its file is a timer, so that it tells of what is due later without a thread. It tells strictly: of what falls due once it was
 * asked to tell, and of nothing before. */
struct doca_pe {
    struct doca_task **tasks;
    size_t count, room;
    struct doca_ctx *ctx;
    int file, is_armed;
    uint64_t armed_ns, tells_ns;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *doca_error_get_name(doca_error_t code) { return name_of(code); }
const char *doca_error_get_descr(doca_error_t code) { return text_of(code); }
doca_error_t doca_devinfo_create_list(struct doca_devinfo ***infos, uint32_t *count) { return list(infos, count); }
doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **infos) { return unlist(infos); }
doca_error_t doca_mmap_create(struct doca_mmap **mmap) { return new_mmap(mmap); }
doca_error_t doca_mmap_add_dev(struct doca_mmap *mmap, struct doca_dev *dev) { return add_device(mmap, dev); }
doca_error_t doca_buf_inventory_create(size_t count, struct doca_buf_inventory **inventory)
{
    return new_inventory(count, inventory);
}
doca_error_t doca_buf_inventory_buf_get_by_args(struct doca_buf_inventory *inventory, struct doca_mmap *mmap, void *addr,
                                                size_t len, void *data, size_t data_len, struct doca_buf **buf)
{
    return get_buf(inventory, mmap, addr, len, data, data_len, buf);
}
doca_error_t doca_buf_dec_refcount(struct doca_buf *buf, uint16_t *count)
{
    if (count)
        *count = 1;
    return put_buf(buf);
}

doca_error_t doca_pe_create(struct doca_pe **pe)
{
    *pe = made(sizeof **pe);
    (*pe)->file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_destroy(struct doca_pe *pe)
{
    if (pe->ctx)
        return misuse("a progress engine is destroyed before its context", DOCA_ERROR_IN_USE);
    free(pe->tasks);
    if (pe->file >= 0)
        close(pe->file);
    gone(pe);
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_connect_ctx(struct doca_pe *pe, struct doca_ctx *ctx)
{
    pe->ctx = ctx;
    ctx->pe = pe;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_start(struct doca_ctx *ctx)
{
    if (!ctx->pe || !ctx->landed)
        return misuse("a context is started before it is configured", DOCA_ERROR_BAD_STATE);
    if (knobs.fail_start)
        return DOCA_ERROR_DRIVER;
    ctx->starts_left = (int)knobs.starting;
    ctx->state = ctx->starts_left ? DOCA_CTX_STATE_STARTING : DOCA_CTX_STATE_RUNNING;
    return ctx->starts_left ? DOCA_ERROR_IN_PROGRESS : DOCA_SUCCESS;
}

/* Idle as soon as nothing is in flight, all tasks are freed, and the knob has its polls. */
static int settle(struct doca_ctx *ctx)
{
    if (ctx->in_flight || ctx->tasks || ctx->stops_left > 0)
        return 0;
    ctx->state = DOCA_CTX_STATE_IDLE;
    return 1;
}

doca_error_t doca_ctx_stop(struct doca_ctx *ctx)
{
    if (ctx->state != DOCA_CTX_STATE_RUNNING)
        return DOCA_ERROR_BAD_STATE;
    ctx->state = DOCA_CTX_STATE_STOPPING;
    ctx->stops_left = (int)knobs.stop;
    return settle(ctx) ? DOCA_SUCCESS : DOCA_ERROR_IN_PROGRESS;
}

doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx, enum doca_ctx_states *state)
{
    *state = ctx->state;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_set_user_data(struct doca_ctx *ctx, union doca_data data)
{
    ctx->user_data = data;
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_destroy(struct doca_ctx *ctx)
{
    if (ctx->state != DOCA_CTX_STATE_IDLE)
        return misuse("a context is destroyed before it is idle", DOCA_ERROR_BAD_STATE);
    if (ctx->pe)
        ctx->pe->ctx = NULL;
    if (ctx->matrices)
        return misuse("an engine is destroyed before its matrices", DOCA_ERROR_IN_USE);
    ctx->dev->uses--;
    contexts--;
    gone(ctx);
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_configure(struct doca_ctx *ctx, landed_cb landed, landed_cb failed, uint32_t tasks)
{
    if (ctx->state != DOCA_CTX_STATE_IDLE || tasks == 0 || tasks > TASKS_MAX)
        return misuse("a context is configured while it runs, or with too many tasks", DOCA_ERROR_INVALID_VALUE);
    ctx->landed = landed;
    ctx->failed = failed;
    ctx->tasks_max = tasks;
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_task(struct doca_ctx *ctx, enum work work, const struct doca_buf *src, struct doca_buf *dst,
                               union doca_data user_data, struct doca_task **task)
{
    if (ctx->state != DOCA_CTX_STATE_RUNNING)
        return misuse("a task of a context that does not run", DOCA_ERROR_BAD_STATE);
    if (!src || !dst)
        return DOCA_ERROR_INVALID_VALUE;
    if (ctx->tasks == ctx->tasks_max)
        return DOCA_ERROR_NO_MEMORY;
    ctx->tasks++;
    *task = made(sizeof **task);
    **task = (struct doca_task){.ctx = ctx, .work = work, .src = src, .dst = dst, .user_data = user_data};
    return DOCA_SUCCESS;
}

static struct doca_ec_matrix *new_matrix(struct doca_ctx *ctx)
{
    struct doca_ec_matrix *matrix = made(sizeof *matrix);
    matrix->ctx = ctx;
    ctx->matrices++;
    return matrix;
}

doca_error_t dpb_internal_matrix_destroy(struct doca_ec_matrix *matrix)
{
    if (matrix->tasks)
        return misuse("a matrix is destroyed while tasks have it", DOCA_ERROR_IN_USE);
    matrix->ctx->matrices--;
    gone(matrix);
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_matrix(struct doca_ctx *ctx, size_t inputs, size_t outputs, struct doca_ec_matrix **matrix)
{
    if (ctx->state != DOCA_CTX_STATE_RUNNING)
        return misuse("a matrix of a context that does not run", DOCA_ERROR_BAD_STATE);
    if (inputs + outputs > (size_t)knobs.blocks)
        return DOCA_ERROR_INVALID_VALUE;
    *matrix = new_matrix(ctx);
    if (matrix_cauchy(&(*matrix)->of, inputs, outputs))
        return DOCA_SUCCESS;
    dpb_internal_matrix_destroy(*matrix);
    return DOCA_ERROR_INVALID_VALUE;
}

doca_error_t dpb_internal_recover(struct doca_ctx *ctx, const struct doca_ec_matrix *code, const uint32_t *missing, size_t count,
                                  struct doca_ec_matrix **matrix)
{
    *matrix = new_matrix(ctx);
    if (matrix_recover(&(*matrix)->of, &code->of, missing, count))
        return DOCA_SUCCESS;
    dpb_internal_matrix_destroy(*matrix);
    return DOCA_ERROR_INVALID_VALUE;
}

doca_error_t dpb_internal_code(struct doca_ctx *ctx, enum work work, const struct doca_ec_matrix *matrix,
                               const struct doca_buf *src, struct doca_buf *dst, union doca_data data, struct doca_task **task)
{
    doca_error_t made;
    /* Buffers of what no task could compute. */
    if (!matrix || src->data_len < matrix->of.inputs * BLOCK_UNIT || dst->len < matrix->of.outputs * BLOCK_UNIT)
        return DOCA_ERROR_INVALID_VALUE;
    made = dpb_internal_task(ctx, work, src, dst, data, task);
    if (made == DOCA_SUCCESS) {
        (*task)->matrix = (struct doca_ec_matrix *)matrix;
        (*task)->matrix->tasks++;
    }
    return made;
}

void doca_task_free(struct doca_task *task)
{
    if (task->is_in_flight) {
        misuse("a task is freed in flight", DOCA_ERROR_IN_USE);
        return;
    }
    task->ctx->tasks--;
    if (task->matrix)
        task->matrix->tasks--;
    gone(task);
}

doca_error_t doca_task_get_status(const struct doca_task *task)
{
    return task->is_in_flight ? misuse("a task in flight is asked for its status", DOCA_ERROR_IN_PROGRESS) : task->status;
}

/* When the file of an engine that is armed has to tell of a task; 0 for not at all. */
static uint64_t tells_at(const struct doca_pe *pe, const struct doca_task *task)
{
    if (is_wedged(task->number) || !task->is_flushed)
        return 0;
    if (knobs.unplugged && submits >= (unsigned long)knobs.unplugged)
        return 0;
    /* Only progress makes it due: there is always something to do. */
    if (task->polls)
        return pe->armed_ns;
    return task->due_ns < pe->armed_ns ? 0 : task->due_ns;
}

/* Sets the timer for the task that falls due next, unless it has told already. */
static void set_timer(struct doca_pe *pe)
{
    struct itimerspec timer = {0};
    uint64_t next = 0;
    if (!pe->is_armed || (pe->tells_ns && pe->tells_ns <= now_ns()))
        return;
    for (size_t i = 0; i < pe->count; i++) {
        uint64_t at = tells_at(pe, pe->tasks[i]);
        next = at && (!next || at < next) ? at : next;
    }
    pe->tells_ns = next;
    timer.it_value.tv_sec = (time_t)(next / 1000000000u);
    timer.it_value.tv_nsec = (long)(next % 1000000000u);
    timerfd_settime(pe->file, TFD_TIMER_ABSTIME, &timer, NULL);
}

doca_error_t doca_pe_get_notification_handle(const struct doca_pe *pe, doca_notification_handle_t *handle)
{
    *handle = pe->file;
    return pe->file >= 0 ? DOCA_SUCCESS : DOCA_ERROR_OPERATING_SYSTEM;
}

doca_error_t doca_pe_request_notification(struct doca_pe *pe)
{
    if (!pe->ctx)
        return misuse("an engine without a context is asked to tell", DOCA_ERROR_BAD_STATE);
    /* It tells until it is cleared. */
    if (pe->is_armed && pe->tells_ns && pe->tells_ns <= now_ns())
        return DOCA_SUCCESS;
    pe->is_armed = 1;
    pe->armed_ns = now_ns();
    pe->tells_ns = 0;
    set_timer(pe);
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_clear_notification(struct doca_pe *pe, doca_notification_handle_t handle)
{
    uint64_t times;
    if (handle != pe->file || read(pe->file, &times, sizeof times) != sizeof times)
        return misuse("an engine is cleared that has told of nothing", DOCA_ERROR_BAD_STATE);
    pe->is_armed = 0;
    pe->tells_ns = 0;
    return DOCA_SUCCESS;
}

static doca_error_t submit(struct doca_task *task, int is_flushed)
{
    struct doca_pe *pe = task->ctx->pe;
    doca_error_t admitted;
    if (task->is_in_flight)
        return misuse("a task is submitted in flight", DOCA_ERROR_IN_USE);
    if (task->ctx->state != DOCA_CTX_STATE_RUNNING)
        return DOCA_ERROR_BAD_STATE;
    task->number = ++submits;
    admitted = admit(task->number, task->ctx->in_flight);
    if (admitted != DOCA_SUCCESS)
        return admitted;
    if (pe->count == pe->room) {
        pe->room = pe->room ? 2 * pe->room : 64;
        pe->tasks = realloc(pe->tasks, pe->room * sizeof *pe->tasks);
    }
    task->is_in_flight = 1;
    task->is_flushed = is_flushed;
    task->polls = knobs.delay ? lot((uint32_t)knobs.delay + 1) : 0;
    task->due_ns = knobs.late || pe->is_armed ? now_ns() + (uint64_t)knobs.late * 1000000u : 0;
    task->ctx->in_flight++;
    pe->tasks[pe->count++] = task;
    set_timer(pe);
    return DOCA_SUCCESS;
}

doca_error_t doca_task_submit(struct doca_task *task) { return submit(task, 1); }

#if FAMILY >= 210
doca_error_t doca_task_submit_ex(struct doca_task *task, uint32_t flags)
{
    doca_error_t submitted = submit(task, 0);
    if (submitted == DOCA_SUCCESS && flags & DOCA_TASK_SUBMIT_FLAG_FLUSH)
        doca_ctx_flush_tasks(task->ctx);
    return submitted;
}

void doca_ctx_flush_tasks(struct doca_ctx *ctx)
{
    for (size_t i = 0; i < ctx->pe->count; i++)
        ctx->pe->tasks[i]->is_flushed = 1;
    set_timer(ctx->pe);
}

doca_error_t doca_mmap_enable_thread_safety(struct doca_mmap *mmap)
{
    return mmap->is_started ? DOCA_ERROR_BAD_STATE : DOCA_SUCCESS;
}
#endif

static int is_due(struct doca_task *task)
{
    if (is_wedged(task->number) || !task->is_flushed)
        return 0;
    if (task->ctx->state == DOCA_CTX_STATE_STOPPING)
        return 1;
    if (knobs.unplugged && submits >= (unsigned long)knobs.unplugged)
        return 0;
    return task->polls == 0 && (!knobs.late || task->due_ns <= now_ns());
}

static void land(struct doca_task *task)
{
    struct doca_ctx *ctx = task->ctx;
    struct piece piece = {
        .key = task->key ? task->key->bytes : NULL,
        .key_len = task->key ? task->key->len : 0,
        .iv = task->iv,
        .iv_len = task->iv_len,
        .tag_len = task->tag_len,
        .aad_len = task->aad_len,
        .matrix = task->matrix ? &task->matrix->of : NULL,
    };
    if (ctx->state == DOCA_CTX_STATE_STOPPING)
        task->status = DOCA_ERROR_SHUTDOWN;
    else
        task->status = run(ctx, task->work, task->src, task->dst, &piece);
    task->crc = piece.crc;
    task->adler = piece.adler;
    task->is_in_flight = 0;
    ctx->in_flight--;
    (task->status == DOCA_SUCCESS ? ctx->landed : ctx->failed)(task, task->user_data, ctx->user_data);
}

uint8_t doca_pe_progress(struct doca_pe *pe)
{
    size_t due = 0, chosen = 0;
    struct doca_task *task = NULL;
    progresses++;
    if (pe->ctx && pe->ctx->state == DOCA_CTX_STATE_STARTING && --pe->ctx->starts_left == 0)
        pe->ctx->state = DOCA_CTX_STATE_RUNNING;
    if (pe->ctx && pe->ctx->state == DOCA_CTX_STATE_STOPPING) {
        pe->ctx->stops_left--;
        settle(pe->ctx);
    }
    for (size_t i = 0; i < pe->count; i++) {
        if (is_due(pe->tasks[i]) && (due++ == 0 || (knobs.shuffle && lot((uint32_t)due) == 0))) {
            task = pe->tasks[i];
            chosen = i;
        }
        if (task && !knobs.delay && !knobs.shuffle)
            break;
        if (pe->tasks[i]->polls)
            pe->tasks[i]->polls--;
    }
    if (!task)
        return 0;
    memmove(&pe->tasks[chosen], &pe->tasks[chosen + 1], (--pe->count - chosen) * sizeof *pe->tasks);
    land(task);
    return 1;
}
