/* Searches for regular expressions, for the stand-in. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct rules;

/* Rules as text, `id, /expression/flags` on each line; null if they do not compile, and what is wrong is said. */
struct rules *rules_compile(const char *text, size_t len);
void rules_free(struct rules *);
/* Calls `found` with each rule that matches: where it begins, for each beginning, and how long the shortest match is. */
typedef void (*found_cb)(void *to, uint32_t id, uint32_t start, uint32_t len);
void rules_search(const struct rules *, const uint8_t *bytes, size_t len, found_cb found, void *to);
