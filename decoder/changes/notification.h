/* notification.h: renders one notification of a row. */
#ifndef CLAIRON_NOTIFICATION_H
#define CLAIRON_NOTIFICATION_H

#include "postgres.h"

#include "replication/logical.h"

#include "plan/plan.h"

/* A notification of a row, before it is rendered. */
struct notification {
    const struct plan *plan;
    enum frame_operation operation;
    uint32 part;                /* PART_* */
    const struct image *before; /* NULL: the JSON contains null */
    const struct image *after;
    const struct target_list *targets;
    struct fragment emitter; /* as JSON; bytes NULL: the plan's constant emitter */
    struct fragment payload; /* from a spool; bytes NULL: rendered from the images */
    bool undecodable;        /* the spooled payload contains an undecodable value */
};

/* Writes the notification, or spools it while its transaction is open. */
extern void notification_write(LogicalDecodingContext *ctx,
                               const struct notification *notification);

/* Renders a row as payload.after of a create. The returned JSON is valid until `out` changes. */
extern struct fragment notification_render_row(struct decoder *decoder, StringInfo out,
                                               const struct plan *plan, const struct image *row);

/* Fills in the expiration: commit time plus ttl. NULL: never. */
extern void notification_set_expiration(struct decoder *decoder, struct notification_header *header,
                                        const Interval *ttl);

/* Indents the minified line that begins at `start`, unless it would exceed PRETTY_BYTES_MAX. */
extern void notification_indent(StringInfo out, int start);

/* Appends the timestamp, without its opening quote, and all text up to the payload. */
extern void notification_put_times(struct decoder *decoder, StringInfo out,
                                   const struct notification_header *header);

#endif
