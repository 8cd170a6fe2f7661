/* packed_receipts.h: the receipts of stream entries (parts/receipts.lua describes these). */
#ifndef CLAIRON_STORE_PACKED_RECEIPTS_H
#define CLAIRON_STORE_PACKED_RECEIPTS_H

#include "base/memory.h"
#include "store/entry.h"

struct redisReply;
struct store_receipt;

struct receipt_span {
    struct bytes entry;
    struct bytes id, data;  /* of an entry with one receipt; `at` is NULL if it was packed */
    size_t id_from, id_len; /* of a packed one, in the text */
    size_t from, len;
    unsigned number, count; /* as in store_receipt */
};

/* {0} is empty. Entries are borrowed until the end. */
struct unpacked_receipts {
    struct buffer text;
    struct receipt_span *spans;
    size_t count, room;
};

/*
 * Adds the receipts of an entry with these fields. One that cannot be read has one receipt, whose
 * data are empty.
 */
void unpacked_receipts_add(struct unpacked_receipts *all, struct bytes entry,
                           const struct redisReply *fields);

/* Writes the receipts in order: ret_items has room for `count`. They are valid until the free. */
void unpacked_receipts_read(const struct unpacked_receipts *all, struct store_receipt *ret_items);

void unpacked_receipts_free(struct unpacked_receipts *all);

#endif
