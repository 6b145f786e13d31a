/* Network devices. A packet is known by the address of its first byte, which lies at a fixed distance behind its mbuf. */
#include <errno.h>
#include <string.h>

#include <rte_ethdev.h>

#include "parts.h"

#define DESCRIPTORS 512

static struct rte_mempool *packet_pools[RTE_MAX_ETHPORTS];
/* Packets that `in_place` had no room for. */
static struct dpb_port_losses lost[RTE_MAX_ETHPORTS];

static inline void *packet_of(struct rte_mbuf *mbuf)
{
	return (uint8_t *)(mbuf + 1) + RTE_PKTMBUF_HEADROOM;
}

static inline struct rte_mbuf *mbuf_of(void *packet)
{
	return (struct rte_mbuf *)((uint8_t *)packet - RTE_PKTMBUF_HEADROOM) - 1;
}

uint32_t dpb_ports(struct dpb_device *devices, uint32_t n)
{
	uint32_t found = 0;
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port)
	{
		struct rte_eth_dev_info info;
		char name[RTE_ETH_NAME_MAX_LEN];

		if (found == n || rte_eth_dev_info_get(port, &info) != 0 ||
		    rte_eth_dev_get_name_by_port(port, name) != 0)
			continue;
		struct dpb_device *device = &devices[found++];
		memset(device, 0, sizeof(*device));
		snprintf(device->name, sizeof(device->name), "%s", name);
		snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
		device->id = port;
		device->queue_pairs_max = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	}
	return found;
}

int dpb_port_start(uint32_t port, uint32_t packets, uint32_t packet_bytes)
{
	struct rte_eth_conf conf = {0};
	char name[RTE_MEMPOOL_NAMESIZE];
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
	int error;

	if (packet_pools[port] == NULL) {
		snprintf(name, sizeof(name), "dpb_packets_%u", port);
		packet_pools[port] =
			rte_pktmbuf_pool_create(name, packets, 0, 0, (uint16_t)(RTE_PKTMBUF_HEADROOM + packet_bytes),
						rte_eth_dev_socket_id((uint16_t)port));
		if (packet_pools[port] == NULL)
			return -ENOMEM;
	}
	error = rte_eth_dev_configure((uint16_t)port, 1, 1, &conf);
	if (error == 0)
		error = rte_eth_dev_adjust_nb_rx_tx_desc((uint16_t)port, &rx, &tx);
	if (error == 0)
		error = rte_eth_rx_queue_setup((uint16_t)port, 0, rx, SOCKET_ID_ANY, NULL, packet_pools[port]);
	if (error == 0)
		error = rte_eth_tx_queue_setup((uint16_t)port, 0, tx, SOCKET_ID_ANY, NULL);
	if (error == 0)
		error = rte_eth_dev_start((uint16_t)port);
	if (error == 0)
		/* Some have nothing to be promiscuous with. */
		rte_eth_promiscuous_enable((uint16_t)port);
	return error;
}

int dpb_port_stop(uint32_t port)
{
	return rte_eth_dev_stop((uint16_t)port);
}

uint32_t dpb_port_take(uint32_t port, void **packets, uint32_t n)
{
	struct rte_mbuf *mbufs[DPB_BURST];

	n = RTE_MIN(n, (uint32_t)DPB_BURST);
	if (rte_pktmbuf_alloc_bulk(packet_pools[port], mbufs, n) != 0)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		packets[i] = packet_of(mbufs[i]);
	return n;
}

/* The packet in one piece at the place where packets are; NULL if there is no room for a copy. */
static struct rte_mbuf *in_place(uint32_t port, struct rte_mbuf *mbuf)
{
	struct rte_mbuf *copy = NULL;

	if (mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1 && rte_pktmbuf_mtod(mbuf, void *) == packet_of(mbuf))
		return mbuf;
	if (mbuf->pkt_len <= rte_pktmbuf_data_room_size(packet_pools[port]) - RTE_PKTMBUF_HEADROOM)
		copy = rte_pktmbuf_alloc(packet_pools[port]);
	if (copy != NULL) {
		const void *bytes = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, packet_of(copy));

		if (bytes != packet_of(copy))
			memcpy(packet_of(copy), bytes, mbuf->pkt_len);
		copy->pkt_len = mbuf->pkt_len;
	} else if (mbuf->pkt_len > rte_pktmbuf_data_room_size(packet_pools[port]) - RTE_PKTMBUF_HEADROOM) {
		lost[port].too_long++;
	} else {
		lost[port].no_memory++;
	}
	rte_pktmbuf_free(mbuf);
	return copy;
}

uint32_t dpb_port_receive(uint32_t port, void **packets, uint32_t *lens, uint32_t n)
{
	struct rte_mbuf *mbufs[DPB_BURST];
	uint32_t came, kept = 0;

	came = rte_eth_rx_burst((uint16_t)port, 0, mbufs, (uint16_t)RTE_MIN(n, (uint32_t)DPB_BURST));
	for (uint32_t i = 0; i < came; i++) {
		struct rte_mbuf *mbuf = in_place(port, mbufs[i]);

		if (mbuf == NULL)
			continue; /* lost, and counted */
		packets[kept] = packet_of(mbuf);
		lens[kept++] = mbuf->pkt_len;
	}
	return kept;
}

uint32_t dpb_port_send(uint32_t port, void *const *packets, const uint32_t *lens, uint32_t n)
{
	struct rte_mbuf *mbufs[DPB_BURST];

	n = RTE_MIN(n, (uint32_t)DPB_BURST);
	for (uint32_t i = 0; i < n; i++) {
		mbufs[i] = mbuf_of(packets[i]);
		mbufs[i]->data_len = (uint16_t)lens[i];
		mbufs[i]->pkt_len = lens[i];
	}
	return rte_eth_tx_burst((uint16_t)port, 0, mbufs, (uint16_t)n);
}

int dpb_port_losses(uint32_t port, struct dpb_port_losses *losses)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get((uint16_t)port, &stats);

	*losses = lost[port];
	if (error != 0)
		return error;
	losses->queue_full += stats.imissed;
	losses->no_memory += stats.rx_nombuf;
	losses->errors += stats.ierrors;
	return 0;
}

void dpb_packet_give(void *packet)
{
	rte_pktmbuf_free(mbuf_of(packet));
}
