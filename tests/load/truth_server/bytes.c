#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must(void *allocated) {
    if (!allocated) {
        perror("truth server");
        exit(1);
    }
    return allocated;
}

static void make_room(struct bytes *of, size_t more) {
    if (of->size + more <= of->room) return;
    of->room = 2 * (of->size + more) + 256;
    of->data = must(realloc(of->data, of->room));
}

void bytes_add(struct bytes *to, const void *data, size_t size) {
    make_room(to, size);
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

void bytes_print(struct bytes *to, const char *format, ...) {
    va_list values;
    make_room(to, 512);
    for (;;) {
        size_t left = to->room - to->size;
        va_start(values, format);
        int wanted = vsnprintf(to->data + to->size, left, format, values);
        va_end(values);
        if ((size_t)wanted < left) {
            to->size += (size_t)wanted;
            return;
        }
        make_room(to, (size_t)wanted + 1);
    }
}

void bytes_add_json(struct bytes *to, struct slice text) {
    bytes_add(to, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\' || c < 0x20)
            bytes_print(to, "\\u%04x", c);
        else
            bytes_add(to, &c, 1);
    }
    bytes_add(to, "\"", 1);
}

void bytes_drop_front(struct bytes *from, size_t size) {
    memmove(from->data, from->data + size, from->size - size);
    from->size -= size;
}

void bytes_free(struct bytes *of) {
    free(of->data);
    *of = (struct bytes){0};
}
