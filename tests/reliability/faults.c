/* Counts the calls by which a process changes a campaign folder, and makes one of them fail.
 *
 * Preloaded into a runner or a measurement script. What to do stands in a small shared file, so that a parent
 * can arm it after a fork and read the count afterwards: layout in faults.py, which must agree.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 0, KILL = 1, TORN = 2, ERROR_ONCE = 3, ERROR_FROM = 4, SHORT_ONCE = 5 };
enum { RUNNER = 1, SCRIPT = 2 };

struct control {
    int64_t count;      /* calls seen so far */
    int64_t at;         /* number of the call to spoil, from 1 */
    int64_t clock_at;   /* from this call on the wall clock shows an hour less; 0 = never */
    int32_t mode;
    int32_t error;
    int32_t roles;
    int32_t fired;
    int32_t flock_error; /* what flock() says; -1 = it lies: everyone gets the lock */
    int32_t unused;
    char root[1024];
    char trace[1024];   /* where each call is written down; empty = nowhere */
};

static struct control *control;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void map_control(const char *path) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED) control = at;
}

/* Called by a measurement script that was forked from a runner. */
void fault_become_script(void) {
    const char *path = getenv("FAULT_CONTROL");
    control = NULL;
    if (path) map_control(path);
    if (control && !(control->roles & SCRIPT)) control = NULL;
}

/* Called by a forked runner. */
void fault_arm(const char *path) {
    map_control(path);
    if (control && !(control->roles & RUNNER)) control = NULL;
}

__attribute__((constructor)) static void arm_script(void) {
    const char *path = getenv("FAULT_CONTROL");
    if (!path) return;
    char line[4096];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t size = syscall(SYS_read, fd, line, sizeof line - 1);
    syscall(SYS_close, fd);
    int is_script = 0;
    for (ssize_t i = 0; i + 17 < size; i++) is_script |= memcmp(line + i, "campaign.measure.", 17) == 0;
    if (!is_script) return;
    map_control(path);
    if (control && !(control->roles & SCRIPT)) control = NULL;
}

static int path_of(int fd, char *out, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, size - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return 1;
}

static int ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static int is_ours(const char *path) {
    size_t length = strlen(control->root);
    if (strncmp(path, control->root, length) != 0 || (path[length] != '/' && path[length] != 0)) return 0;
    /* Logs are for people; the lock file is the operating system's business. */
    return !ends_with(path, "/log.txt") && !ends_with(path, "/.lock") && !strstr(path, "__pycache__");
}

static int resolved(int folder, const char *path, char *out) {
    if (path[0] == '/') { snprintf(out, PATH_MAX, "%s", path); return 1; }
    char base[PATH_MAX];
    if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
    else if (!path_of(folder, base, sizeof base)) return 0;
    return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

/* Returns 0 to go on, -1 to fail with errno set, 1 to write half only, 2 to write half and die. */
static int visit(const char *what, const char *path, int can_fail, int is_write) {
    int64_t number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (control->trace[0]) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%s %s\n", what, path + strlen(control->root));
        int fd = (int)syscall(SYS_openat, AT_FDCWD, control->trace, O_WRONLY | O_APPEND | O_CREAT, 0644);
        syscall(SYS_write, fd, line, length);
        syscall(SYS_close, fd);
    }
    int is_now = control->at && number == control->at;
    if (control->mode == ERROR_FROM && control->at && number >= control->at && can_fail) {
        control->fired++;
        errno = control->error;
        return -1;
    }
    if (!is_now) return 0;
    switch (control->mode) {
    case KILL: control->fired++; syscall(SYS_kill, getpid(), SIGKILL); pause(); break;
    case TORN:
        control->fired++;
        if (is_write) return 2;
        syscall(SYS_kill, getpid(), SIGKILL); pause(); break;
    case ERROR_ONCE: if (can_fail) { control->fired++; errno = control->error; return -1; } break;
    case SHORT_ONCE: if (is_write) { control->fired++; return 1; } break;
    }
    return 0;
}

static int visit_path(const char *what, int folder, const char *path, int can_fail) {
    char whole[PATH_MAX];
    if (!control || !resolved(folder, path, whole) || !is_ours(whole)) return 0;
    return visit(what, whole, can_fail, 0);
}

static int visit_fd(const char *what, int fd, int can_fail, int is_write) {
    char whole[PATH_MAX];
    if (!control || !path_of(fd, whole, sizeof whole) || !is_ours(whole)) return 0;
    return visit(what, whole, can_fail, is_write);
}

static int may_change(int flags) { return flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC); }

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        mode_t mode = 0;                                                                  \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, mode_t); va_end(a); } \
        if (control && may_change(flags) && visit_path("open", AT_FDCWD, path, 1) < 0) return -1; \
        return REAL(name)(path, flags, mode);                                             \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                      \
    int name(int folder, const char *path, int flags, ...) {                              \
        mode_t mode = 0;                                                                  \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, mode_t); va_end(a); } \
        if (control && may_change(flags) && visit_path("open", folder, path, 1) < 0) return -1; \
        return REAL(name)(folder, path, flags, mode);                                     \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    int verdict = control && fd > 2 ? visit_fd("write", fd, 1, size > 1) : 0;
    if (verdict < 0) return -1;
    if (verdict == 0) return syscall(SYS_write, fd, data, size);
    ssize_t done = syscall(SYS_write, fd, data, size / 2);
    if (verdict == 2) { syscall(SYS_kill, getpid(), SIGKILL); pause(); }
    return done;
}

int fsync(int fd) { return visit_fd("fsync", fd, 1, 0) < 0 ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return visit_fd("fsync", fd, 1, 0) < 0 ? -1 : (int)syscall(SYS_fdatasync, fd); }
int ftruncate(int fd, off_t size) {
    return visit_fd("truncate", fd, 1, 0) < 0 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) {
    return visit_fd("truncate", fd, 1, 0) < 0 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int fchmod(int fd, mode_t mode) { return visit_fd("chmod", fd, 1, 0) < 0 ? -1 : (int)syscall(SYS_fchmod, fd, mode); }
int rename(const char *from, const char *to) {
    if (visit_path("rename", AT_FDCWD, to, 1) < 0) return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (visit_path("rename", to_folder, to, 1) < 0) return -1;
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}
int unlink(const char *path) {
    return visit_path("unlink", AT_FDCWD, path, 1) < 0 ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char *path, int flags) {
    return visit_path("unlink", folder, path, 1) < 0 ? -1 : (int)syscall(SYS_unlinkat, folder, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    return visit_path("mkdir", AT_FDCWD, path, 1) < 0 ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    return visit_path("mkdir", folder, path, 1) < 0 ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int flock(int fd, int operation) {
    char path[PATH_MAX];
    if (control && control->flock_error && path_of(fd, path, sizeof path) &&
        strncmp(path, control->root, strlen(control->root)) == 0) {
        if (control->flock_error < 0) return 0;
        errno = control->flock_error;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int64_t backwards_s(void) {
    return control && control->clock_at && control->count >= control->clock_at ? 3600 : 0;
}
int clock_gettime(clockid_t clock, struct timespec *out) {
    int code = REAL(clock_gettime)(clock, out);
    if (code == 0 && clock == CLOCK_REALTIME) out->tv_sec -= backwards_s();
    return code;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
