/* options.h: the options of START_REPLICATION and of pg_recvlogical -o. */
#ifndef CLAIRON_OPTIONS_H
#define CLAIRON_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "base/account.h"

struct options {
    bool framed;
    bool numeric_as_number;
    bool pretty;
    bool streaming;       /* streams large transactions before their commit */
    char *topic_prefix;   /* prefix in the server's encoding; "": no prefix */
    List *include_tables; /* list of struct table_pattern */
    List *exclude_tables;
    int64 max_value_bytes;
    int64 max_row_bytes; /* of JSON, for each of `before` and `after` */
    int condition_timeout_ms;
    struct account_limits owner;
};

#define MAX_VALUE_BYTES_DEFAULT (1024 * 1024)
#define MAX_VALUE_BYTES_CEILING (16 * 1024 * 1024)
#define MAX_ROW_BYTES_DEFAULT (8 * 1024 * 1024)
#define MAX_ROW_BYTES_FLOOR 1024
#define MAX_ROW_BYTES_CEILING (16 * 1024 * 1024)

/* Fills *ret_options in the current memory context. Raises an error that lists the valid values. */
extern void options_read(struct options *ret_options, List *given, const char *database);

/* True when one of the patterns matches the table. */
extern bool options_match(List *patterns, const char *schema, const char *table);

#endif
