/* What a request's body is asked for, read in place: no tree is built. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>

#include "bytes.h"

/* The value of a member of an object, as it stands there; nothing where it is missing. */
struct slice json_member(struct slice object, const char *key);
bool json_is_true(struct slice value);
long json_long(struct slice value, long otherwise);
/* Elements of an array. */
long json_count(struct slice array);
/* Words between blanks, whatever the value is. */
long json_words(struct slice value);
/* The characters of a string without its quotes (escapes stay as they are), cut to the room; ends with 0. */
void json_text(struct slice value, char *out, size_t room);

#endif
