/* memory.h: small bounded allocations that log and abort when out of memory. */
#ifndef CLAIRON_BASE_MEMORY_H
#define CLAIRON_BASE_MEMORY_H

#include <stddef.h>

#define MEMORY_CACHE_LINE 64 /* bytes */

/* Never NULL. The caller has checked the size against a limit. */
void *memory_new(size_t size); /* zeroed */
/* Zeroed and aligned to a cache line, for frequently used items. */
void *memory_new_cache_line(size_t size);
void *memory_grow(void *old, size_t size);
char *memory_text(const char *text, size_t len); /* zero-terminated copy */

#endif
