/* A streaming server whose pace and faults are exact, and which tells afterwards when each event truly left.

   truth_server PORT [BEHAVIOUR]     one thread, epoll; an absolute schedule a stream: a late event moves no other.

   What a request gets is written in its model's name (see answer.h); BEHAVIOUR is for names that say nothing.
   GET /sent: every request since the last GET /reset with its true times; /metrics: counters as vLLM names them.
   POST /start_profile and /stop_profile, where the environment names a shell command ON_STOP_PROFILE: it is run by the
   stop that follows a start, and is to write the traces. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"

#define STEPS_AT_ONCE 4

int listen_fd;
static int timer_fd;
/* Stands for standard input: where that is a pipe, the end of whoever started this process ends it. */
static char starter;
static uint64_t armed_ns;
static const char *usual = "";
static struct bytes last_head;

static bool ends_with(struct slice text, const char *end) {
    size_t size = strlen(end);
    return text.size >= size && !memcmp(text.data + text.size - size, end, size);
}

static bool is_profile(struct slice path) {
    return getenv("ON_STOP_PROFILE") && (ends_with(path, "/start_profile") || ends_with(path, "/stop_profile"));
}

static void answer_profile(struct connection *of, struct slice path, bool is_post) {
    static bool is_profiling;
    bool is_stop = ends_with(path, "/stop_profile");
    bool is_done = is_post && (!is_stop || !is_profiling || !system(getenv("ON_STOP_PROFILE")));
    if (is_post) is_profiling = !is_stop;
    const char *status = !is_post ? "405 Method Not Allowed" : is_done ? "200 OK" : "500 Internal Server Error";
    reply(of, status, "application/json", (struct slice){"{}", 2});
}

static void answer_control(struct connection *of, struct slice path) {
    struct bytes out = {0};
    if (ends_with(path, "/sent")) truth_print(&out, (struct slice){last_head.data, last_head.size});
    else if (ends_with(path, "/metrics")) counters_print(&out);
    else if (ends_with(path, "/v1/models")) bytes_print(&out, "{\"data\": [{\"id\": \"m\", \"object\": \"model\"}]}");
    else if (ends_with(path, "/reset")) truth_reset(), bytes_print(&out, "{}");
    else if (ends_with(path, "/health")) bytes_print(&out, "{}");
    bool is_known = out.size > 0;
    reply(of, is_known ? "200 OK" : "404 Not Found", ends_with(path, "/metrics") ? "text/plain" : "application/json",
          is_known ? (struct slice){out.data, out.size} : (struct slice){"{}", 2});
    bytes_free(&out);
}

static void take_request(struct connection *of) {
    char *end = memmem(of->in.data, of->in.size, "\r\n\r\n", 4);
    if (!end || of->is_answering) return; /* no pipelining */
    size_t head_size = (size_t)(end - of->in.data) + 4, length = 0;
    bytes_add(&of->in, "", 1); /* a 0 behind, for the search */
    of->in.size--;
    *end = 0;
    char *field = strcasestr(of->in.data, "\r\ncontent-length:");
    if (field) length = strtoul(field + strlen("\r\ncontent-length:"), NULL, 10);
    *end = '\r';
    if (of->in.size < head_size + length) return;
    struct slice body = {of->in.data + head_size, length}, path = {0};
    char *first = memchr(of->in.data, ' ', head_size), *second = first ? memchr(first + 1, ' ', (size_t)(end - first)) : NULL;
    if (second) path = (struct slice){first + 1, (size_t)(second - first - 1)};
    if (ends_with(path, "completions")) {
        last_head.size = 0;
        bytes_add(&last_head, of->in.data, head_size - 4);
        stream_request(of, body, ends_with(path, "/chat/completions"), usual);
    } else if (is_profile(path)) {
        answer_profile(of, path, of->in.data[0] == 'P');
    } else {
        answer_control(of, path);
    }
    bytes_drop_front(&of->in, head_size + length);
}

/* One read; its stamp is the kernel's, as the client's are. False once the peer is gone. */
static bool read_in(struct connection *of) {
    static char data[1 << 18];
    char control[128];
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t size = recvmsg(of->fd, &message, MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN;
    if (size == 0) return false;
    of->stamp_ns = wall_ns();
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at))
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(at), sizeof stamp);
            of->stamp_ns = (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        }
    bytes_add(&of->in, data, (size_t)size);
    take_request(of);
    return true;
}

static void arm(void) {
    struct connection *first = schedule_first();
    uint64_t due_ns = first ? first->due_ns : 0;
    if (due_ns == armed_ns) return;
    struct itimerspec at = {.it_value = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    armed_ns = due_ns;
}

static void accept_all(void) {
    int fd, on = 1;
    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        struct connection *made = must(calloc(1, sizeof *made));
        made->fd = fd;
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = made};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &wanted);
    }
}

static void open_all(int port) {
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listen_fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    if (bind(listen_fd, (struct sockaddr *)&address, sizeof address) || listen(listen_fd, 4096)) {
        perror("truth server");
        exit(1);
    }
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &listen_fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &wanted);
    wanted.data.ptr = &timer_fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &wanted);
    struct epoll_event hang_up = {.events = 0, .data.ptr = &starter};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &hang_up);
}

static void handle(const struct epoll_event *ready) {
    void *what = ready->data.ptr;
    uint64_t times;
    if (what == &starter) {
        exit(0);
    } else if (what == &listen_fd) {
        accept_all();
    } else if (what == &timer_fd) {
        if (read(timer_fd, &times, sizeof times) > 0) armed_ns = 0;
    } else {
        struct connection *of = what;
        if (ready->events & EPOLLOUT) flush(of);
        if (ready->events & ~(uint32_t)EPOLLOUT && !read_in(of)) drop(of, false);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: truth_server PORT [BEHAVIOUR]\n");
        return 2;
    }
    if (argc > 2) usual = argv[2];
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1);
    open_all(atoi(argv[1]));
    for (;;) {
        struct epoll_event ready[64];
        struct connection *first = schedule_first();
        bool is_due = first && first->due_ns <= steady_ns();
        if (!is_due) arm();
        int count = epoll_wait(epoll_fd, ready, 64, is_due ? 0 : -1);
        for (int i = 0; i < count; i++) handle(&ready[i]);
        /* A burst of due events is broken off now and then: requests that come meanwhile are not to wait for its end. */
        for (int i = 0; i < STEPS_AT_ONCE && (first = schedule_first()) && first->due_ns <= steady_ns(); i++)
            stream_step(first);
    }
}
