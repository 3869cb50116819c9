#include <stdlib.h>
#include <time.h>

#include "connection.h"

static struct connection **heap; /* by due_ns, from index 1 */
static size_t heap_size, heap_room;

uint64_t steady_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put(struct connection *of, size_t place) {
    heap[place] = of;
    of->place = place;
}

static void sift(struct connection *of, size_t place) {
    for (; place > 1 && heap[place / 2]->due_ns > of->due_ns; place /= 2) put(heap[place / 2], place);
    for (size_t child; (child = 2 * place) <= heap_size; place = child) {
        if (child < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= of->due_ns) break;
        put(heap[child], place);
    }
    put(of, place);
}

void unschedule(struct connection *of) {
    size_t place = of->place;
    if (!place) return;
    struct connection *last = heap[heap_size--];
    if (last != of) sift(last, place);
    of->place = 0;
}

void schedule(struct connection *of, uint64_t due_ns) {
    unschedule(of);
    of->due_ns = due_ns;
    if (heap_size + 2 > heap_room) heap = must(realloc(heap, (heap_room = 2 * heap_room + 64) * sizeof *heap));
    sift(of, ++heap_size);
}

struct connection *schedule_first(void) { return heap_size ? heap[1] : NULL; }
