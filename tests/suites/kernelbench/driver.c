/* Stands in for libcuda.so.1: memory of a GPU is memory of the host here, and handles are files in memory.
 *
 * It has the calls of the driver that the judge and the processes of kernels make themselves (virtual memory management),
 * as NVIDIA's headers declare them, so that NVIDIA's own Python package talks to it. What the real one would refuse it
 * refuses: sizes that are no multiple of the granularity, and memory beyond STAND_IN_BYTES.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int Result;
typedef unsigned long long Handle, Pointer;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, POSIX_FILE_DESCRIPTOR = 1 };
static const size_t GRANULARITY = 1 << 16;
static size_t made;

typedef struct { int kind, handles; struct { int kind, id; } location; void *win32; unsigned char flags[8]; } Properties;
typedef struct { struct { int kind, id; } location; int flags; } Access;

Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *found = self ? dlsym(self, name) : NULL;
    if (status) *status = *found ? 0 : 1;
    return *found ? SUCCESS : NOT_FOUND;
}

Result cuMemGetAllocationGranularity(size_t *found, const Properties *wanted, int option) {
    (void)option;
    if (wanted->kind != 1 || wanted->location.kind != 1) return INVALID_VALUE; /* pinned, of a device */
    *found = GRANULARITY;
    return SUCCESS;
}

Result cuMemCreate(Handle *found, size_t size, const Properties *wanted, unsigned long long flags) {
    const char *most = getenv("STAND_IN_BYTES");
    if (flags || !size || size % GRANULARITY || wanted->handles != POSIX_FILE_DESCRIPTOR) return INVALID_VALUE;
    if (most && made + size > strtoull(most, NULL, 10)) return OUT_OF_MEMORY;
    int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, size)) return OUT_OF_MEMORY;
    made += size;
    *found = file;
    return SUCCESS;
}

static Result duplicate(int from, int *found) {
    *found = fcntl(from, F_DUPFD_CLOEXEC, 3);
    return *found < 0 ? INVALID_VALUE : SUCCESS;
}

Result cuMemExportToShareableHandle(void *found, Handle handle, int kind, unsigned long long flags) {
    return kind != POSIX_FILE_DESCRIPTOR || flags ? INVALID_VALUE : duplicate(handle, found);
}

Result cuMemImportFromShareableHandle(Handle *found, void *descriptor, int kind) {
    int file = -1;
    if (kind != POSIX_FILE_DESCRIPTOR || duplicate((int)(intptr_t)descriptor, &file)) return INVALID_VALUE;
    *found = file;
    return SUCCESS;
}

Result cuMemRelease(Handle handle) { return close(handle) ? INVALID_VALUE : SUCCESS; }

Result cuMemAddressReserve(Pointer *found, size_t size, size_t alignment, Pointer address, unsigned long long flags) {
    (void)alignment, (void)address;
    if (flags || size % GRANULARITY) return INVALID_VALUE;
    void *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return OUT_OF_MEMORY;
    *found = (Pointer)(uintptr_t)place;
    return SUCCESS;
}

Result cuMemMap(Pointer address, size_t size, size_t offset, Handle handle, unsigned long long flags) {
    if (offset || flags || size % GRANULARITY) return INVALID_VALUE;
    void *place = (void *)(uintptr_t)address;
    return mmap(place, size, PROT_NONE, MAP_SHARED | MAP_FIXED, handle, 0) == place ? SUCCESS : INVALID_VALUE;
}

Result cuMemSetAccess(Pointer address, size_t size, const Access *access, size_t count) {
    if (count != 1 || access->location.kind != 1 || access->flags != 3) return INVALID_VALUE; /* read and write */
    return mprotect((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}

Result cuMemUnmap(Pointer address, size_t size) {
    void *place = (void *)(uintptr_t)address;
    if (mmap(place, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place) return INVALID_VALUE;
    return SUCCESS;
}

Result cuMemAddressFree(Pointer address, size_t size) {
    return munmap((void *)(uintptr_t)address, size) ? INVALID_VALUE : SUCCESS;
}

Result cuCtxResetPersistingL2Cache(void) { return SUCCESS; }
