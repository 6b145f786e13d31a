/* Compress devices: queue pairs with their operations and chains of mbufs. */
#include <errno.h>
#include <string.h>

#include <rte_compressdev.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include "parts.h"

/* More than a decoder in any state takes without an output that is full, a step forward or an error: a stored block's
 * bytes, and for each byte of output a code of 15 bits.
 */
#define GUARD_ZEROS(output) (65536 + 2 * (uint64_t)(output))

/* Bytes of each mbuf of a chain but the last. */
#define PIECE 32768

/* What follows an operation in its memory. */
struct tail {
	uint64_t user;
};

struct dpb_compress_queue {
	uint8_t device;
	uint16_t queue_pair;
	uint32_t decompresses;
	uint32_t guard;
	uint32_t n_transforms;
	void **transforms;
	uint8_t *zeros;	  /* DPB_SEGMENT of them, for guards */
	uint8_t *scratch; /* an output that must not be empty, and what lies behind one that is full */
	struct rte_mbuf **segments;
	uint32_t n_segments;
	uint32_t n_free;
	struct rte_comp_op *free[]; /* last in, first out: what was used last is in the caches */
};

const char *dpb_compress_status(int status)
{
	switch (status) {
	case RTE_COMP_OP_STATUS_SUCCESS:
		return "success";
	case RTE_COMP_OP_STATUS_NOT_PROCESSED:
		return "not processed";
	case RTE_COMP_OP_STATUS_INVALID_ARGS:
		return "invalid arguments";
	case RTE_COMP_OP_STATUS_INVALID_STATE:
		return "invalid state";
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED:
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_RECOVERABLE:
		return "out of space";
	default:
		return "error";
	}
}

uint32_t dpb_compress_devices(struct dpb_device *devices, uint32_t n)
{
	uint32_t found = 0;

	/* None is ever removed, so they are numbered without gaps; an id beyond has no name that could be asked for. */
	for (uint32_t id = 0; id < rte_compressdev_count() && found < n; id++) {
		const struct rte_compressdev_capabilities *deflate;
		struct rte_compressdev_info info;
		const char *name = rte_compressdev_name_get((uint8_t)id);

		rte_compressdev_info_get((uint8_t)id, &info);
		struct dpb_device *device = &devices[found++];
		memset(device, 0, sizeof(*device));
		snprintf(device->name, sizeof(device->name), "%s", name);
		snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
		device->id = id;
		device->queue_pairs_max = info.max_nb_queue_pairs;
		device->is_hardware = (info.feature_flags & RTE_COMPDEV_FF_HW_ACCELERATED) != 0;
		deflate = rte_compressdev_capability_get((uint8_t)id, RTE_COMP_ALGO_DEFLATE);
		if (deflate == NULL)
			continue;
		device->is_deflate = 1;
		device->is_chained = (deflate->comp_feature_flags & RTE_COMP_FF_OOP_SGL_IN_SGL_OUT) != 0;
		device->checksums = 1u << DPB_CHECKSUM_NONE;
		if (deflate->comp_feature_flags & RTE_COMP_FF_CRC32_CHECKSUM)
			device->checksums |= 1u << DPB_CHECKSUM_CRC32;
		if (deflate->comp_feature_flags & RTE_COMP_FF_ADLER32_CHECKSUM)
			device->checksums |= 1u << DPB_CHECKSUM_ADLER32;
	}
	return found;
}

int dpb_compress_start(uint32_t device, uint32_t queue_pairs, uint32_t operations)
{
	struct rte_compressdev_config config = {
		.socket_id = SOCKET_ID_ANY,
		.nb_queue_pairs = (uint16_t)queue_pairs,
		/* One for each operation in flight, for devices that cannot share them. */
		.max_nb_priv_xforms = (uint16_t)RTE_MIN(queue_pairs * operations, (uint32_t)UINT16_MAX),
	};
	int error = rte_compressdev_configure((uint8_t)device, &config);

	for (uint16_t i = 0; i < queue_pairs && error == 0; i++)
		error = rte_compressdev_queue_pair_setup((uint8_t)device, i, operations, SOCKET_ID_ANY);
	return error != 0 ? error : rte_compressdev_start((uint8_t)device);
}

static struct rte_comp_xform transform(const struct rte_compressdev_capabilities *deflate, const struct dpb_codec *codec)
{
	static const enum rte_comp_checksum_type checksums[] = {
		[DPB_CHECKSUM_NONE] = RTE_COMP_CHECKSUM_NONE,
		[DPB_CHECKSUM_CRC32] = RTE_COMP_CHECKSUM_CRC32,
		[DPB_CHECKSUM_ADLER32] = RTE_COMP_CHECKSUM_ADLER32,
	};
	const int is_dynamic = (deflate->comp_feature_flags & RTE_COMP_FF_HUFFMAN_DYNAMIC) != 0;
	struct rte_comp_xform transform = {0};

	if (codec->decompresses) {
		transform.type = RTE_COMP_DECOMPRESS;
		transform.decompress.algo = RTE_COMP_ALGO_DEFLATE;
		transform.decompress.chksum = checksums[codec->checksum];
		transform.decompress.window_size = deflate->window_size.max;
		transform.decompress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
	} else {
		transform.type = RTE_COMP_COMPRESS;
		transform.compress.algo = RTE_COMP_ALGO_DEFLATE;
		transform.compress.deflate.huffman = is_dynamic ? RTE_COMP_HUFFMAN_DYNAMIC : RTE_COMP_HUFFMAN_FIXED;
		transform.compress.level = (int)codec->level;
		transform.compress.chksum = checksums[codec->checksum];
		transform.compress.window_size = deflate->window_size.max;
		transform.compress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
	}
	return transform;
}

int dpb_compress_open(uint32_t device, uint32_t queue_pair, uint32_t operations, uint32_t segments,
		      struct dpb_compress_queue **opened)
{
	struct dpb_compress_queue *queue = rte_zmalloc(NULL, sizeof(*queue) + operations * sizeof(queue->free[0]), 0);
	struct rte_mbuf **mbufs = rte_calloc(NULL, segments, sizeof(mbufs[0]), 0);
	void **transforms = rte_calloc(NULL, operations, sizeof(transforms[0]), 0);
	uint8_t *zeros = rte_zmalloc(NULL, DPB_SEGMENT, RTE_CACHE_LINE_SIZE);
	uint8_t *scratch = rte_zmalloc(NULL, RTE_CACHE_LINE_SIZE, RTE_CACHE_LINE_SIZE);
	struct rte_mempool *op_pool, *mbuf_pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "dpb_comp_ops_%u_%u", device, queue_pair);
	op_pool = rte_comp_op_pool_create(name, operations, 0, sizeof(struct tail), SOCKET_ID_ANY);
	snprintf(name, sizeof(name), "dpb_comp_mbufs_%u_%u", device, queue_pair);
	mbuf_pool = dpb_bare_mbufs(name, segments);
	if (queue == NULL || mbufs == NULL || transforms == NULL || zeros == NULL || scratch == NULL ||
	    op_pool == NULL || mbuf_pool == NULL ||
	    rte_mempool_get_bulk(mbuf_pool, (void **)mbufs, segments) != 0 ||
	    rte_comp_op_bulk_alloc(op_pool, queue->free, (uint16_t)operations) == 0) {
		rte_mempool_free(op_pool);
		rte_mempool_free(mbuf_pool);
		rte_free(scratch);
		rte_free(zeros);
		rte_free(transforms);
		rte_free(mbufs);
		rte_free(queue);
		return -ENOMEM;
	}
	queue->device = (uint8_t)device;
	queue->queue_pair = (uint16_t)queue_pair;
	queue->transforms = transforms;
	queue->zeros = zeros;
	queue->scratch = scratch;
	queue->segments = mbufs;
	queue->n_segments = segments;
	queue->n_free = operations;
	*opened = queue;
	return 0;
}

int dpb_compress_bind(struct dpb_compress_queue *queue, const struct dpb_codec *codec)
{
	const struct rte_compressdev_capabilities *deflate =
		rte_compressdev_capability_get(queue->device, RTE_COMP_ALGO_DEFLATE);
	struct rte_comp_xform wanted = transform(deflate, codec);
	const int is_shared = (deflate->comp_feature_flags & RTE_COMP_FF_SHAREABLE_PRIV_XFORM) != 0;

	queue->decompresses = codec->decompresses;
	queue->guard = codec->guard;
	for (uint32_t i = 0; i < queue->n_free; i++) {
		struct rte_comp_op *op = queue->free[i];

		if (i == 0 || !is_shared) {
			int error = rte_compressdev_private_xform_create(queue->device, &wanted, &queue->transforms[i]);

			if (error != 0) {
				dpb_compress_unbind(queue);
				return error < 0 ? error : -EIO;
			}
			queue->n_transforms++;
		}
		op->op_type = RTE_COMP_OP_STATELESS;
		op->flush_flag = RTE_COMP_FLUSH_FINAL;
		op->private_xform = queue->transforms[is_shared ? 0 : i];
	}
	return 0;
}

void dpb_compress_unbind(struct dpb_compress_queue *queue)
{
	while (queue->n_transforms > 0)
		rte_compressdev_private_xform_free(queue->device, queue->transforms[--queue->n_transforms]);
}

static struct tail *tail(struct rte_comp_op *op)
{
	return (struct tail *)(op + 1);
}

/* A chain that grows at its end. */
struct chain {
	struct rte_mbuf *first, *last;
};

static inline void extend(struct dpb_compress_queue *queue, struct chain *chain, const uint8_t *memory, uint32_t len)
{
	struct rte_mbuf *mbuf = queue->segments[--queue->n_segments];

	dpb_point(mbuf, memory, len);
	if (chain->first == NULL) {
		chain->first = mbuf;
	} else {
		chain->last->next = mbuf;
		chain->first->nb_segs++;
		chain->first->pkt_len += len;
	}
	chain->last = mbuf;
}

/* `len` bytes of memory, which may be none. The last mbuf is the longest: while the output is full, DPDK's driver of ISA-L
 * takes input for the last of its stream that would fit the mbuf it is at, and drops what follows.
 */
static inline void cover(struct dpb_compress_queue *queue, struct chain *chain, const uint8_t *memory, uint32_t len)
{
	for (; len > DPB_SEGMENT; len -= PIECE, memory += PIECE)
		extend(queue, chain, memory, PIECE);
	if (len > 0)
		extend(queue, chain, memory, len);
}

static inline void release(struct dpb_compress_queue *queue, struct rte_mbuf *mbuf)
{
	while (mbuf != NULL) {
		struct rte_mbuf *next = mbuf->next;

		mbuf->next = NULL;
		mbuf->nb_segs = 1;
		queue->segments[queue->n_segments++] = mbuf;
		mbuf = next;
	}
}

static inline uint64_t pieces_of(uint64_t len)
{
	return len / PIECE + 1;
}

/* Whether there are mbufs enough for a run's first item and all that goes with it. */
static inline int fits(const struct dpb_compress_queue *queue, const struct dpb_run *run)
{
	uint64_t needed = pieces_of(run->src_len) + pieces_of(run->dst_len) + 2;

	if (queue->guard == DPB_GUARD_LONG)
		needed += GUARD_ZEROS(run->dst_len) / DPB_SEGMENT + 2;
	return needed <= queue->n_segments;
}

static inline void fill(struct dpb_compress_queue *queue, struct rte_comp_op *op, const struct dpb_run *run)
{
	struct chain src = {0}, dst = {0};

	op->status = RTE_COMP_OP_STATUS_NOT_PROCESSED;
	op->consumed = 0;
	op->produced = 0;
	op->output_chksum = 0;
	op->input_chksum = 0;
	tail(op)->user = run->user;
	op->src.offset = 0;
	op->src.length = run->src_len;
	op->dst.offset = 0;
	cover(queue, &dst, run->dst, run->dst_len);
	switch (queue->guard) {
	case DPB_GUARD_NONE:
		cover(queue, &src, run->src, run->src_len);
		break;
	case DPB_GUARD_BYTE:
		/* Part of the same mbuf: the memory that items lie in goes on behind the last of them. */
		op->src.length++;
		cover(queue, &src, run->src, op->src.length);
		break;
	case DPB_GUARD_LONG:
		cover(queue, &src, run->src, run->src_len);
		extend(queue, &src, queue->zeros, 1);
		for (uint64_t left = GUARD_ZEROS(run->dst_len); left > 0; left -= RTE_MIN(left, (uint64_t)DPB_SEGMENT))
			extend(queue, &src, queue->zeros, (uint32_t)RTE_MIN(left, (uint64_t)DPB_SEGMENT));
		op->src.length = src.first->pkt_len;
		/* Some stop at an output that is full before they see that it is also the end. */
		extend(queue, &dst, queue->scratch, RTE_CACHE_LINE_SIZE);
		break;
	}
	/* Drivers take neither an empty chain nor, some of them, an empty output. */
	if (src.first == NULL)
		extend(queue, &src, queue->zeros, 0);
	if (dst.first == NULL)
		extend(queue, &dst, queue->scratch, 1);
	op->m_src = src.first;
	op->m_dst = dst.first;
}

uint32_t dpb_compress_submit(struct dpb_compress_queue *queue, const struct dpb_run *runs, uint32_t n)
{
	struct rte_comp_op *ops[DPB_BURST];
	uint32_t filled = 0, taken;

	for (uint32_t i = 0; i < n; i++) {
		struct dpb_run run = runs[i];

		for (; run.n > 0 && filled < DPB_BURST && queue->n_free > 0 && fits(queue, &run); dpb_step(&run)) {
			ops[filled] = queue->free[--queue->n_free];
			fill(queue, ops[filled++], &run);
		}
		if (run.n > 0)
			break;
	}
	taken = rte_compressdev_enqueue_burst(queue->device, queue->queue_pair, ops, (uint16_t)filled);
	while (filled > taken) {
		struct rte_comp_op *op = ops[--filled];

		release(queue, op->m_src);
		release(queue, op->m_dst);
		queue->free[queue->n_free++] = op;
	}
	return taken;
}

static inline enum dpb_verdict verdict(const struct dpb_compress_queue *queue, int status)
{
	switch (status) {
	case RTE_COMP_OP_STATUS_SUCCESS:
		return DPB_DONE;
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED:
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_RECOVERABLE:
		return DPB_FULL;
	case RTE_COMP_OP_STATUS_ERROR:
		return queue->decompresses ? DPB_MALFORMED : DPB_FAILED;
	default:
		return DPB_FAILED;
	}
}

uint32_t dpb_compress_poll(struct dpb_compress_queue *queue, struct dpb_done *done, uint32_t n)
{
	struct rte_comp_op *ops[DPB_BURST];

	n = rte_compressdev_dequeue_burst(queue->device, queue->queue_pair, ops,
					  (uint16_t)RTE_MIN(n, (uint32_t)DPB_BURST));
	for (uint32_t i = 0; i < n; i++) {
		struct rte_comp_op *op = ops[i];

		done[i] = (struct dpb_done){
			.user = tail(op)->user,
			.verdict = verdict(queue, op->status),
			.status = op->status,
			.consumed = op->consumed,
			.produced = op->produced,
			.checksum = (uint32_t)op->output_chksum,
			.n = 1,
		};
		release(queue, op->m_src);
		release(queue, op->m_dst);
		queue->free[queue->n_free++] = op;
	}
	return n;
}
