// SPDX-FileCopyrightText: The Seatrial authors
// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails after some bytes: loaded before the C library (LD_PRELOAD), it lets writes and
// syncs of files under BROKEN_UNDER fail with EIO once BROKEN_AFTER bytes were written there. The
// engine writes from several processes: they count together, in the file BROKEN_COUNT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static unsigned long long *counted(void) {
    static unsigned long long *count;
    const char *name = getenv("BROKEN_COUNT");
    if (count == NULL && name != NULL) {
        int file = open(name, O_RDWR);
        void *found = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (found == MAP_FAILED)
            abort();
        count = found;
    }
    return count;
}

static int is_broken(int file, size_t bytes) {
    const char *under = getenv("BROKEN_UNDER"), *after = getenv("BROKEN_AFTER");
    if (under == NULL || after == NULL || *under == '\0')
        return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = '\0';
    if (strncmp(path, under, strlen(under)) != 0)
        return 0;
    unsigned long long *count = counted();
    return count != NULL && __sync_add_and_fetch(count, bytes) > strtoull(after, NULL, 10);
}

ssize_t write(int file, const void *data, size_t bytes) {
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL)
        real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (is_broken(file, bytes)) {
        errno = EIO;
        return -1;
    }
    return real(file, data, bytes);
}

int fsync(int file) {
    static int (*real)(int);
    if (real == NULL)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (is_broken(file, 0)) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
