/* The checksum of VPP's vppinfra (vector/ip_csum.h), which is in no package: its method, rewritten by dpb's authors. Words are widened
 * to 64-bit sums, a vector a step, and the sum folded with carries; headers of 20 and 40 bytes have their own straight-line
 * forms. The compiler's level chooses the vector, as VPP's does: 512 bits, 256 bits, or what it makes of plain words. */
#include "peer.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

const char *vpp_version(void)
{
	return "method of vector/ip_csum.h, rewritten by dpb's authors";
}

#if defined(__BMI2__)
static inline uint16_t fold(uint64_t sum)
{
	uint64_t part = sum;
	__asm__ volatile("shr $32, %[sum]\n\t"
			 "add %k[part], %k[sum]\n\t"
			 "mov $16, %k[part]\n\t"
			 "shrx %k[part], %k[sum], %k[part]\n\t"
			 "adc %w[part], %w[sum]\n\t"
			 "adc $0, %w[sum]\n\t"
			 : [sum] "+&r"(sum), [part] "+&r"(part));
	return ~(uint16_t)sum;
}
#else
static inline uint16_t fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(uint16_t)((sum & 0xffff) + (sum >> 16));
}
#endif

static inline uint64_t words(const uint8_t *src, size_t count)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t word;
		memcpy(&word, src + 4 * i, 4);
		sum += word;
	}
	return sum;
}

/* Fewer bytes than a vector has, the last word filled up with zeros. */
static inline uint64_t rest(const uint8_t *src, size_t len)
{
	uint32_t last = 0;
	memcpy(&last, src + len / 4 * 4, len % 4);
	return words(src, len / 4) + last;
}

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__BMI2__)
static inline __m512i widened(__m512i words)
{
	__m512i zero = _mm512_setzero_si512();
	return _mm512_add_epi64(_mm512_unpacklo_epi32(words, zero), _mm512_unpackhi_epi32(words, zero));
}

static inline uint64_t sum(const uint8_t *src, size_t len)
{
	__m512i sums = _mm512_setzero_si512();
	for (; len >= 64; len -= 64, src += 64)
		sums = _mm512_add_epi64(sums, widened(_mm512_loadu_si512(src)));
	if (len)
		sums = _mm512_add_epi64(sums, widened(_mm512_maskz_loadu_epi8(_bzhi_u64(~0ull, len), src)));
	return _mm512_reduce_add_epi64(sums);
}
#elif defined(__AVX2__)
static inline __m256i widened(__m256i words)
{
	__m256i zero = _mm256_setzero_si256();
	return _mm256_add_epi64(_mm256_unpacklo_epi32(words, zero), _mm256_unpackhi_epi32(words, zero));
}

static inline uint64_t sum(const uint8_t *src, size_t len)
{
	__m256i first = _mm256_setzero_si256(), second = first;
	uint64_t parts[4];
	for (; len >= 64; len -= 64, src += 64) {
		first = _mm256_add_epi64(first, widened(_mm256_loadu_si256((const __m256i *)src)));
		second = _mm256_add_epi64(second, widened(_mm256_loadu_si256((const __m256i *)(src + 32))));
	}
	if (len >= 32) {
		first = _mm256_add_epi64(first, widened(_mm256_loadu_si256((const __m256i *)src)));
		len -= 32, src += 32;
	}
	_mm256_storeu_si256((__m256i *)parts, _mm256_add_epi64(first, second));
	return parts[0] + parts[1] + parts[2] + parts[3] + rest(src, len);
}
#else
static inline uint64_t sum(const uint8_t *src, size_t len)
{
	return rest(src, len);
}
#endif

static inline void put(const struct task *task, size_t i, uint64_t sum)
{
	uint16_t checksum = fold(sum);
	memcpy(dst_of(task, i), &checksum, 2);
}

static void any(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++)
		put(&task, i, sum(src_of(&task, i), len_of(&task, i)));
}

static void twenty(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++)
		put(&task, i, words(src_of(&task, i), 5));
}

static void forty(struct peer *peer, const struct task *given)
{
	const struct task task = *given;
	for (size_t i = 0; i < task.count; i++)
		put(&task, i, words(src_of(&task, i), 10));
}

static void release(struct peer *peer)
{
	free(peer);
}

struct peer *vpp_peer(const char *name, const struct spec *spec, const struct task *task)
{
	size_t len = task->offsets ? 0 : task->stride;
	struct peer *peer;
	(void)name;
	if (!is(spec, "checksum") || !has(spec, "form=plain"))
		return NULL;
	peer = room(sizeof(*peer));
	*peer = (struct peer){ len == 20 ? twenty : len == 40 ? forty : any, NULL, release };
	return peer;
}
