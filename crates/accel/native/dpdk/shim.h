/* dpb's own interface to DPDK: one table of functions, mirrored by `src/dpdk/sys.rs`.
 *
 * DPDK's hot path is inline C over structures that differ between releases, so something must be compiled against the
 * headers of the release that is installed. This is all of it. It only grows at the end; a change of what is there raises
 * DPB_DPDK_ABI. Calls on the hot path take bursts, so that a call through the table is paid once for many operations.
 *
 * Addresses are I/O addresses too: EAL is started with --iova-mode=va.
 */
#ifndef DPB_DPDK_SHIM_H
#define DPB_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define DPB_DPDK_ABI 6

/* Most operations or packets of one call. */
#define DPB_BURST 64

#define DPB_NAME 64

/* A crypto or compress device. */
struct dpb_device {
	char name[DPB_NAME];
	char driver[DPB_NAME];
	uint32_t id;
	uint32_t queue_pairs_max; /* 0: any number */
	uint32_t is_hardware;
	/* Of compress devices, about DEFLATE. */
	uint32_t is_deflate;
	uint32_t is_chained; /* input and output may lie in several mbufs */
	uint32_t checksums;  /* bits: 1 << DPB_CHECKSUM_* */
};

#define DPB_CHECKSUM_NONE 0
#define DPB_CHECKSUM_CRC32 1
#define DPB_CHECKSUM_ADLER32 2

enum dpb_algorithm {
	DPB_AES_GCM,
	DPB_AES_CTR,
	DPB_AES_CBC,
	DPB_AES_XTS,
	DPB_MD5,
	DPB_SHA1,
	DPB_SHA256,
	DPB_SHA512,
	DPB_HMAC_MD5,
	DPB_HMAC_SHA1,
	DPB_HMAC_SHA256,
	DPB_HMAC_SHA512,
	DPB_ALGORITHMS
};

/* Lengths in bytes; from `min` in steps to `max`, or `min` alone if `step` is 0. */
struct dpb_range {
	uint16_t min, max, step;
};

/* What a device takes for an algorithm. What an algorithm does not have is all zeros. */
struct dpb_ranges {
	struct dpb_range key, iv, digest, aad;
};

/* What a session is made of. */
struct dpb_cipher {
	uint32_t algorithm; /* enum dpb_algorithm */
	uint32_t decrypts;
	const uint8_t *key;
	uint16_t key_len, iv_len, digest_len, aad_len;
};

/* What a compress queue does. */
struct dpb_codec {
	uint32_t decompresses;
	uint32_t level;
	uint32_t checksum; /* DPB_CHECKSUM_* */
	uint32_t guard;	   /* DPB_GUARD_* */
};

/* What follows an item that is decompressed. Software may call a stream that ends too early a success; that it read on shows
 * in `consumed`. DPDK's driver of ISA-L never returns from such a stream if it lies in several segments, unless more input
 * follows than any state of the decoder can take: a stored block, and the longest codes until the output is full.
 */
#define DPB_GUARD_NONE 0
#define DPB_GUARD_BYTE 1 /* one more byte */
#define DPB_GUARD_LONG 2 /* one more byte, and then zeros for long enough; needs chains */

/* Most bytes of an mbuf's buffer. */
#define DPB_SEGMENT 65535

/* Operations that are alike, on items that lie one behind the other: addresses are the first one's. All that they point to
 * stays until they are done, `iv` only until they are submitted.
 */
struct dpb_run {
	const uint8_t *src;
	uint8_t *dst;
	const uint8_t *iv;
	const uint8_t *aad;
	uint8_t *digest; /* written by encryption and hashes, read by decryption */
	void *session;	 /* of a crypto queue that was bound to none */
	uint64_t user;	 /* the first one's; counts up */
	uint64_t item_step; /* from one `src`, `iv` or `aad` to the next */
	uint64_t slot_step; /* from one `dst` to the next */
	uint64_t digest_step;
	uint32_t src_len;
	uint32_t dst_len;
	uint32_t n;
	uint32_t unused;
};

/* What became of an operation. */
enum dpb_verdict {
	DPB_DONE,
	DPB_MALFORMED, /* the input is not what is read: a wrong tag, no DEFLATE */
	DPB_FULL,      /* the output is too short */
	DPB_FAILED     /* the device's fault, or the caller's; `status` says more */
};

/* Operations that are over and ended alike. */
struct dpb_done {
	uint64_t user; /* the first one's; counts up */
	uint32_t verdict; /* enum dpb_verdict */
	int32_t status;	  /* the device's own code */
	uint32_t consumed;
	uint32_t produced;
	uint32_t checksum;
	uint32_t n;
};

struct dpb_hash;
struct dpb_routes;
struct dpb_pieces;

/* DPDK's own libraries: code for the caller's core, no devices. */

/* The items of a job: `len` bytes each, one behind the other, or from one of `n` + 1 offsets to the next. */
struct dpb_batch {
	const uint8_t *src;
	const uint32_t *offsets; /* NULL: all are as long */
	uint32_t len;
	uint32_t n;
};

/* What comes of each item, one behind the other; numbers little endian. */
struct dpb_sums {
	/* Once, before the first `crc32s`: the fastest that the CPU has. */
	int (*choose_crc)(void);
	/* The Internet checksum, two bytes as they lie in a packet. Items of no more than DPB_SUMMED_MAX bytes. */
	void (*checksums)(const struct dpb_batch *batch, uint8_t *dst);
	void (*crc32s)(const struct dpb_batch *batch, uint8_t *dst);
	void (*crc32cs)(const struct dpb_batch *batch, uint8_t *dst);
	/* Toeplitz hashes of tuples, one behind the other, of up to 36 bytes, whole words; a key of 40 to 60 bytes. NULL: no
	 * memory. */
	struct dpb_hash *(*hash_open)(const uint8_t *key, uint32_t key_len, uint32_t tuple_len);
	void (*hashes)(const struct dpb_hash *hash, const uint8_t *tuples, uint32_t n, uint8_t *dst);
	/* DPDK's own calls: tuples by their addresses, hashes in the CPU's byte order. */
	void (*hash_bulk)(const struct dpb_hash *hash, const uint8_t *const *tuples, uint32_t n, uint32_t *hashes);
	void (*hash_close)(struct dpb_hash *hash);
};

/* rte_raw_cksum adds up 16-bit words in 32 bits. */
#define DPB_SUMMED_MAX 131072

struct dpb_route {
	uint8_t address[16]; /* in network order; of IPv4 the first four */
	uint32_t hop;
	uint32_t bits;
};

enum dpb_table_kind { DPB_LPM, DPB_LPM6, DPB_FIB, DPB_FIB6 };

struct dpb_table {
	uint32_t kind;	    /* enum dpb_table_kind */
	uint32_t hop_bytes; /* of a FIB's entry: 1, 2 or 4; of rte_fib6 2 or 4 */
	uint32_t tbl8s;	    /* tables for eight bits more than the first 24 */
	uint32_t n;
	const struct dpb_route *routes;
};

struct dpb_lookups {
	int (*open)(const struct dpb_table *table, struct dpb_routes **routes);
	/* The hops of `n` addresses in network order: four bytes each, little endian, all ones if there is no route. */
	void (*lookup)(const struct dpb_routes *routes, const uint8_t *addresses, uint32_t n, uint8_t *dst);
	/* DPDK's own calls for `size` addresses each: addresses as it takes them, of IPv4 words in the CPU's order; hops as it
	 * writes them, four bytes each of rte_lpm and rte_lpm6, eight of rte_fib and rte_fib6.
	 */
	void (*bursts)(const struct dpb_routes *routes, const void *addresses, uint32_t n, uint32_t size, void *hops);
	void (*close)(struct dpb_routes *routes);
};

/* An item of packets, and the slot for what comes of it. */
struct dpb_item {
	const uint8_t *src;
	uint8_t *dst;
	uint32_t len;
	uint32_t room; /* from `dst` on */
	uint32_t written;
};

enum dpb_pieces_kind { DPB_GSO, DPB_GSO_DESCRIPTORS, DPB_FRAGMENTS, DPB_REASSEMBLY };

/* The longest packet that is cut, and the longest piece. */
#define DPB_WHOLE_MAX 65407
#define DPB_PIECE_MAX 2048

/* Packets of IPv4 without options, whose lengths agree: one TCP send an item, all with TCP headers of one length; one
 * datagram an item; or fragments, one behind the other. Slots have the room for what comes of them. What is opened is used
 * and closed by the same thread; items and slots stay until it is closed.
 */
struct dpb_packets {
	/* `bytes`: the MSS, the MTU, or nothing. */
	int (*open)(uint32_t kind, uint32_t bytes, struct dpb_item *items, uint32_t n, struct dpb_pieces **pieces);
	/* What a program does for each batch. */
	void (*run)(struct dpb_pieces *pieces);
	/* What came of the last run, into the slots, as far as `run` has not put it there. */
	void (*finish)(struct dpb_pieces *pieces);
	void (*close)(struct dpb_pieces *pieces);
};

struct dpb_flow_table;

/* Packets that a table receives at most. */
#define DPB_RECEIVED_MAX 256
/* The key of a packet: both addresses, both ports, the protocol, zeroes. */
#define DPB_TUPLE_BYTES 16

/* Flows in rte_hash, for one thread. `n` keys lie one behind another, each of the table's length; hashes are those of `hashes`. */
struct dpb_flows {
	int (*open)(uint32_t entries, uint32_t key_len, struct dpb_flow_table **table);
	void (*hashes)(const struct dpb_flow_table *table, const uint8_t *keys, uint32_t n, uint32_t *hashes);
	/* Begins flows, each with a packet of so many bytes; how many there is no room for. */
	uint32_t (*add)(struct dpb_flow_table *table, const uint8_t *keys, const uint32_t *hashes, const uint32_t *lens,
			uint32_t n, uint32_t now);
	uint32_t (*remove)(struct dpb_flow_table *table, const uint8_t *keys, const uint32_t *hashes, uint32_t n);
	/* Counts packets at their flows by bulk calls of `size` keys, 64 at most; how many have one. */
	uint32_t (*count)(struct dpb_flow_table *table, const uint8_t *keys, uint32_t *hashes, const uint32_t *lens, uint32_t n,
			  uint32_t size, uint32_t now);
	/* The same, and begins those that there are not; how many there is no room for. */
	uint32_t (*pass)(struct dpb_flow_table *table, const uint8_t *keys, uint32_t *hashes, const uint32_t *lens, uint32_t n,
			 uint32_t now);
	/* Writes mbufs over frames as a driver does for packets that came, DPB_RECEIVED_MAX at most. Frames are not looked at; they stay until the next call. */
	void (*receive)(struct dpb_flow_table *table, const uint8_t *const *frames, const uint32_t *lens, uint32_t n);
	/* What a program does with what was received, in bursts of this many packets: it asks for packets ahead, reads headers, makes keys of DPB_TUPLE_BYTES,
	 * which the table's must have, hashes them, and goes on as `pass`. How many packets have no flow, or are no TCP or UDP over IPv4.
	 */
	uint32_t (*work)(struct dpb_flow_table *table, uint32_t burst, uint32_t now);
	/* Packets of a flow; 0 if there is none. */
	uint64_t (*packets)(const struct dpb_flow_table *table, const uint8_t *key);
	void (*close)(struct dpb_flow_table *table);
};

/* Compiled for one level of instruction sets. */
struct dpb_libraries {
	const char *level; /* of instruction sets: "base", "avx2", "avx512" */
	const struct dpb_sums *sums;
	const struct dpb_lookups *lookups;
	const struct dpb_packets *packets;
	const struct dpb_flows *flows;
};

struct dpb_crypto_queue;
struct dpb_compress_queue;

/* Packets that came and did not arrive, by the reason. */
struct dpb_port_losses {
	uint64_t queue_full; /* the device's queue was full */
	uint64_t no_memory;  /* there was no mbuf */
	uint64_t too_long;   /* longer than an mbuf */
	uint64_t errors;     /* the device calls them erroneous */
};

struct dpb_dpdk_table {
	uint32_t abi;
	uint32_t size; /* of this table, as built */

	/* Environment. Those that return an int give 0 or more, or a negative error number. */
	const char *(*version)(void);
	int (*eal_init)(int argc, char **argv);
	const char *(*error_text)(int error);
	const char *(*crypto_status)(int status);
	const char *(*compress_status)(int status);
	int (*device_add)(const char *name, const char *arguments);
	void *(*memory_take)(size_t len); /* zeroed, aligned to a cache line */
	void (*memory_give)(void *memory);

	/* Crypto devices. A queue is opened once for a queue pair and stays; it is bound to a session when nothing is in flight. */
	uint32_t (*crypto_devices)(struct dpb_device *devices, uint32_t n);
	int (*crypto_ranges)(uint32_t device, uint32_t algorithm, struct dpb_ranges *ranges);
	int (*crypto_start)(uint32_t device, uint32_t queue_pairs, uint32_t descriptors, uint32_t sessions);
	int (*crypto_session)(uint32_t device, const struct dpb_cipher *cipher, void **session);
	void (*crypto_session_free)(uint32_t device, void *session);
	int (*crypto_open)(uint32_t device, uint32_t queue_pair, uint32_t operations, struct dpb_crypto_queue **queue);
	/* Without a session each run brings its own, of this cipher. */
	void (*crypto_bind)(struct dpb_crypto_queue *queue, const struct dpb_cipher *cipher, void *session);
	/* From the front of `n` runs: how many operations were taken. */
	uint32_t (*crypto_submit)(struct dpb_crypto_queue *queue, const struct dpb_run *runs, uint32_t n);
	/* How many of `done` say what is over; no more than `n`. */
	uint32_t (*crypto_poll)(struct dpb_crypto_queue *queue, struct dpb_done *done, uint32_t n);

	/* Compress devices, the same way. */
	uint32_t (*compress_devices)(struct dpb_device *devices, uint32_t n);
	int (*compress_start)(uint32_t device, uint32_t queue_pairs, uint32_t operations);
	int (*compress_open)(uint32_t device, uint32_t queue_pair, uint32_t operations, uint32_t segments,
			     struct dpb_compress_queue **queue);
	int (*compress_bind)(struct dpb_compress_queue *queue, const struct dpb_codec *codec);
	uint32_t (*compress_submit)(struct dpb_compress_queue *queue, const struct dpb_run *runs, uint32_t n);
	uint32_t (*compress_poll)(struct dpb_compress_queue *queue, struct dpb_done *done, uint32_t n);
	void (*compress_unbind)(struct dpb_compress_queue *queue);

	/* Network devices, with a queue each way. A packet is the address of its first byte; it is the caller's from
	 * `port_take` or `port_receive` until it is sent or given back.
	 */
	uint32_t (*ports)(struct dpb_device *devices, uint32_t n);
	int (*port_start)(uint32_t port, uint32_t packets, uint32_t packet_bytes);
	int (*port_stop)(uint32_t port);
	uint32_t (*port_take)(uint32_t port, void **packets, uint32_t n);
	uint32_t (*port_receive)(uint32_t port, void **packets, uint32_t *lens, uint32_t n);
	uint32_t (*port_send)(uint32_t port, void *const *packets, const uint32_t *lens, uint32_t n);
	void (*packet_give)(void *packet);

	/* The best that the CPU has, the next best, and so on; NULL if there are no more. */
	const struct dpb_libraries *(*libraries)(uint32_t nth);

	/* What a network device has lost of what came, since it was first started. */
	int (*port_losses)(uint32_t port, struct dpb_port_losses *losses);
};

#endif
