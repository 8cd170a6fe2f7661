/* memory.h: small bounded allocations, which abort with a log line when memory runs out. */
#ifndef CLAIRON_BASE_MEMORY_H
#define CLAIRON_BASE_MEMORY_H

#include <stddef.h>

#define MEMORY_CACHE_LINE 64 /* bytes */

/* Never NULL. The caller checked the size against a ceiling before it came here. */
void *memory_new(size_t size); /* zeroed */
/* The same at the start of a cache line, for what is one of very many and looked at often. */
void *memory_new_line(size_t size);
void *memory_grow(void *old, size_t size);
char *memory_text(const char *text, size_t len); /* zero-terminated copy */

#endif
