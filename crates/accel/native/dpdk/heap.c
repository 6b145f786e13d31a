/* Memory for DPDK's tables. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_vect.h>

#include "libraries.h"

#define PAGE ((size_t)2 << 20)

void dpb_name(char name[16])
{
	static unsigned int serial;

	snprintf(name, 16, "dpb%u", serial++);
}

int dpb_heap_open(struct dpb_heap *heap, size_t len)
{
	int error;

	heap->len = RTE_ALIGN_CEIL(len, PAGE);
	heap->mapped_len = heap->len + PAGE;
	heap->mapped = mmap(NULL, heap->mapped_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap->mapped == MAP_FAILED)
		return -errno;
	heap->memory = RTE_PTR_ALIGN_CEIL(heap->mapped, PAGE);
	/* Asked for; where there are none it works without. */
	madvise(heap->memory, heap->len, MADV_HUGEPAGE);
	dpb_name(heap->name);
	if (rte_malloc_heap_create(heap->name) != 0) {
		error = -rte_errno;
	} else if (rte_malloc_heap_memory_add(heap->name, heap->memory, heap->len, NULL, (unsigned int)(heap->len / PAGE),
					      PAGE) != 0) {
		error = -rte_errno;
		rte_malloc_heap_destroy(heap->name);
	} else {
		heap->socket = rte_malloc_heap_get_socket(heap->name);
		return 0;
	}
	munmap(heap->mapped, heap->mapped_len);
	return error < 0 ? error : -ENOMEM;
}

void dpb_heap_close(struct dpb_heap *heap)
{
	/* What is still in use stays mapped. */
	if (rte_malloc_heap_memory_remove(heap->name, heap->memory, heap->len) == 0 &&
	    rte_malloc_heap_destroy(heap->name) == 0)
		munmap(heap->mapped, heap->mapped_len);
}

uint16_t dpb_widen(void)
{
	uint16_t width = rte_vect_get_max_simd_bitwidth();

	/* Refused if the user has said otherwise. */
	if (width < RTE_VECT_SIMD_512)
		rte_vect_set_max_simd_bitwidth(RTE_VECT_SIMD_512);
	return width;
}

void dpb_narrow(uint16_t width)
{
	rte_vect_set_max_simd_bitwidth(width);
}
