/* trim.h: keeps the stream from growing beyond store.retention. */
#ifndef CLAIRON_STORE_TRIM_H
#define CLAIRON_STORE_TRIM_H

#include <stdint.h>

#include "base/stats.h"

struct ev_loop;
struct link;
struct trim;

/* Trims once a minute while the link is up. Texts and objects must outlive it. */
struct trim *trim_open(struct ev_loop *loop, struct link *link, const char *stream_key,
                       int64_t retention_ms, struct stats *stats);
void trim_close(struct trim *trim); /* accepts NULL; before link_close */
void trim_free(struct trim *trim);  /* accepts NULL; after link_close, which gives up its answer */

#endif
