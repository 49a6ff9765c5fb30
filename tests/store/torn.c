/* A disk that does its writes by halves, or gives nothing back. Preloaded into a process; every other file is left alone.
 *
 * TORN_NAME  part of the path of the files that are hurt
 * TORN_AT    at this write only half of the bytes are written
 * TORN_EVERY and again after every so many writes; 0: once
 * TORN_READ  set: no byte from here on can be read
 * TORN_EXIT  set: the process ends there, as a machine does that loses its power in the middle of a write
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t (*read_call)(int, void *, size_t);
typedef ssize_t (*pread_call)(int, void *, size_t, off_t);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);

static long number(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

static int is_hurt(int fd) {
    char link[64], path[4096];
    const char *wanted = getenv("TORN_NAME");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!wanted || length < 0) return 0;
    path[length] = 0;
    return strstr(path, wanted) != NULL;
}

static size_t portion(int fd, size_t size) {
    static long count;
    if (size < 2 || !is_hurt(fd)) return size;
    long at = number("TORN_AT"), every = number("TORN_EVERY");
    count++;
    int now = count == at || (every && count > at && (count - at) % every == 0);
    return now ? size / 2 : size;
}

static ssize_t come_back(ssize_t done, size_t asked, size_t size) {
    if (asked < size && getenv("TORN_EXIT")) _exit(75);
    return done;
}

static int is_gone(int fd, off_t at) { return getenv("TORN_READ") && is_hurt(fd) && at >= number("TORN_READ"); }

ssize_t read(int fd, void *data, size_t size) {
    read_call real = (read_call)dlsym(RTLD_NEXT, "read");
    return is_gone(fd, lseek(fd, 0, SEEK_CUR)) ? (errno = EIO, -1) : real(fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) {
    pread_call real = (pread_call)dlsym(RTLD_NEXT, "pread");
    return is_gone(fd, at) ? (errno = EIO, -1) : real(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off_t at) { return pread(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    write_call real = (write_call)dlsym(RTLD_NEXT, "write");
    size_t some = portion(fd, size);
    return come_back(real(fd, data, some), some, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    pwrite_call real = (pwrite_call)dlsym(RTLD_NEXT, "pwrite");
    size_t some = portion(fd, size);
    return come_back(real(fd, data, some, at), some, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return pwrite(fd, data, size, at); }
