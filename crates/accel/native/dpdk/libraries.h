/* What the files over DPDK's own libraries share. Most of what they call is inline, so each is compiled for several levels of
 * instruction sets (DPB_LEVEL), and the shim takes the best that the CPU has.
 */
#ifndef DPB_DPDK_LIBRARIES_H
#define DPB_DPDK_LIBRARIES_H

#include <rte_version.h>

#include "shim.h"

#define DPB_JOINED(name, level) name##_##level
#define DPB_JOIN(name, level) DPB_JOINED(name, level)
#define AT_LEVEL(name) DPB_JOIN(name, DPB_LEVEL)

#define DPB_LEVEL_PARTS(level)                                  \
	extern const struct dpb_sums dpb_sums_##level;          \
	extern const struct dpb_lookups dpb_lookups_##level;    \
	extern const struct dpb_packets dpb_packets_##level;    \
	extern const struct dpb_flows dpb_flows_##level

DPB_LEVEL_PARTS(base);
#ifdef __x86_64__
DPB_LEVEL_PARTS(avx2);
DPB_LEVEL_PARTS(avx512);
#endif

/* A heap of its own for one table: memory that huge pages may back, as much as is needed and not part of what EAL began with. */
struct dpb_heap {
	char name[32];
	void *mapped;
	size_t mapped_len;
	void *memory;
	size_t len;
	int socket; /* what the heap is asked for by */
};

/* 0, or a negative error number. */
int dpb_heap_open(struct dpb_heap *heap, size_t len);
/* Nothing of it is in use any more. */
void dpb_heap_close(struct dpb_heap *heap);

/* A name that nothing in DPDK has yet, at most 15 letters. */
void dpb_name(char name[16]);

/* From 25.03 on, what CRCs are computed by is an object, which all levels share. */
#if RTE_VERSION >= RTE_VERSION_NUM(25, 3, 0, 0)
extern struct rte_net_crc *dpb_crc32;
#endif

/* DPDK chooses 512-bit code only where it was told to; from the first to the second it is told so. */
uint16_t dpb_widen(void);
void dpb_narrow(uint16_t width);

#endif
