/* One client's socket, the request it carries, and when its next bytes are due. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "answer.h"
#include "bytes.h"
#include "truth.h"

/* Bytes that go out a few at a time. */
struct drip {
    struct bytes data;
    size_t at, step, event_end; /* the event counts as sent with the piece that completes it */
    uint64_t gap_ns;
};

struct connection {
    int fd;
    struct bytes in, out;
    uint64_t stamp_ns; /* arrival of the last segment read */
    bool is_answering, is_waiting, has_slot, is_head_due;
    struct answer answer;
    struct truth *truth;
    struct drip drip;
    uint64_t stream_due_ns, due_ns; /* monotonic; due_ns: the drip's where there is one */
    size_t place;                   /* in the heap, from 1; 0 = not there */
    struct connection *next;        /* of those waiting for a slot */
};

/* schedule.c: an absolute time for each connection; the earliest is at hand. */
uint64_t steady_ns(void);
void schedule(struct connection *of, uint64_t due_ns);
void unschedule(struct connection *of);
struct connection *schedule_first(void);

/* server.c */
extern int listen_fd;

/* output.c: what the kernel does not take at once waits for the socket. */
extern int epoll_fd;
void write_out(struct connection *of, const char *data, size_t size);
void flush(struct connection *of);
void reply(struct connection *of, const char *status, const char *type, struct slice body);

/* stream.c: a stream from its request to its end or fault. */
void stream_request(struct connection *of, struct slice body, bool is_chat, const char *usual);
void stream_step(struct connection *of);
void drop(struct connection *of, bool is_reset);

#endif
