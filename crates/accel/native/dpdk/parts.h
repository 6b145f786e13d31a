/* What the files of the shim share. */
#ifndef DPB_DPDK_PARTS_H
#define DPB_DPDK_PARTS_H

#include <rte_mbuf.h>
#include <rte_version.h>

#include "shim.h"

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or later: sessions of earlier releases are made otherwise"
#endif

/* The table, file by file. */
const char *dpb_crypto_status(int status);
uint32_t dpb_crypto_devices(struct dpb_device *devices, uint32_t n);
int dpb_crypto_ranges(uint32_t device, uint32_t algorithm, struct dpb_ranges *ranges);
int dpb_crypto_start(uint32_t device, uint32_t queue_pairs, uint32_t descriptors, uint32_t sessions);
int dpb_crypto_session(uint32_t device, const struct dpb_cipher *cipher, void **session);
void dpb_crypto_session_free(uint32_t device, void *session);
int dpb_crypto_open(uint32_t device, uint32_t queue_pair, uint32_t operations, struct dpb_crypto_queue **queue);
void dpb_crypto_bind(struct dpb_crypto_queue *queue, const struct dpb_cipher *cipher, void *session);
uint32_t dpb_crypto_submit(struct dpb_crypto_queue *queue, const struct dpb_run *runs, uint32_t n);
uint32_t dpb_crypto_poll(struct dpb_crypto_queue *queue, struct dpb_done *done, uint32_t n);

const char *dpb_compress_status(int status);
uint32_t dpb_compress_devices(struct dpb_device *devices, uint32_t n);
int dpb_compress_start(uint32_t device, uint32_t queue_pairs, uint32_t operations);
int dpb_compress_open(uint32_t device, uint32_t queue_pair, uint32_t operations, uint32_t segments,
		      struct dpb_compress_queue **queue);
int dpb_compress_bind(struct dpb_compress_queue *queue, const struct dpb_codec *codec);
uint32_t dpb_compress_submit(struct dpb_compress_queue *queue, const struct dpb_run *runs, uint32_t n);
uint32_t dpb_compress_poll(struct dpb_compress_queue *queue, struct dpb_done *done, uint32_t n);
void dpb_compress_unbind(struct dpb_compress_queue *queue);

uint32_t dpb_ports(struct dpb_device *devices, uint32_t n);
int dpb_port_start(uint32_t port, uint32_t packets, uint32_t packet_bytes);
int dpb_port_stop(uint32_t port);
uint32_t dpb_port_take(uint32_t port, void **packets, uint32_t n);
uint32_t dpb_port_receive(uint32_t port, void **packets, uint32_t *lens, uint32_t n);
uint32_t dpb_port_send(uint32_t port, void *const *packets, const uint32_t *lens, uint32_t n);
int dpb_port_losses(uint32_t port, struct dpb_port_losses *losses);
void dpb_packet_give(void *packet);

/* A pool of mbufs without memory of their own, for one thread. */
struct rte_mempool *dpb_bare_mbufs(const char *name, uint32_t n);

/* For buffers whose life is another's care. */
extern struct rte_mbuf_ext_shared_info dpb_foreign;

/* Makes a bare mbuf the whole of this memory. The first attachment is what says that it is not the mbuf's own; after that,
 * addresses and lengths are all that changes.
 */
static inline void dpb_point(struct rte_mbuf *mbuf, const void *memory, uint32_t len)
{
	mbuf->buf_addr = (void *)(uintptr_t)memory;
	rte_mbuf_iova_set(mbuf, (rte_iova_t)(uintptr_t)memory);
	mbuf->buf_len = (uint16_t)len;
	mbuf->data_len = (uint16_t)len;
	mbuf->pkt_len = len;
}

/* A run without its first operation. */
static inline void dpb_step(struct dpb_run *run)
{
	run->src += run->item_step;
	run->iv += run->item_step;
	run->aad += run->item_step;
	run->dst += run->slot_step;
	run->digest += run->digest_step;
	run->user++;
	run->n--;
}

#endif
