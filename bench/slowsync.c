/* Lets every fsync and fdatasync take SLOWSYNC_US microseconds longer, and counts them. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_long fsyncs, fdatasyncs;

long slowsync_fsyncs(void) { return fsyncs; }
long slowsync_fdatasyncs(void) { return fdatasyncs; }

static int slow(const char *name, atomic_long *count, int fd) {
    const char *text = getenv("SLOWSYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec rest = {us / 1000000, us % 1000000 * 1000};
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    ++*count;
    if (us)
        nanosleep(&rest, NULL);
    return sync(fd);
}

int fsync(int fd) { return slow("fsync", &fsyncs, fd); }
int fdatasync(int fd) { return slow("fdatasync", &fdatasyncs, fd); }
