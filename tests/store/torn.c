/* A disk that does its writes by halves. Preloaded into a writer; every other file is left alone.
 *
 * TORN_NAME  part of the path of the files that are hurt
 * TORN_AT    at this write only half of the bytes are written
 * TORN_EVERY and again after every so many writes; 0: once
 * TORN_EXIT  set: the process ends there, as a machine does that loses its power in the middle of a write
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

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
