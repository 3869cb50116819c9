/* What truly happened, for /sent and /metrics: when each request came and when each of its events left. */
#ifndef TRUTH_H
#define TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "bytes.h"

/* One request; times are nanoseconds of the wall clock, which the kernel's stamps use too. */
struct truth {
    uint32_t key;        /* zlib's crc32 of its body */
    uint64_t arrived_ns; /* the kernel's stamp of its last segment */
    uint64_t *sent_ns;   /* just before each event was handed to the kernel */
    size_t events, room;
    struct bytes body;
    bool is_running, is_forgotten;
};

struct counters {
    long requests, running, running_max, waiting, tokens, prompt_tokens, cached_tokens;
    double prefill_s;
};

extern struct counters counters;

uint64_t wall_ns(void);
struct truth *truth_begin(struct slice body, uint64_t arrived_ns);
void truth_event(struct truth *of, uint64_t sent_ns);
void truth_end(struct truth *of);
/* How many tokens of a prompt were seen before; it is remembered. */
void truth_prompt(struct slice prompt, long tokens);
void truth_reset(void);
void truth_print(struct bytes *out, struct slice head);
void counters_print(struct bytes *out);

#endif
