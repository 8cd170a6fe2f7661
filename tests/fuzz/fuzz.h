/* fuzz.h: what the fuzz targets share. */
#ifndef CLAIRON_TESTS_FUZZ_H
#define CLAIRON_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void
expect(bool is_true)
{
    if (!is_true)
        __builtin_trap();
}

#endif
