/* What a request asks for, and the bytes of its answer. */
#ifndef ANSWER_H
#define ANSWER_H

#include <stdbool.h>

#include "bytes.h"

enum usage { USAGE_ASKED, USAGE_FINAL, USAGE_NONE };
enum fault {
    FAULT_NONE,
    FAULT_HTTP500,
    FAULT_INBAND,
    FAULT_RESET,
    FAULT_CLOSE,
    FAULT_STALL,
    FAULT_SLOWHEAD,
    FAULT_DIE
};

/* Written in the model's name: `itl=10000;per=4;fault=reset;every=3` (times in microseconds). */
struct behaviour {
    long itl_us, ttft_us;
    long per;   /* tokens an event */
    long join;  /* events a write */
    long cut;   /* write so many bytes of an event, then the rest 1 ms later; -1 = byte by byte */
    long every; /* each so many-th request is the faulty one */
    long stop;  /* end after so many tokens, whatever was asked for; 0 = as asked */
    long slots; /* so many streams run at once, the others wait; 0 = all run */
    long compile_us; /* what the first use of a batch size takes more */
    bool is_crlf, is_empty;
    enum usage usage;
    enum fault fault;
};

struct behaviour behaviour_of(const char *name);

struct answer {
    struct behaviour behaviour;
    bool is_chat, is_stream, has_running_usage, has_final_usage, is_faulty, has_ids;
    long prompt_tokens, asked, total, sent;
};

struct answer answer_of(struct slice body, bool is_chat, long number, const char *usual);
/* The next event of tokens; after the last one also usage, [DONE] and the end of the body.
   Returns where in `out` the event itself ends. */
size_t answer_next(struct answer *of, struct bytes *out);
void answer_in_band_error(struct answer *of, struct bytes *out);
void answer_whole(struct answer *of, struct bytes *out); /* the JSON of an answer that is not streamed */

extern const char ANSWER_HEAD[];

#endif
