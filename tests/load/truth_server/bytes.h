/* Growing bytes, and slices of them. */
#ifndef BYTES_H
#define BYTES_H

#include <stddef.h>

struct bytes {
    char *data;
    size_t size, room;
};

/* Part of somebody else's bytes; size 0 = nothing. */
struct slice {
    const char *data;
    size_t size;
};

void bytes_add(struct bytes *to, const void *data, size_t size);
void bytes_print(struct bytes *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_add_json(struct bytes *to, struct slice text); /* as a quoted JSON string */
void bytes_drop_front(struct bytes *from, size_t size);
void bytes_free(struct bytes *of);
void *must(void *allocated); /* ends the program where there is no memory */

#endif
