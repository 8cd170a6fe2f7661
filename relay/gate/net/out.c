/* out.c: the bytes that a socket has not accepted yet. */
#include "gate/net/conn.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

#define SHARE_MIN 4096 /* shorter bytes are copied: a reference costs a part of its own */

static struct out_part *
add_part(struct out *out)
{
    struct out_part *part = memory_new(sizeof(*part));

    if (out->last != NULL)
        out->last->next = part;
    else
        out->first = part;
    out->last = part;
    return part;
}

void
out_add(struct out *out, const void *bytes, size_t len)
{
    struct out_part *part = out->last;
    size_t written;

    if (len == 0)
        return;
    if (part == NULL || part->owner != NULL) {
        part = add_part(out);
        buffer_init(&part->copy, SIZE_MAX / 4);
    }
    written = part->copy.len - part->len;
    if (buffer_add(&part->copy, bytes, len) != RC_OK)
        abort(); /* the callers limit the length */
    part->at = (const unsigned char *)part->copy.bytes + written;
    part->len += len;
    out->len += len;
}

void
out_add_shared(struct out *out, const void *bytes, size_t len, struct shared *owner)
{
    struct out_part *part;

    if (owner == NULL || len < SHARE_MIN) {
        out_add(out, bytes, len);
        return;
    }
    part = add_part(out);
    part->owner = shared_ref(owner);
    shared_wait(owner, out->waiting_bytes);
    part->at = bytes;
    part->len = len;
    out->len += len;
}

void
out_add_buffer(struct out *out, struct buffer *bytes)
{
    struct out_part *part;

    if (bytes->len > 0) {
        part = add_part(out);
        part->copy = *bytes;
        part->copy.limit = SIZE_MAX / 4;
        part->at = (const unsigned char *)bytes->bytes;
        part->len = bytes->len;
        out->len += bytes->len;
        *bytes = (struct buffer){.limit = bytes->limit};
    }
    buffer_free(bytes);
}

void
out_move(struct out *out, struct out *from)
{
    if (from->first == NULL)
        return;
    if (from->first == from->last && from->len < SHARE_MIN && from->first->owner == NULL &&
        out->last != NULL) { /* fewer writes */
        out_add(out, from->first->at, from->len);
        out_free(from);
        return;
    }
    if (out->last != NULL)
        out->last->next = from->first;
    else
        out->first = from->first;
    out->last = from->last;
    out->len += from->len;
    *from = (struct out){.waiting_bytes = from->waiting_bytes};
}

static void
remove_first(struct out *out)
{
    struct out_part *part = out->first;

    out->first = part->next;
    if (out->first == NULL)
        out->last = NULL;
    out->len -= part->len;
    if (part->owner != NULL)
        shared_wait_end(part->owner, out->waiting_bytes);
    shared_unref(part->owner);
    buffer_free(&part->copy);
    free(part);
}

enum rc
out_write(struct out *out, struct conn *conn, size_t max)
{
    struct out_part *part;

    while ((part = out->first) != NULL && max > 0) {
        ssize_t sent = conn_write(conn, part->at, part->len < max ? part->len : max);

        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS
                       ? RC_AGAIN
                       : RC_IO;
        part->at += sent;
        part->len -= (size_t)sent;
        out->len -= (size_t)sent;
        max -= (size_t)sent;
        if (part->len == 0)
            remove_first(out);
    }
    return part == NULL ? RC_OK : RC_AGAIN;
}

void
out_free(struct out *out)
{
    while (out->first != NULL)
        remove_first(out);
}
