/*
 * packed_receipts.c: reads the receipts of a stream entry. An entry has one receipt, in the fields
 * `id` and `data`; or its first field is `n`, and a script has packed several (parts/receipts.lua).
 */
#include "store/read/packed_receipts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/connection/reply.h"
#include "store/receipts.h"

#define TEXT_BYTES_MAX ((size_t)64 * 1024 * 1024) /* beyond all pages */
#define TEMPLATES_MAX 2                           /* receipts in one template */
#define TEMPLATE_END 5                            /* the byte between them */
#define TIME_MAX (CLOCK_TEXT_MAX + 2)
#define DIGITS_MAX 15

static const char ID_BEGIN[] = "{\"id\":\"", ID_END[] = "\",\"notification\":\"";

enum placeholder { PLACE_ID = 1, PLACE_USER = 2, PLACE_DELIVERED = 3, PLACE_AT = 4 };

struct packed_entry {
    struct unpacked_receipts *all;
    struct bytes entry;
    struct bytes templates[TEMPLATES_MAX];
    size_t template_count;
    struct bytes id;
    struct buffer user;                     /* as a JSON string, with its quotes */
    char delivered[TIME_MAX], at[TIME_MAX]; /* as JSON */
    unsigned count;
};

static struct receipt_span *
add_span(struct unpacked_receipts *all, struct bytes entry)
{
    struct receipt_span *span;

    if (all->count == all->room) {
        all->room = all->room > 0 ? 2 * all->room : 64;
        all->spans = memory_grow(all->spans, all->room * sizeof(*all->spans));
    }
    span = &all->spans[all->count++];
    *span = (struct receipt_span){.entry = entry, .count = 1};
    return span;
}

static enum rc
set_templates(struct packed_entry *packed, struct bytes text)
{
    const unsigned char *end = text.at + text.len;

    packed->template_count = 0;
    for (const unsigned char *at = text.at, *next; at < end; at = next + 1) {
        next = memchr(at, TEMPLATE_END, (size_t)(end - at));
        if (packed->template_count == TEMPLATES_MAX)
            return RC_BAD;
        if (next == NULL)
            next = end;
        packed->templates[packed->template_count++] = (struct bytes){at, (size_t)(next - at)};
    }
    return RC_OK;
}

/* Reads a time in ms, or null. */
static enum rc
set_time(char ret_time[TIME_MAX], struct bytes ms)
{
    char digits[DIGITS_MAX + 1], text[CLOCK_TEXT_MAX];

    if (bytes_equal_text(ms, "null")) {
        snprintf(ret_time, TIME_MAX, "null");
        return RC_OK;
    }
    if (ms.len == 0 || ms.len > DIGITS_MAX)
        return RC_BAD;
    snprintf(digits, sizeof(digits), "%.*s", (int)ms.len, (const char *)ms.at);
    clock_text_us(strtoll(digits, NULL, 10) * 1000, text);
    snprintf(ret_time, TIME_MAX, "\"%s\"", text);
    return RC_OK;
}

static enum rc
add_place(struct packed_entry *packed, enum placeholder place)
{
    struct buffer *text = &packed->all->text;

    if (place == PLACE_ID)
        return buffer_add(text, packed->id.at, packed->id.len);
    if (place == PLACE_USER)
        return buffer_add(text, packed->user.bytes + 1, packed->user.len - 2);
    if (place == PLACE_DELIVERED)
        return buffer_add(text, packed->delivered, strlen(packed->delivered));
    if (place == PLACE_AT)
        return buffer_add(text, packed->at, strlen(packed->at));
    return RC_BAD;
}

static enum rc
expand(struct packed_entry *packed, struct bytes template)
{
    enum rc rc = RC_OK;
    size_t from = 0;

    for (size_t at = 0; at <= template.len && rc == RC_OK; at++) {
        if (at < template.len && template.at[at] >= ' ')
            continue;
        rc = buffer_add(&packed->all->text, template.at + from, at - from);
        if (rc == RC_OK && at < template.len)
            rc = add_place(packed, template.at[at]);
        from = at + 1;
    }
    return rc;
}

static enum rc
add_receipt(struct packed_entry *packed, struct bytes template)
{
    struct unpacked_receipts *all = packed->all;
    struct receipt_span *span = add_span(all, packed->entry);
    const char *id_end;
    enum rc rc;

    span->from = all->text.len;
    span->number = packed->count++;
    rc = expand(packed, template);
    if (rc != RC_OK)
        return rc;
    span->len = all->text.len - span->from;
    span->id_from = span->from + strlen(ID_BEGIN);
    id_end = memmem(all->text.bytes + span->from, span->len, ID_END, strlen(ID_END));
    if (id_end == NULL || id_end < all->text.bytes + span->id_from)
        return RC_BAD;
    span->id_len = (size_t)(id_end - all->text.bytes) - span->id_from;
    return RC_OK;
}

static enum rc
add_pair(struct packed_entry *packed, struct bytes id, struct bytes user)
{
    enum rc rc;

    if (id.len > 0)
        packed->id = id;
    buffer_clear(&packed->user);
    rc = packed->id.len > 0 && packed->template_count > 0
             ? buffer_add_json(&packed->user, (const char *)user.at, user.len)
             : RC_BAD;
    for (size_t i = 0; i < packed->template_count && rc == RC_OK; i++)
        rc = add_receipt(packed, packed->templates[i]);
    return rc;
}

static enum rc
unpack(struct packed_entry *packed, const struct redisReply *fields)
{
    enum rc rc = RC_OK;

    for (size_t i = 2; i + 1 < reply_count(fields) && rc == RC_OK; i += 2) {
        struct bytes name = reply_bytes(reply_at(fields, i));
        struct bytes value = reply_bytes(reply_at(fields, i + 1));

        if (bytes_equal_text(name, "t"))
            rc = set_templates(packed, value);
        else if (bytes_equal_text(name, "d"))
            rc = set_time(packed->delivered, value);
        else if (bytes_equal_text(name, "a"))
            rc = set_time(packed->at, value);
        else
            rc = add_pair(packed, name, value);
    }
    return rc == RC_OK && packed->count > 0 ? RC_OK : RC_BAD;
}

void
unpacked_receipts_add(struct unpacked_receipts *all, struct bytes entry,
                      const struct redisReply *fields)
{
    struct packed_entry packed = {.all = all, .entry = entry, .delivered = "null", .at = "null"};
    const size_t first = all->count, len = all->text.len;
    struct receipt_span *span;

    if (all->text.limit == 0)
        buffer_init(&all->text, TEXT_BYTES_MAX);
    if (!bytes_equal_text(reply_bytes(reply_at(fields, 0)), "n")) {
        span = add_span(all, entry);
        span->id = reply_field(fields, "id");
        span->data = reply_field(fields, "data");
        return;
    }
    buffer_init(&packed.user, TEXT_BYTES_MAX);
    if (unpack(&packed, fields) != RC_OK) {
        all->count = first;
        all->text.len = len;
        add_span(all, entry);
    }
    for (size_t i = first; i < all->count; i++)
        all->spans[i].count = (unsigned)(all->count - first);
    buffer_free(&packed.user);
}

void
unpacked_receipts_read(const struct unpacked_receipts *all, struct store_receipt *ret_items)
{
    const unsigned char *text = (const unsigned char *)all->text.bytes;

    for (size_t i = 0; i < all->count; i++) {
        const struct receipt_span *span = &all->spans[i];
        struct store_receipt *item = &ret_items[i];

        *item =
            (struct store_receipt){span->entry, span->id, span->data, span->number, span->count};
        if (span->len > 0) {
            item->id = (struct bytes){text + span->id_from, span->id_len};
            item->data = (struct bytes){text + span->from, span->len};
        }
    }
}

void
unpacked_receipts_free(struct unpacked_receipts *all)
{
    buffer_free(&all->text);
    free(all->spans);
}
