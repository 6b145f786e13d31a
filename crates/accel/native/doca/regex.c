/* Searches for regular expressions, by PCRE2. */
#include "regex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_PCRE2
#include <pcre2.h>

struct rule {
    uint32_t id;
    pcre2_code *code;
};

struct rules {
    struct rule *rules;
    size_t count;
};

#define WORKSPACE (1 << 16)

static int wrong(const char *what, const char *line, size_t len)
{
    fprintf(stderr, "stand-in: misuse: %s: %.*s\n", what, (int)len, line);
    return 0;
}

/* A rule of `id, /expression/flags`. In the expression every slash but the last has a backslash in front. */
static int compile(const char *line, size_t len, struct rule *rule)
{
    const char *at = line, *end = line + len;
    /* What PCRE2 makes possessive is taken as far as it goes, and is not the shortest any more. */
    uint32_t options = PCRE2_NEVER_UTF | PCRE2_NO_AUTO_POSSESS;
    unsigned long long id = 0;
    int error, has_id = 0;
    PCRE2_SIZE offset;
    for (; at < end && isdigit((unsigned char)*at) && id <= UINT32_MAX; at++, has_id = 1)
        id = id * 10 + (unsigned long long)(*at - '0');
    if (!has_id || id > UINT32_MAX || end - at < 4 || memcmp(at, ", /", 3) != 0)
        return wrong("no rule", line, len);
    for (at += 3; end > at && end[-1] != '/'; end--)
        switch (end[-1]) {
        case 'i': options |= PCRE2_CASELESS; break;
        case 'm': options |= PCRE2_MULTILINE; break;
        case 's': options |= PCRE2_DOTALL; break;
        case 'x': options |= PCRE2_EXTENDED; break;
        default: return wrong("a flag that is none", line, len);
        }
    if (--end <= at)
        return wrong("no expression", line, len);
    for (const char *slash = at; slash < end; slash++) {
        if (*slash == '/')
            return wrong("a slash without a backslash", line, len);
        slash += *slash == '\\';
    }
    rule->id = (uint32_t)id;
    rule->code = pcre2_compile((PCRE2_SPTR)at, (PCRE2_SIZE)(end - at), options, &error, &offset, NULL);
    if (!rule->code)
        return wrong("a rule that does not compile", line, len);
    /* Where there is no compiler for this machine, PCRE2 interprets. */
    pcre2_jit_compile(rule->code, PCRE2_JIT_COMPLETE);
    return 1;
}

struct rules *rules_compile(const char *text, size_t len)
{
    struct rules *rules = calloc(1, sizeof *rules);
    const char *end = text + len;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((newline ? newline : end) - text);
        if (line > 0 && *text != '#') {
            rules->rules = realloc(rules->rules, (rules->count + 1) * sizeof *rules->rules);
            if (!compile(text, line, &rules->rules[rules->count])) {
                rules_free(rules);
                return NULL;
            }
            rules->count++;
        }
        text += line + 1;
    }
    return rules;
}

void rules_free(struct rules *rules)
{
    for (size_t i = 0; rules && i < rules->count; i++)
        pcre2_code_free(rules->rules[i].code);
    if (rules)
        free(rules->rules);
    free(rules);
}

/* Where the next match at or behind `start` begins and where the shortest one there ends; whether there is one. The quick matcher
 * finds the beginning, the one that goes all ways at once the end. */
static int next_match(const struct rule *rule, const uint8_t *bytes, size_t len, size_t start, pcre2_match_data *data)
{
    static _Thread_local int workspace[WORKSPACE];
    int result = pcre2_match(rule->code, bytes, len, start, 0, data, NULL);
    if (result >= 0)
        result = pcre2_dfa_match(rule->code, bytes, len, pcre2_get_ovector_pointer(data)[0], PCRE2_ANCHORED | PCRE2_DFA_SHORTEST, data,
                                 NULL, workspace, WORKSPACE);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        fprintf(stderr, "stand-in: rule %u: PCRE2 says %d\n", rule->id, result);
    return result >= 0;
}

void rules_search(const struct rules *rules, const uint8_t *bytes, size_t len, found_cb found, void *to)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    for (const struct rule *rule = rules->rules; rule < rules->rules + rules->count; rule++)
        for (size_t start = 0; next_match(rule, bytes, len, start, data); start = ends[0] + 1)
            found(to, rule->id, (uint32_t)ends[0], (uint32_t)(ends[1] - ends[0]));
    pcre2_match_data_free(data);
}

#else
struct rules *rules_compile(const char *text, size_t len)
{
    (void)text;
    (void)len;
    return NULL;
}
void rules_free(struct rules *rules) { (void)rules; }
void rules_search(const struct rules *rules, const uint8_t *bytes, size_t len, found_cb found, void *to)
{
    (void)rules;
    (void)bytes;
    (void)len;
    (void)found;
    (void)to;
}
#endif
