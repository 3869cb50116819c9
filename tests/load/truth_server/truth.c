#include "truth.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct counters counters;

static struct truth **known;
static size_t known_size, known_room;
static uint32_t *prompts; /* keys of the prompts seen */
static size_t prompts_size, prompts_room;

uint64_t wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t crc32_of(struct slice of) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t rest = i;
            for (int bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320u ^ (rest >> 1) : rest >> 1;
            table[i] = rest;
        }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < of.size; i++) crc = table[(crc ^ (unsigned char)of.data[i]) & 0xff] ^ (crc >> 8);
    return crc ^ 0xffffffffu;
}

static void *grown(void *array, size_t size, size_t *room, size_t element) {
    if (size < *room) return array;
    *room = 2 * *room + 64;
    return must(realloc(array, *room * element));
}

struct truth *truth_begin(struct slice body, uint64_t arrived_ns) {
    struct truth *made = must(calloc(1, sizeof *made));
    made->key = crc32_of(body);
    made->arrived_ns = arrived_ns;
    made->is_running = true;
    bytes_add(&made->body, body.data, body.size);
    known = grown(known, known_size, &known_room, sizeof *known);
    known[known_size++] = made;
    return made;
}

void truth_event(struct truth *of, uint64_t sent_ns) {
    if (!of->events) counters.prefill_s += (double)(sent_ns - of->arrived_ns) / 1e9;
    of->sent_ns = grown(of->sent_ns, of->events, &of->room, sizeof *of->sent_ns);
    of->sent_ns[of->events++] = sent_ns;
}

static void forget(struct truth *of) {
    free(of->sent_ns);
    bytes_free(&of->body);
    free(of);
}

void truth_end(struct truth *of) {
    of->is_running = false;
    if (of->is_forgotten) forget(of);
}

void truth_prompt(struct slice prompt, long tokens) {
    uint32_t key = crc32_of(prompt);
    counters.prompt_tokens += tokens;
    for (size_t i = 0; i < prompts_size; i++)
        if (prompts[i] == key) {
            counters.cached_tokens += tokens;
            return;
        }
    prompts = grown(prompts, prompts_size, &prompts_room, sizeof *prompts);
    prompts[prompts_size++] = key;
}

void truth_reset(void) {
    for (size_t i = 0; i < known_size; i++)
        if (known[i]->is_running)
            known[i]->is_forgotten = true;
        else
            forget(known[i]);
    known_size = prompts_size = 0;
    counters = (struct counters){.running = counters.running, .waiting = counters.waiting};
}

void truth_print(struct bytes *out, struct slice head) {
    bytes_print(out, "{\"streams\": [");
    for (size_t i = 0; i < known_size; i++) {
        bytes_print(out, "%s{\"key\": %u, \"arrived_ns\": %llu, \"sent_ns\": [", i ? ", " : "", known[i]->key,
                    (unsigned long long)known[i]->arrived_ns);
        for (size_t j = 0; j < known[i]->events; j++)
            bytes_print(out, "%s%llu", j ? "," : "", (unsigned long long)known[i]->sent_ns[j]);
        bytes_print(out, "], \"body\": ");
        bytes_add_json(out, (struct slice){known[i]->body.data, known[i]->body.size});
        bytes_print(out, "}");
    }
    bytes_print(out, "], \"running_max\": %ld, \"head\": ", counters.running_max);
    bytes_add_json(out, head);
    bytes_print(out, "}");
}

void counters_print(struct bytes *out) {
    static const char LABELS[] = "{engine=\"0\",model_name=\"m\"}";
    bytes_print(out, "vllm:num_requests_running%s %ld\n", LABELS, counters.running);
    bytes_print(out, "vllm:num_requests_waiting%s %ld\n", LABELS, counters.waiting);
    bytes_print(out, "vllm:generation_tokens_total%s %ld\n", LABELS, counters.tokens);
    bytes_print(out, "vllm:prompt_tokens_total%s %ld\n", LABELS, counters.prompt_tokens);
    bytes_print(out, "vllm:prefix_cache_queries_total%s %ld\n", LABELS, counters.prompt_tokens);
    bytes_print(out, "vllm:prefix_cache_hits_total%s %ld\n", LABELS, counters.cached_tokens);
    bytes_print(out, "vllm:request_prefill_time_seconds_sum%s %.9f\n", LABELS, counters.prefill_s);
    bytes_print(out, "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"64\"} 1.0\n");
}
