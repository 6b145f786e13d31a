/* libdoca_common of the stand-in: devices, memory, contexts, and the progress that runs what was submitted.
 *
 * DPB_STAND_IN names faults, `name=number` with commas between:
 *   devices=N      so many devices, not two
 *   missing=N      the works of these bits are missing from every device
 *   fail_submit=N  the Nth submit fails
 *   fail_task=N    the Nth task ends in an error
 *   full=N         so many tasks at a time; a further submit is to be tried again
 *   delay=N        a task is due after up to N polls
 *   late=N         a task is due N milliseconds after its submission (tasks alone)
 *   shuffle=1      what is due comes in any order
 *   engines=N      there can be so many contexts at a time
 *   fail_start=1   no context starts
 *   starting=N     a context needs N polls to start (tasks alone)
 *   stop=N         a context needs N polls to stop (tasks alone)
 *   wedged=N       the Nth task and all behind it never end, not even when their context is stopped
 *   blocks=N       an erasure code can have so many blocks
 *   unplugged=N    the Nth submit and all behind it fail, and nothing ends but by stopping its context
 *   matches=N      a search reports N matches at most, and how many it found
 *   gives_up=N     the Nth task, if it is a search, says that it gave up
 *   counts=1       at exit stdout says how often progress was asked for (tasks alone)
 * What is called in a wrong way or order, or left behind at exit, is said on stderr. */
#define _GNU_SOURCE
#include "internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 2

struct doca_dev {
    struct doca_devinfo info;
    atomic_int opens, uses;
};

struct doca_mmap {
    struct doca_dev *devs[8];
    int dev_count, is_started;
    uint32_t permissions;
    uint8_t *addr;
    size_t len;
    atomic_int bufs;
};

struct doca_buf {
    struct doca_buf_inventory *inventory;
    struct doca_mmap *mmap;
    uint8_t *addr, *data;
    size_t len, data_len;
};

struct doca_buf_inventory {
    struct doca_buf *bufs;
    size_t count, next;
    int is_started;
};

struct knobs {
    long devices, missing, fail_submit, fail_task, full, delay, shuffle, engines, fail_start, starting, stop, wedged, unplugged;
    long blocks, matches, gives_up, late, counts;
};

static struct knobs knobs;
static struct doca_dev devices[DEVICES];
static atomic_ulong submits, tasks_run, progresses, left;
static atomic_long contexts;

static long knob(const char *name, long otherwise)
{
    const char *at = getenv("DPB_STAND_IN");
    size_t len = strlen(name);
    while (at && *at) {
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return strtol(at + len + 1, NULL, 0);
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return otherwise;
}

/* The first is like a BlueField-2, the second like a BlueField-3. */
__attribute__((constructor)) static void set_up(void)
{
    static const uint32_t works[DEVICES] = {
        1u << WORK_COPY | 1u << WORK_DEFLATE | 1u << WORK_INFLATE | 1u << WORK_SHA1 | 1u << WORK_SHA256 | 1u << WORK_SHA512
            | 1u << WORK_MATCH,
        1u << WORK_COPY | 1u << WORK_INFLATE | 1u << WORK_UNLZ4 | 1u << WORK_ENCRYPT | 1u << WORK_DECRYPT | 1u << WORK_ENCODE
            | 1u << WORK_RECOVER,
    };
    knobs = (struct knobs){
        .devices = knob("devices", DEVICES),
        .missing = knob("missing", 0),
        .fail_submit = knob("fail_submit", 0),
        .fail_task = knob("fail_task", 0),
        .full = knob("full", 0),
        .delay = knob("delay", 0),
        .shuffle = knob("shuffle", 0),
        .engines = knob("engines", 0),
        .fail_start = knob("fail_start", 0),
        .starting = knob("starting", 0),
        .stop = knob("stop", 0),
        .wedged = knob("wedged", 0),
        .unplugged = knob("unplugged", 0),
        .blocks = knob("blocks", BLOCKS_MAX),
        .matches = knob("matches", MATCHES_MAX),
        .gives_up = knob("gives_up", 0),
        .late = knob("late", 0),
        .counts = knob("counts", 0),
    };
    for (int i = 0; i < DEVICES; i++) {
        snprintf(devices[i].info.ibdev, sizeof devices[i].info.ibdev, "mlx5_%d", i);
        snprintf(devices[i].info.pci, sizeof devices[i].info.pci, "0000:%02x:00.0", 3 + i);
        devices[i].info.works = works[i] & ~(uint32_t)knobs.missing;
    }
}

__attribute__((destructor)) static void tear_down(void)
{
    if (knobs.counts)
        printf("progressed %lu times\n", (unsigned long)progresses);
    if (left)
        fprintf(stderr, "stand-in: %lu objects were not given back\n", (unsigned long)left);
}

static doca_error_t misuse(const char *what, doca_error_t code)
{
    fprintf(stderr, "stand-in: misuse: %s\n", what);
    return code;
}

static void *made(size_t bytes)
{
    void *object = calloc(1, bytes);
    left += object != NULL;
    return object;
}

static void gone(void *object)
{
    left -= 1;
    free(object);
}

static uint32_t lot(uint32_t below)
{
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

const char *dpb_stand_in(void)
{
#if FAMILY >= 210
    return "software behind a stand-in for DOCA 2.10";
#elif FAMILY >= 25
    return "software behind a stand-in for DOCA 2.5";
#else
    return "software behind a stand-in for DOCA 2.2";
#endif
}

const char *doca_version_runtime(void)
{
#if FAMILY >= 210
    return "2.10.0087";
#elif FAMILY >= 25
    return "2.5.0108";
#else
    return "2.2.0080";
#endif
}

static const char *name_of(doca_error_t code)
{
    switch (code) {
    case DOCA_SUCCESS: return "DOCA_SUCCESS";
    case DOCA_ERROR_NOT_SUPPORTED: return "DOCA_ERROR_NOT_SUPPORTED";
    case DOCA_ERROR_AGAIN: return "DOCA_ERROR_AGAIN";
    case DOCA_ERROR_INVALID_VALUE: return "DOCA_ERROR_INVALID_VALUE";
    case DOCA_ERROR_NO_MEMORY: return "DOCA_ERROR_NO_MEMORY";
    case DOCA_ERROR_SHUTDOWN: return "DOCA_ERROR_SHUTDOWN";
    case DOCA_ERROR_IO_FAILED: return "DOCA_ERROR_IO_FAILED";
    case DOCA_ERROR_BAD_STATE: return "DOCA_ERROR_BAD_STATE";
    case DOCA_ERROR_DRIVER: return "DOCA_ERROR_DRIVER";
    case DOCA_ERROR_UNEXPECTED: return "DOCA_ERROR_UNEXPECTED";
    default: return "DOCA_ERROR_UNKNOWN";
    }
}

static const char *text_of(doca_error_t code)
{
    switch (code) {
    case DOCA_SUCCESS: return "Success";
    case DOCA_ERROR_IO_FAILED: return "Input/Output Operation Failed";
    case DOCA_ERROR_DRIVER: return "Driver (unspecified) error";
    case DOCA_ERROR_UNEXPECTED: return "Unexpected error";
    default: return "Some other error";
    }
}

static doca_error_t list(struct doca_devinfo ***list, uint32_t *count)
{
    *count = (uint32_t)knobs.devices;
    *list = made((*count + 1) * sizeof **list);
    for (uint32_t i = 0; i < *count; i++) {
        (*list)[i] = made(sizeof ***list);
        *(*list)[i] = devices[i].info;
    }
    return DOCA_SUCCESS;
}

static doca_error_t unlist(struct doca_devinfo **list)
{
    for (struct doca_devinfo **info = list; *info; info++)
        gone(*info);
    gone(list);
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev)
{
    for (int i = 0; i < DEVICES; i++)
        if (strcmp(devices[i].info.ibdev, info->ibdev) == 0)
            *dev = &devices[i];
    (*dev)->opens++;
    left++;
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_close(struct doca_dev *dev)
{
    if (dev->opens == 1 && dev->uses)
        return misuse("a device is closed while it is used", DOCA_ERROR_IN_USE);
    dev->opens--;
    left--;
    return DOCA_SUCCESS;
}

struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *dev)
{
    return (struct doca_devinfo *)&dev->info;
}

doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *info, char *name, uint32_t size)
{
    if (size < sizeof info->ibdev)
        return DOCA_ERROR_INVALID_VALUE;
    memcpy(name, info->ibdev, sizeof info->ibdev);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *info, char *pci)
{
    memcpy(pci, info->pci, sizeof info->pci);
    return DOCA_SUCCESS;
}

static doca_error_t new_mmap(struct doca_mmap **mmap)
{
    *mmap = made(sizeof **mmap);
    return *mmap ? DOCA_SUCCESS : DOCA_ERROR_NO_MEMORY;
}

doca_error_t doca_mmap_destroy(struct doca_mmap *mmap)
{
    if (mmap->bufs || mmap->is_started)
        return misuse("memory is destroyed while it is used", DOCA_ERROR_IN_USE);
    for (int i = 0; i < mmap->dev_count; i++)
        mmap->devs[i]->uses--;
    gone(mmap);
    return DOCA_SUCCESS;
}

static doca_error_t add_device(struct doca_mmap *mmap, struct doca_dev *dev)
{
    if (mmap->is_started || mmap->dev_count == 8 || !dev->opens)
        return misuse("a device is added to memory that is started, or it is not open", DOCA_ERROR_BAD_STATE);
    mmap->devs[mmap->dev_count++] = dev;
    dev->uses++;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_permissions(struct doca_mmap *mmap, uint32_t permissions)
{
    mmap->permissions = permissions;
    return mmap->is_started ? DOCA_ERROR_BAD_STATE : DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_memrange(struct doca_mmap *mmap, void *addr, size_t len)
{
    if (!addr || !len || mmap->is_started)
        return misuse("memory of nothing, or set late", DOCA_ERROR_INVALID_VALUE);
    mmap->addr = addr;
    mmap->len = len;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_start(struct doca_mmap *mmap)
{
    if (!mmap->addr || !mmap->dev_count)
        return misuse("memory is started before it is set", DOCA_ERROR_BAD_STATE);
    mmap->is_started = 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_stop(struct doca_mmap *mmap)
{
    if (mmap->bufs)
        return misuse("memory is stopped while there are buffers over it", DOCA_ERROR_IN_USE);
    mmap->is_started = 0;
    return DOCA_SUCCESS;
}

static doca_error_t new_inventory(size_t count, struct doca_buf_inventory **inventory)
{
    *inventory = made(sizeof **inventory);
    (*inventory)->bufs = calloc(count, sizeof(struct doca_buf));
    (*inventory)->count = count;
    return DOCA_SUCCESS;
}

static int bufs_out(const struct doca_buf_inventory *inventory)
{
    int out = 0;
    for (size_t i = 0; i < inventory->count; i++)
        out += inventory->bufs[i].inventory != NULL;
    return out;
}

doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *inventory)
{
    if (bufs_out(inventory))
        return misuse("an inventory is destroyed while its buffers are out", DOCA_ERROR_IN_USE);
    free(inventory->bufs);
    gone(inventory);
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *inventory)
{
    inventory->is_started = 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_stop(struct doca_buf_inventory *inventory)
{
    if (bufs_out(inventory))
        return misuse("an inventory is stopped while its buffers are out", DOCA_ERROR_IN_USE);
    inventory->is_started = 0;
    return DOCA_SUCCESS;
}

static doca_error_t get_buf(struct doca_buf_inventory *inventory, struct doca_mmap *mmap, void *addr, size_t len, void *data,
                            size_t data_len, struct doca_buf **buf)
{
    uint8_t *from = addr, *at = data;
    if (!inventory->is_started || !mmap->is_started)
        return misuse("a buffer over memory that is not started", DOCA_ERROR_BAD_STATE);
    if (from < mmap->addr || from + len > mmap->addr + mmap->len || at < from || at + data_len > from + len)
        return misuse("a buffer outside its memory", DOCA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < inventory->count; i++)
        if (!inventory->bufs[inventory->next++ % inventory->count].inventory) {
            *buf = &inventory->bufs[(inventory->next - 1) % inventory->count];
            **buf = (struct doca_buf){inventory, mmap, from, at, len, data_len};
            mmap->bufs++;
            return DOCA_SUCCESS;
        }
    return DOCA_ERROR_NO_MEMORY;
}

static doca_error_t put_buf(struct doca_buf *buf)
{
    if (!buf->inventory)
        return misuse("a buffer is given back twice", DOCA_ERROR_INVALID_VALUE);
    buf->mmap->bufs--;
    buf->inventory = NULL;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_data_len(const struct doca_buf *buf, size_t *len)
{
    *len = buf->data_len;
    return DOCA_SUCCESS;
}

doca_error_t dpb_internal_supports(const struct doca_devinfo *info, enum work work)
{
    return work_is_there(work) && info->works & 1u << work ? DOCA_SUCCESS : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t dpb_internal_create(struct doca_dev *dev, struct doca_ctx **ctx)
{
    if (knobs.engines && contexts == knobs.engines)
        return DOCA_ERROR_DRIVER;
    contexts++;
    *ctx = made(sizeof **ctx);
    (*ctx)->dev = dev;
    if (dev)
        dev->uses++;
    return DOCA_SUCCESS;
}

static int is_wedged(uint64_t number)
{
    return knobs.wedged && number >= (uint64_t)knobs.wedged;
}

/* What a submit of the `number`th task ends in, knobs considered. */
static doca_error_t admit(uint64_t number, uint32_t in_flight)
{
    if (knobs.unplugged && number >= (uint64_t)knobs.unplugged)
        return DOCA_ERROR_DRIVER;
    if (knobs.fail_submit && number == (uint64_t)knobs.fail_submit)
        return DOCA_ERROR_UNEXPECTED;
    if (knobs.full && in_flight >= (uint32_t)knobs.full) {
        submits--;
        return FAMILY >= 25 ? DOCA_ERROR_AGAIN : DOCA_ERROR_NO_MEMORY;
    }
    return DOCA_SUCCESS;
}

static int has_mmap_of(const struct doca_buf *buf, const struct doca_dev *dev)
{
    for (int i = 0; i < buf->mmap->dev_count; i++)
        if (buf->mmap->devs[i] == dev)
            return 1;
    return 0;
}

static doca_error_t run(struct doca_ctx *ctx, enum work work, const struct doca_buf *src, struct doca_buf *dst, struct piece *piece)
{
    doca_error_t status;
    uint8_t *at = dst->data + dst->data_len;
    if (++tasks_run == (unsigned long)knobs.fail_task)
        return DOCA_ERROR_IO_FAILED;
    if (!src->inventory || !dst->inventory || !has_mmap_of(src, ctx->dev) || !has_mmap_of(dst, ctx->dev)
        || dst->mmap->permissions != 1)
        return misuse("a task over buffers that are gone, foreign or not to be written", DOCA_ERROR_INVALID_VALUE);
    if (src->data_len > BYTES_MAX && !piece->matrix)
        return DOCA_ERROR_INVALID_VALUE;
    piece->src = src->data;
    piece->src_len = src->data_len;
    piece->dst = at;
    piece->dst_len = (size_t)(dst->addr + dst->len - at);
    status = work_run(work, piece);
    if (status == DOCA_SUCCESS)
        dst->data_len += piece->dst_len;
    return status;
}

#if FAMILY >= 25
#include "tasks.c"
#else
#include "jobs.c"
#endif
