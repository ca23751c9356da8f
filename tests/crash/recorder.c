/* Records what a program writes: preloaded, it notes each write, truncation, sync, rename and removal below a folder, in order.

   FLOW_RECORD       the file of the record, appended to
   FLOW_RECORD_ROOT  the folder whose files are a disk to be rebuilt
   FLOW_RECORD_TOLD  the folder whose other files are words to the outside world

   A record is a line "OP INODE OFFSET LENGTH PATH" and LENGTH bytes:
   L a name leads to a file   W written   S set to a size (OFFSET)   F file synced   D folder synced
   R renamed (the bytes are the new path)   U removed   M folder made   T told */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static const char *root, *told;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* A write and its note must not be parted by another thread's. */
#define ALONE(type, call, note) \
    do { \
        pthread_mutex_lock(&turn); \
        type result = call; \
        int error = errno; \
        if (result >= 0) { note; } \
        pthread_mutex_unlock(&turn); \
        errno = error; \
        return result; \
    } while (0)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FLOW_RECORD");
    root = getenv("FLOW_RECORD_ROOT");
    told = getenv("FLOW_RECORD_TOLD");
    if (path && root && told) record = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int below(const char *path, const char *folder) { return folder && strncmp(path, folder, strlen(folder)) == 0; }

static void note(char op, unsigned long inode, long offset, size_t length, const char *path, const void *data) {
    char head[PATH_MAX + 80];
    if (record < 0) return;
    int size = snprintf(head, sizeof head, "%c %lu %ld %zu %s\n", op, inode, offset, length, path);
    struct iovec parts[2] = {{head, size}, {(void *)data, length}};
    if (syscall(SYS_writev, record, parts, 2) != (long)(size + length)) abort();
}

static void note_file(char op, int fd, long offset, size_t length, const void *data) {
    char link[40], path[PATH_MAX];
    struct stat found;
    if (record < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || fstat(fd, &found)) return;
    path[size] = 0;
    if (op == 'F' && S_ISDIR(found.st_mode)) op = 'D';
    if (!below(path, root)) {
        if (op != 'W' || !below(path, told)) return;
        op = 'T';
    }
    note(op, found.st_ino, offset, length, path, data);
}

static void note_name(char op, const char *path, const char *other) {
    char whole[PATH_MAX], whole_other[PATH_MAX];
    char *here = getcwd(NULL, 0);
    snprintf(whole, sizeof whole, "%s%s%s", *path == '/' ? "" : here, *path == '/' ? "" : "/", path);
    snprintf(whole_other, sizeof whole_other, "%s%s%s", *other == '/' ? "" : here, *other == '/' ? "" : "/", other);
    free(here);
    if (below(whole, root)) note(op, 0, 0, *other ? strlen(whole_other) : 0, whole, whole_other);
}

static void opened(int fd, int flags) {
    if (flags & O_CREAT) note_file('L', fd, 0, 0, "");
    if (flags & O_TRUNC) note_file('S', fd, 0, 0, "");
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        ALONE(int, REAL(name)(path, flags, mode), opened(result, flags)); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        ALONE(int, REAL(name)(folder, path, flags, mode), opened(result, flags)); \
    }
OPENAT(openat)
OPENAT(openat64)

static long place(int fd) {
    struct stat found;
    return fcntl(fd, F_GETFL) & O_APPEND ? (fstat(fd, &found), (long)found.st_size) : lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t length) {
    long offset = place(fd);
    ALONE(ssize_t, REAL(write)(fd, data, length), note_file('W', fd, offset, result, data));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    long offset = place(fd);
    ALONE(ssize_t, REAL(writev)(fd, parts, count), if (count == 1) note_file('W', fd, offset, result, parts->iov_base));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    ALONE(ssize_t, REAL(pwrite)(fd, data, length, offset), note_file('W', fd, offset, result, data));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    ALONE(ssize_t, REAL(pwrite64)(fd, data, length, offset), note_file('W', fd, offset, result, data));
}

int ftruncate(int fd, off_t size) { ALONE(int, REAL(ftruncate)(fd, size), note_file('S', fd, size, 0, "")); }
int ftruncate64(int fd, off64_t size) { ALONE(int, REAL(ftruncate64)(fd, size), note_file('S', fd, size, 0, "")); }
int fsync(int fd) { ALONE(int, REAL(fsync)(fd), note_file('F', fd, 0, 0, "")); }
int fdatasync(int fd) { ALONE(int, REAL(fdatasync)(fd), note_file('F', fd, 0, 0, "")); }
int unlink(const char *path) { ALONE(int, REAL(unlink)(path), note_name('U', path, "")); }
int mkdir(const char *path, mode_t mode) { ALONE(int, REAL(mkdir)(path, mode), note_name('M', path, "")); }
int rename(const char *from, const char *to) { ALONE(int, REAL(rename)(from, to), note_name('R', from, to)); }
