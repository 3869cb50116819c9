#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "connection.h"

int epoll_fd;

static void watch(struct connection *of, uint32_t events) {
    struct epoll_event wanted = {.events = events, .data.ptr = of};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, of->fd, &wanted);
}

void flush(struct connection *of) {
    ssize_t gone = send(of->fd, of->out.data, of->out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (gone < 0 && errno != EAGAIN) of->out.size = 0; /* the peer is gone; reading says so */
    if (gone > 0) bytes_drop_front(&of->out, (size_t)gone);
    watch(of, of->out.size ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void write_out(struct connection *of, const char *data, size_t size) {
    ssize_t gone = of->out.size ? 0 : send(of->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (gone < 0 && errno != EAGAIN) return;
    if (gone < 0) gone = 0;
    if ((size_t)gone == size) return;
    bytes_add(&of->out, data + gone, size - (size_t)gone);
    watch(of, EPOLLIN | EPOLLOUT);
}

void reply(struct connection *of, const char *status, const char *type, struct slice body) {
    struct bytes out = {0};
    bytes_print(&out, "HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n", status, type, body.size);
    bytes_add(&out, body.data, body.size);
    write_out(of, out.data, out.size);
    bytes_free(&out);
}
