#include "answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

const char ANSWER_HEAD[] =
    "HTTP/1.1 200 OK\r\nserver: truth\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    "transfer-encoding: chunked\r\n\r\n";

static const char *const FAULTS[] = {"", "http500", "inband", "reset", "close", "stall", "slowhead", "die"};

static void set(struct behaviour *of, const char *name, const char *value) {
    long number = atol(value);
    if (!strcmp(name, "itl")) of->itl_us = number;
    if (!strcmp(name, "ttft")) of->ttft_us = number;
    if (!strcmp(name, "per")) of->per = number;
    if (!strcmp(name, "join")) of->join = number;
    if (!strcmp(name, "cut")) of->cut = number;
    if (!strcmp(name, "every")) of->every = number;
    if (!strcmp(name, "stop")) of->stop = number;
    if (!strcmp(name, "slots")) of->slots = number;
    if (!strcmp(name, "compile")) of->compile_us = number;
    if (!strcmp(name, "crlf")) of->is_crlf = true;
    if (!strcmp(name, "empty")) of->is_empty = true;
    if (!strcmp(name, "usage") && !strcmp(value, "final")) of->usage = USAGE_FINAL;
    if (!strcmp(name, "usage") && !strcmp(value, "none")) of->usage = USAGE_NONE;
    if (!strcmp(name, "fault"))
        for (size_t i = 1; i < sizeof FAULTS / sizeof *FAULTS; i++)
            if (!strcmp(value, FAULTS[i])) of->fault = (enum fault)i;
}

struct behaviour behaviour_of(const char *name) {
    struct behaviour found = {.per = 1, .join = 1, .every = 1};
    char copy[256], *rest = copy, *part;
    snprintf(copy, sizeof copy, "%s", name);
    while ((part = strsep(&rest, ";"))) {
        char *value = strchr(part, '=');
        if (!value) continue;
        *value = 0;
        set(&found, part, value + 1);
    }
    return found;
}

struct answer answer_of(struct slice body, bool is_chat, long number, const char *usual) {
    char model[256];
    json_text(json_member(body, "model"), model, sizeof model);
    struct answer made = {.behaviour = behaviour_of(strchr(model, '=') ? model : usual), .is_chat = is_chat};
    struct slice options = json_member(body, "stream_options"), longest = json_member(body, "max_completion_tokens");
    made.asked = json_long(longest.size ? longest : json_member(body, "max_tokens"), 16);
    made.total = made.behaviour.stop ? made.behaviour.stop : made.asked;
    made.is_stream = json_is_true(json_member(body, "stream"));
    enum usage usage = made.behaviour.usage;
    made.has_running_usage = usage == USAGE_ASKED && json_is_true(json_member(options, "continuous_usage_stats"));
    made.has_final_usage = usage != USAGE_NONE && json_is_true(json_member(options, "include_usage"));
    made.has_ids = json_is_true(json_member(body, "return_token_ids"));
    struct slice prompt = json_member(body, is_chat ? "messages" : "prompt");
    made.prompt_tokens = prompt.size && *prompt.data == '[' && !is_chat ? json_count(prompt) : json_words(prompt);
    made.is_faulty = made.behaviour.fault && number % made.behaviour.every == 0;
    return made;
}

static void pack(const struct answer *of, struct bytes *out, struct slice data) {
    const char *end = of->behaviour.is_crlf ? "\r\n" : "\n";
    size_t size = sizeof "data: " - 1 + data.size + 2 * strlen(end);
    bytes_print(out, "%zx\r\ndata: %.*s%s%s\r\n", size, (int)data.size, data.data, end, end);
}

static void print_usage(const struct answer *of, struct bytes *out) {
    bytes_print(out, "\"usage\": {\"prompt_tokens\": %ld, \"total_tokens\": %ld, \"completion_tokens\": %ld}",
                of->prompt_tokens, of->prompt_tokens + of->sent, of->sent);
}

/* One event; `tokens` of them end at `sent`. Token i is the word w<i mod 97>, its id i mod 97. */
static void add_event(const struct answer *of, struct bytes *out, long tokens, const char *finish, bool is_role) {
    struct bytes data = {0};
    bytes_print(&data, "{\"id\": \"x\", \"object\": \"%s\", \"model\": \"m\", \"choices\": [{\"index\": 0, ",
                of->is_chat ? "chat.completion.chunk" : "text_completion");
    const char *role = is_role ? "\"role\": \"assistant\", " : "";
    bytes_print(&data, of->is_chat ? "\"delta\": {%s\"content\": \"" : "%s\"text\": \"", role);
    for (long i = of->sent - tokens; i < of->sent && !of->behaviour.is_empty; i++) bytes_print(&data, " w%ld", i % 97);
    bytes_print(&data, of->is_chat ? "\"}" : "\"");
    if (of->has_ids) {
        bytes_print(&data, ", \"token_ids\": [");
        for (long i = 0; i < tokens; i++) bytes_print(&data, i ? ", %ld" : "%ld", (of->sent - tokens + i) % 97);
        bytes_print(&data, "]");
    }
    bytes_print(&data, ", \"finish_reason\": %s}]", finish);
    if (of->has_running_usage) {
        bytes_print(&data, ", ");
        print_usage(of, &data);
    }
    bytes_print(&data, "}");
    pack(of, out, (struct slice){data.data, data.size});
    bytes_free(&data);
}

size_t answer_next(struct answer *of, struct bytes *out) {
    if (of->is_chat && of->sent == 0) add_event(of, out, 0, "null", true);
    long tokens = of->total - of->sent < of->behaviour.per ? of->total - of->sent : of->behaviour.per;
    of->sent += tokens;
    bool is_last = of->sent >= of->total;
    add_event(of, out, tokens, !is_last ? "null" : of->total == of->asked ? "\"length\"" : "\"stop\"", false);
    size_t end = out->size;
    if (is_last && of->has_final_usage) {
        struct bytes data = {0};
        bytes_print(&data, "{\"id\": \"x\", \"choices\": [], ");
        print_usage(of, &data);
        bytes_print(&data, "}");
        pack(of, out, (struct slice){data.data, data.size});
        bytes_free(&data);
    }
    if (is_last) {
        pack(of, out, (struct slice){"[DONE]", 6});
        bytes_add(out, "0\r\n\r\n", 5);
    }
    return end;
}

void answer_in_band_error(struct answer *of, struct bytes *out) {
    static const char ERROR[] = "{\"error\": {\"message\": \"engine died\", \"code\": 500}}";
    pack(of, out, (struct slice){ERROR, sizeof ERROR - 1});
    pack(of, out, (struct slice){"[DONE]", 6});
    bytes_add(out, "0\r\n\r\n", 5);
}

void answer_whole(struct answer *of, struct bytes *out) {
    of->sent = of->total;
    bytes_print(out, "{\"id\": \"x\", \"object\": \"%s\", \"model\": \"m\", \"choices\": [{\"index\": 0, %s",
                of->is_chat ? "chat.completion" : "text_completion",
                of->is_chat ? "\"message\": {\"role\": \"assistant\", \"content\": \"" : "\"text\": \"");
    for (long i = 0; i < of->total; i++) bytes_print(out, " w%ld", i % 97);
    bytes_print(out, of->is_chat ? "\"}, \"finish_reason\": \"length\"}], " : "\", \"finish_reason\": \"length\"}], ");
    print_usage(of, out);
    bytes_print(out, "}");
}
