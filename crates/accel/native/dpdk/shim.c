/* The environment, and the table. */
#include <errno.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include "libraries.h"
#include "parts.h"

#if RTE_VERSION >= RTE_VERSION_NUM(25, 3, 0, 0)
struct rte_net_crc *dpb_crc32;
#endif

static int eal_init(int argc, char **argv)
{
	if (rte_eal_init(argc, argv) >= 0)
		return 0;
	/* Not every path that fails says why. */
	return rte_errno > 0 ? -rte_errno : -EIO;
}

static int device_add(const char *name, const char *arguments)
{
	return rte_eal_hotplug_add("vdev", name, arguments);
}

static void *memory_take(size_t len)
{
	return rte_zmalloc(NULL, len, RTE_CACHE_LINE_SIZE);
}

/* Never called: nobody gives these mbufs back one by one. */
static void keep(void *memory, void *opaque)
{
	RTE_SET_USED(memory);
	RTE_SET_USED(opaque);
}

struct rte_mbuf_ext_shared_info dpb_foreign = {.free_cb = keep, .refcnt = 1};

static void attach(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *mbuf = object;

	RTE_SET_USED(pool);
	RTE_SET_USED(opaque);
	RTE_SET_USED(index);
	rte_pktmbuf_attach_extbuf(mbuf, mbuf, (rte_iova_t)(uintptr_t)mbuf, 0, &dpb_foreign);
	rte_mbuf_refcnt_set(mbuf, 1);
	mbuf->next = NULL;
	mbuf->nb_segs = 1;
}

struct rte_mempool *dpb_bare_mbufs(const char *name, uint32_t n)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, n, 0, 0, 0, SOCKET_ID_ANY);

	if (pool != NULL)
		rte_mempool_obj_iter(pool, attach, NULL);
	return pool;
}

#define LEVEL(of)                                                                                             \
	{                                                                                                     \
		.level = #of, .sums = &dpb_sums_##of, .lookups = &dpb_lookups_##of, .packets = &dpb_packets_##of, \
		.flows = &dpb_flows_##of                                                                      \
	}

static const struct dpb_libraries levels[] = {
#ifdef __x86_64__
	LEVEL(avx512),
	LEVEL(avx2),
#endif
	LEVEL(base),
};

/* Whether the CPU has what build.rs lets the compiler use for a level. */
static int has(const struct dpb_libraries *level)
{
#ifdef __x86_64__
	int is_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
		    __builtin_cpu_supports("fma");

	if (level == &levels[0])
		return is_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
		       __builtin_cpu_supports("gfni");
	if (level == &levels[1])
		return is_v3;
#endif
	return level != NULL;
}

static const struct dpb_libraries *libraries(uint32_t nth)
{
	for (size_t i = 0; i < RTE_DIM(levels); i++)
		if (has(&levels[i]) && nth-- == 0)
			return &levels[i];
	return NULL;
}

static const struct dpb_dpdk_table table = {
	.abi = DPB_DPDK_ABI,
	.size = sizeof(struct dpb_dpdk_table),
	.version = rte_version,
	.eal_init = eal_init,
	.error_text = rte_strerror,
	.crypto_status = dpb_crypto_status,
	.compress_status = dpb_compress_status,
	.device_add = device_add,
	.memory_take = memory_take,
	.memory_give = rte_free,
	.crypto_devices = dpb_crypto_devices,
	.crypto_ranges = dpb_crypto_ranges,
	.crypto_start = dpb_crypto_start,
	.crypto_session = dpb_crypto_session,
	.crypto_session_free = dpb_crypto_session_free,
	.crypto_open = dpb_crypto_open,
	.crypto_bind = dpb_crypto_bind,
	.crypto_submit = dpb_crypto_submit,
	.crypto_poll = dpb_crypto_poll,
	.compress_devices = dpb_compress_devices,
	.compress_start = dpb_compress_start,
	.compress_open = dpb_compress_open,
	.compress_bind = dpb_compress_bind,
	.compress_submit = dpb_compress_submit,
	.compress_poll = dpb_compress_poll,
	.compress_unbind = dpb_compress_unbind,
	.ports = dpb_ports,
	.port_start = dpb_port_start,
	.port_stop = dpb_port_stop,
	.port_take = dpb_port_take,
	.port_receive = dpb_port_receive,
	.port_send = dpb_port_send,
	.packet_give = dpb_packet_give,
	.libraries = libraries,
};

__attribute__((visibility("default"))) const struct dpb_dpdk_table *dpb_dpdk_shim(void);

const struct dpb_dpdk_table *dpb_dpdk_shim(void)
{
	return &table;
}
