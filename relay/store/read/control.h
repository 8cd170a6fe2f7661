/* control.h: what the streams beside the notes tell: of acks, and of memberships. */
#ifndef CLAIRON_STORE_CONTROL_H
#define CLAIRON_STORE_CONTROL_H

#include "store/connection/reply.h"
#include "store/reader.h"

/* Takes the id of a stream's entry as the place to read on from. */
void control_take_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX]);

/* Tells of the entries and moves `at` behind them. Acks that `own_name` stored are known. */
void control_take_receipts(const struct reader_events *events, const char *own_name,
                           const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX]);
void control_take_members(const struct reader_events *events, const struct redisReply *entries,
                          char at[ENTRY_ID_TEXT_MAX]);

#endif
