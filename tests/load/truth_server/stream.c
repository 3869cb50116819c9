#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "json.h"

static struct connection *waiting_first, *waiting_last; /* those without a slot */
static long largest_batch;                              /* that ever ran: its kernels are there */

static void begin(struct connection *of);

static void finish(struct connection *of) {
    if (of->truth) truth_end(of->truth);
    of->truth = NULL;
    of->is_answering = false;
    unschedule(of);
    if (!of->has_slot) return;
    of->has_slot = false;
    counters.running--;
    if (waiting_first) {
        struct connection *next = waiting_first;
        if (!(waiting_first = next->next)) waiting_last = NULL;
        next->next = NULL;
        next->is_waiting = false;
        counters.waiting--;
        begin(next);
    }
}

static void leave_queue(struct connection *of) {
    struct connection **link = &waiting_first, *before = NULL;
    for (; *link && *link != of; link = &(*link)->next) before = *link;
    if (!*link) return;
    *link = of->next;
    if (waiting_last == of) waiting_last = before;
    of->is_waiting = false;
    counters.waiting--;
}

void drop(struct connection *of, bool is_reset) {
    if (of->is_waiting) leave_queue(of);
    finish(of);
    struct linger now = {1, 0};
    if (is_reset) setsockopt(of->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(of->fd);
    bytes_free(&of->in);
    bytes_free(&of->out);
    bytes_free(&of->drip.data);
    free(of);
}

/* The next piece of a drip; true while there is more. */
static bool drip_on(struct connection *of) {
    struct drip *drip = &of->drip;
    size_t left = drip->data.size - drip->at, size = drip->step < left ? drip->step : left;
    if (drip->at < drip->event_end && drip->at + size >= drip->event_end) truth_event(of->truth, wall_ns());
    write_out(of, drip->data.data + drip->at, size);
    drip->at += size;
    if (drip->at < drip->data.size) {
        if (of->answer.behaviour.cut > 0) drip->step = left; /* cut once, then the rest */
        schedule(of, steady_ns() + drip->gap_ns);
        return true;
    }
    bytes_free(&drip->data);
    *drip = (struct drip){0};
    return false;
}

static void go_on(struct connection *of) {
    if (of->answer.sent >= of->answer.total) {
        finish(of);
        return;
    }
    of->stream_due_ns += (uint64_t)of->answer.behaviour.itl_us * 1000u;
    schedule(of, of->stream_due_ns);
}

/* The stream's fault has come: returns whether that ends the step. */
static bool fail(struct connection *of) {
    struct bytes out = {0};
    switch (of->answer.behaviour.fault) {
    case FAULT_DIE:
        close(listen_fd); /* first: nobody is to connect to a server that is dying */
        exit(0);
    case FAULT_RESET:
    case FAULT_CLOSE:
        drop(of, of->answer.behaviour.fault == FAULT_RESET);
        return true;
    case FAULT_INBAND:
        answer_in_band_error(&of->answer, &out);
        write_out(of, out.data, out.size);
        bytes_free(&out);
        finish(of);
        return true;
    case FAULT_STALL:
        unschedule(of);
        return true;
    default:
        return false;
    }
}

void stream_step(struct connection *of) {
    struct answer *answer = &of->answer;
    const struct behaviour *behaviour = &answer->behaviour;
    if (of->drip.data.size) {
        bool was_head = !of->drip.event_end;
        if (drip_on(of)) return;
        if (was_head) schedule(of, of->stream_due_ns = steady_ns() + (uint64_t)behaviour->ttft_us * 1000u);
        else go_on(of);
        return;
    }
    if (answer->is_faulty && answer->sent >= answer->total / 2 && fail(of)) return;
    struct bytes out = {0};
    long before = answer->sent, events = 0;
    size_t end = 0;
    if (of->is_head_due) bytes_add(&out, ANSWER_HEAD, strlen(ANSWER_HEAD));
    of->is_head_due = false;
    for (; events < behaviour->join && answer->sent < answer->total; events++) end = answer_next(answer, &out);
    counters.tokens += answer->sent - before;
    if (behaviour->cut && (behaviour->cut < 0 || (size_t)behaviour->cut < out.size)) {
        size_t first = behaviour->cut < 0 ? 1 : (size_t)behaviour->cut;
        of->drip = (struct drip){out, 0, first, end, behaviour->cut < 0 ? 20000 : 1000000};
        if (!drip_on(of)) go_on(of);
        return;
    }
    uint64_t now_ns = wall_ns();
    for (; events; events--) truth_event(of->truth, now_ns);
    write_out(of, out.data, out.size);
    bytes_free(&out);
    go_on(of);
}

static void begin(struct connection *of) {
    of->has_slot = true;
    if (++counters.running > counters.running_max) counters.running_max = counters.running;
    long wait_us = of->answer.behaviour.ttft_us;
    if (counters.running > largest_batch) {
        largest_batch = counters.running;
        wait_us += of->answer.behaviour.compile_us;
    }
    of->stream_due_ns = steady_ns() + (uint64_t)wait_us * 1000u;
    if (of->answer.is_faulty && of->answer.behaviour.fault == FAULT_SLOWHEAD) {
        bytes_add(&of->drip.data, ANSWER_HEAD, strlen(ANSWER_HEAD));
        of->drip.step = of->drip.data.size / 4 + 1;
        of->drip.gap_ns = 50000000;
        drip_on(of);
        return;
    }
    /* With the first event in the same write where both are due: a burst of requests then waits half as long. */
    of->is_head_due = !wait_us && !of->answer.is_faulty && !of->answer.behaviour.cut;
    if (!of->is_head_due) write_out(of, ANSWER_HEAD, strlen(ANSWER_HEAD));
    if (wait_us) schedule(of, of->stream_due_ns);
    else stream_step(of);
}

void stream_request(struct connection *of, struct slice body, bool is_chat, const char *usual) {
    of->answer = answer_of(body, is_chat, ++counters.requests, usual);
    of->truth = truth_begin(body, of->stamp_ns);
    of->is_answering = true;
    truth_prompt(json_member(body, is_chat ? "messages" : "prompt"), of->answer.prompt_tokens);
    if (of->answer.is_faulty && of->answer.behaviour.fault == FAULT_HTTP500) {
        static const char BOOM[] = "{\"error\": {\"message\": \"boom\"}}";
        reply(of, "500 Internal Server Error", "application/json", (struct slice){BOOM, sizeof BOOM - 1});
        finish(of);
    } else if (!of->answer.is_stream) {
        struct bytes out = {0};
        answer_whole(&of->answer, &out);
        counters.tokens += of->answer.sent;
        reply(of, "200 OK", "application/json", (struct slice){out.data, out.size});
        bytes_free(&out);
        finish(of);
    } else if (of->answer.behaviour.slots && counters.running >= of->answer.behaviour.slots) {
        of->is_waiting = true;
        counters.waiting++;
        if (waiting_last) waiting_last->next = of;
        else waiting_first = of;
        waiting_last = of;
    } else {
        begin(of);
    }
}
