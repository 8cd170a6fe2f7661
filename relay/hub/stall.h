/* stall.h: detects clients that have read too slowly for too long. */
#ifndef CLAIRON_HUB_STALL_H
#define CLAIRON_HUB_STALL_H

#include <stddef.h>

struct session;

/* Adds bytes that were offered to the session while its socket was full. */
void session_count_skipped(struct session *session, size_t bytes);

#endif
