/* control.h: reads the streams of acknowledgement events and memberships. */
#ifndef CLAIRON_STORE_CONTROL_H
#define CLAIRON_STORE_CONTROL_H

#include "store/connection/reply.h"
#include "store/reader.h"

/* Copies an entry's id to `at`; leaves `at` alone if it has none. */
void control_read_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX]);

/* Deliver the entries and advance `at`. Acknowledgements that `own_name` stored are skipped. */
void control_handle_ack_events(const struct reader_events *events, const char *own_name,
                               const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX]);
void control_handle_members(const struct reader_events *events, const struct redisReply *entries,
                            char at[ENTRY_ID_TEXT_MAX]);

#endif
