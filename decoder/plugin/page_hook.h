/* page_hook.h: a hook before each page of WAL that the server reads. */
#ifndef CLAIRON_PAGE_HOOK_H
#define CLAIRON_PAGE_HOOK_H

#include "postgres.h"

#include "replication/logical.h"

/* Replaces the page reader of the decoding context. */
extern void page_hook_setup(LogicalDecodingContext *ctx);

#endif
