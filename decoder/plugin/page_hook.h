/* page_hook.h: a hook that runs before the server reads a page of WAL. */
#ifndef CLAIRON_PAGE_HOOK_H
#define CLAIRON_PAGE_HOOK_H

#include "postgres.h"

#include "replication/logical.h"

/* Wraps the page_read callback of the decoding context. */
extern void page_hook_setup(LogicalDecodingContext *ctx);

#endif
