#include "json.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && is_blank(*at)) at++;
    return at;
}

static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* One value of any kind; brackets are counted, strings are passed over. */
static const char *skip_value(const char *at, const char *end) {
    if (at < end && *at == '"') return skip_string(at, end);
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') {
            if (depth == 0) return at;
            if (--depth == 0) return at + 1;
        }
        if (depth == 0 && (*at == ',' || is_blank(*at))) return at;
        at++;
    }
    return end;
}

struct slice json_member(struct slice object, const char *key) {
    const char *end = object.data + object.size, *at = skip_blanks(object.data, end);
    size_t length = strlen(key);
    if (at == end || *at != '{') return (struct slice){0};
    for (at = skip_blanks(at + 1, end); at < end && *at == '"'; at = skip_blanks(at + 1, end)) {
        const char *name = at + 1, *after = skip_string(at, end);
        bool is_it = (size_t)(after - name) == length + 1 && memcmp(name, key, length) == 0;
        at = skip_blanks(after, end);
        if (at == end || *at != ':') break;
        const char *value = skip_blanks(at + 1, end);
        at = skip_value(value, end);
        if (is_it) return (struct slice){value, (size_t)(at - value)};
        at = skip_blanks(at, end);
        if (at == end || *at != ',') break;
    }
    return (struct slice){0};
}

bool json_is_true(struct slice value) { return value.size == 4 && memcmp(value.data, "true", 4) == 0; }

long json_long(struct slice value, long otherwise) {
    char *end;
    if (!value.size) return otherwise;
    long number = strtol(value.data, &end, 10);
    return end == value.data ? otherwise : number;
}

long json_count(struct slice array) {
    const char *at = array.data, *end = at + array.size;
    long count = 0;
    if (!array.size || *at != '[') return 0;
    for (at = skip_blanks(at + 1, end); at < end && *at != ']'; count++) {
        at = skip_blanks(skip_value(at, end), end);
        if (at < end && *at == ',') at = skip_blanks(at + 1, end);
    }
    return count;
}

long json_words(struct slice value) {
    long count = 0;
    for (size_t i = 0; i < value.size; i++)
        if (!is_blank(value.data[i]) && (i + 1 == value.size || is_blank(value.data[i + 1]))) count++;
    return count;
}

void json_text(struct slice value, char *out, size_t room) {
    size_t size = value.size > 2 && *value.data == '"' ? value.size - 2 : 0;
    if (size >= room) size = room - 1;
    if (size) memcpy(out, value.data + 1, size);
    out[size] = 0;
}
