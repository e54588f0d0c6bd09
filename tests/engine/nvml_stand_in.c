/* SPDX-FileCopyrightText: The Seatrial authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for the driver's libnvidia-ml.so.1, below the real nvidia-ml-py: two made-up GPUs.
 * No GPU and no driver are involved. GPU 1 is throttled, has ECC errors, a pending row remap and
 * one Xid error; GPU 0 does not support ECC.
 */
#include <stdio.h>
#include <string.h>

#define OK 0
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define TIMED_OUT 10
#define GPUS 2

typedef struct { int index; } gpu_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    gpu_t *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} event_t;
typedef struct { gpu_t *device; int told; } events_t;

static gpu_t gpus[GPUS] = {{0}, {1}};
static events_t sets[16];
static int made;

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **gpu) {
    if (index >= GPUS) return NOT_FOUND;
    *gpu = &gpus[index];
    return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "580.82.07");
    return OK;
}

int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *found) {
    found->gpu = gpu->index ? 40 : 97;
    found->memory = 50;
    return OK;
}

int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *found) {
    (void)gpu;
    found->total = 80ULL << 30;
    found->used = 60ULL << 30;
    found->free = 20ULL << 30;
    return OK;
}

int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned *milliwatts) {
    *milliwatts = gpu->index ? 310000 : 650000;
    return OK;
}

int nvmlDeviceGetClockInfo(gpu_t *gpu, unsigned kind, unsigned *mhz) {
    if (kind != 1) return NOT_SUPPORTED;
    *mhz = gpu->index ? 1200 : 1755;
    return OK;
}

int nvmlDeviceGetTemperature(gpu_t *gpu, unsigned sensor, unsigned *celsius) {
    (void)sensor;
    *celsius = gpu->index ? 91 : 64;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(gpu_t *gpu, unsigned long long *mask) {
    *mask = gpu->index ? 0x40 : 0;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, unsigned kind, unsigned counter,
                                unsigned long long *count) {
    if (gpu->index == 0 || kind != 1 || counter != 0) return NOT_SUPPORTED;
    *count = 2;
    return OK;
}

int nvmlDeviceGetRemappedRows(gpu_t *gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed) {
    *corrected = *failed = 0;
    *uncorrected = *pending = gpu->index;
    return OK;
}

int nvmlEventSetCreate(events_t **set) {
    *set = &sets[made++ % 16];
    memset(*set, 0, sizeof **set);
    return OK;
}

int nvmlDeviceRegisterEvents(gpu_t *gpu, unsigned long long kinds, events_t *set) {
    if (kinds != 8) return NOT_SUPPORTED;
    set->device = gpu;
    return OK;
}

int nvmlEventSetWait_v2(events_t *set, event_t *event, unsigned milliseconds) {
    (void)milliseconds;
    if (set->device == NULL || set->device->index == 0 || set->told) return TIMED_OUT;
    set->told = 1;
    memset(event, 0, sizeof *event);
    event->device = set->device;
    event->type = 8;
    event->data = 79;
    return OK;
}
