/* stall.h: detects clients that read too slowly for too long. */
#ifndef CLAIRON_HUB_DELIVERY_STALL_H
#define CLAIRON_HUB_DELIVERY_STALL_H

#include <stddef.h>

struct session;

/* It was offered this many bytes while its socket was full. */
void session_count_skipped(struct session *session, size_t bytes);

#endif
