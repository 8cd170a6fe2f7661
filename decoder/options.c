/* options.c: parse the plugin's options. */
#include "decoder.h"

#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/sandbox.h"

struct table_pattern {
    char *schema;
    char *table;
};

struct option_kind {
    const char *name;
    void (*read)(struct options *options, const char *value);
};

static _Noreturn void
option_reject(const char *name, const char *value, const char *valid)
{
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("invalid value for option \"%s\": \"%s\"", name, value),
                    errhint("The value must be %s.", valid)));
}

static void
read_mode(struct options *options, const char *value)
{
    if (strcmp(value, "framed") == 0)
        options->framed = true;
    else if (strcmp(value, "text") == 0)
        options->framed = false;
    else
        option_reject("mode", value, "text or framed");
}

static void
read_numeric(struct options *options, const char *value)
{
    if (strcmp(value, "number") == 0)
        options->numeric_as_number = true;
    else if (strcmp(value, "string") == 0)
        options->numeric_as_number = false;
    else
        option_reject("numeric", value, "string or number");
}

static bool
read_switch(const char *name, const char *value)
{
    bool is_on;

    if (!parse_bool(value, &is_on))
        option_reject(name, value, "true or false");
    return is_on;
}

static void
read_pretty(struct options *options, const char *value)
{
    options->pretty = read_switch("pretty", value);
}

static void
read_streaming(struct options *options, const char *value)
{
    options->streaming = read_switch("streaming", value);
}

static void
read_topic_prefix(struct options *options, const char *value)
{
    if (strlen(value) > 255)
        option_reject("topic_prefix", value, "at most 255 bytes, or empty for no prefix");
    options->topic_prefix = pstrdup(value);
}

/* `unit`: that of a value without a unit, GUC_UNIT_*; 0: units are not allowed. */
static int
read_number(const char *name, const char *value, int unit, int min, int max, const char *valid)
{
    int number;

    if (!parse_int(value, &number, unit, NULL) || number < min || number > max)
        option_reject(name, value, valid);
    return number;
}

static void
read_max_value_bytes(struct options *options, const char *value)
{
    options->max_value_bytes =
        read_number("max_value_bytes", value, GUC_UNIT_BYTE, 1, MAX_VALUE_BYTES_CEILING,
                    "1 to 16777216, with or without B, kB or MB");
}

static void
read_max_row_bytes(struct options *options, const char *value)
{
    options->max_row_bytes =
        read_number("max_row_bytes", value, GUC_UNIT_BYTE, MAX_ROW_BYTES_FLOOR,
                    MAX_ROW_BYTES_CEILING, "1kB to 16MB, with or without B, kB or MB");
}

/* The limits of the accounts have a floor: an account that denies everything is a mistake. */
static int64
read_owner_size(const char *name, const char *value)
{
    return read_number(name, value, GUC_UNIT_KB, 1024, PG_INT32_MAX,
                       "1MB to 2047GB, in kB, MB or GB; without a unit, in kB") *
           INT64CONST(1024);
}

static void
read_owner_bytes(struct options *options, const char *value)
{
    options->owner.minute_bytes = read_owner_size("owner_bytes", value);
}

static void
read_owner_memory(struct options *options, const char *value)
{
    options->owner.memory_bytes = read_owner_size("owner_memory", value);
}

static void
read_owner_time(struct options *options, const char *value)
{
    options->owner.time_us = read_number("owner_time", value, GUC_UNIT_MS, 100, PG_INT32_MAX,
                                         "100 ms or more, with or without ms, s or min") *
                             INT64CONST(1000);
}

static void
read_owner_wal_factor(struct options *options, const char *value)
{
    options->owner.wal_factor = read_number("owner_wal_factor", value, 0, 1, 1000, "1 to 1000");
}

static void
read_condition_timeout(struct options *options, const char *value)
{
    options->condition_timeout_ms =
        read_number("condition_timeout", value, GUC_UNIT_MS, 1, CONDITION_TIMEOUT_CEILING,
                    "1 to 60000 ms, with or without ms, s or min");
}

/*
 * Splits the value at commas, and each part at its first dot, unless escaped by a backslash.
 * pattern_matches removes the backslashes.
 */
static List *
read_patterns(const char *name, const char *value)
{
    static const char *const valid = "a comma-separated list of schema.table, with * for any "
                                     "characters and \\ before a literal character";
    char *text = pstrdup(value);
    List *patterns = NIL;
    char *piece = text;

    while (piece != NULL) {
        struct table_pattern *pattern = palloc0(sizeof(*pattern));
        char *next = NULL;
        char *c;

        while (*piece == ' ')
            piece++;
        pattern->schema = piece;
        for (c = piece; *c != '\0'; c++) {
            if (*c == '\\' && c[1] != '\0') {
                c++;
            } else if (*c == '.' && pattern->table == NULL) {
                *c = '\0';
                pattern->table = c + 1;
            } else if (*c == ',') {
                *c = '\0';
                next = c + 1;
                break;
            }
        }
        while (c > piece && c[-1] == ' ')
            *--c = '\0';
        if (strcmp(piece, "*") == 0 && pattern->table == NULL)
            pattern->table = pstrdup("*");
        if (pattern->table == NULL || *pattern->schema == '\0' || *pattern->table == '\0')
            option_reject(name, value, valid);
        patterns = lappend(patterns, pattern);
        piece = next;
    }
    return patterns;
}

static void
read_include_tables(struct options *options, const char *value)
{
    options->include_tables = read_patterns("include_tables", value);
}

static void
read_exclude_tables(struct options *options, const char *value)
{
    options->exclude_tables = read_patterns("exclude_tables", value);
}

/* In the same order as in the hint. */
static const struct option_kind kinds[] = {
    {"condition_timeout", read_condition_timeout},
    {"exclude_tables", read_exclude_tables},
    {"include_tables", read_include_tables},
    {"max_row_bytes", read_max_row_bytes},
    {"max_value_bytes", read_max_value_bytes},
    {"mode", read_mode},
    {"numeric", read_numeric},
    {"owner_bytes", read_owner_bytes},
    {"owner_memory", read_owner_memory},
    {"owner_time", read_owner_time},
    {"owner_wal_factor", read_owner_wal_factor},
    {"pretty", read_pretty},
    {"streaming", read_streaming},
    {"topic_prefix", read_topic_prefix},
};

static _Noreturn void
reject_unknown(const char *name)
{
    StringInfoData known;

    initStringInfo(&known);
    for (size_t i = 0; i < lengthof(kinds); i++)
        appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown option \"%s\"", name),
                    errhint("Valid options are %s.", known.data)));
}

static void
read_one(struct options *options, DefElem *given)
{
    const char *value = given->arg == NULL ? NULL : strVal(given->arg);

    for (size_t i = 0; i < lengthof(kinds); i++) {
        if (strcmp(kinds[i].name, given->defname) != 0)
            continue;
        if (value == NULL && kinds[i].read != read_pretty && kinds[i].read != read_streaming)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("option \"%s\" requires a value", given->defname)));
        kinds[i].read(options, value == NULL ? "true" : value);
        return;
    }
    reject_unknown(given->defname);
}

void
options_read(struct options *ret_options, List *given, const char *database)
{
    struct options options = {.max_value_bytes = MAX_VALUE_BYTES_DEFAULT,
                              .max_row_bytes = MAX_ROW_BYTES_DEFAULT,
                              .condition_timeout_ms = CONDITION_TIMEOUT_DEFAULT,
                              .owner = {.time_us = OWNER_TIME_DEFAULT_US,
                                        .memory_bytes = OWNER_MEMORY_DEFAULT,
                                        .minute_bytes = OWNER_BYTES_DEFAULT,
                                        .wal_factor = OWNER_WAL_FACTOR_DEFAULT},
                              .streaming = true};
    ListCell *cell;

    options.topic_prefix = pstrdup(database);
    foreach (cell, given)
        read_one(&options, (DefElem *)lfirst(cell));
    if (options.pretty && options.framed)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("option \"pretty\" requires mode \"text\"")));
    *ret_options = options;
}

/* '*' matches any characters; a backslash escapes the next character. */
static bool
pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL; /* the pattern after the last '*' */
    const char *run = NULL;  /* the text that is compared with it */

    while (*text != '\0') {
        const char *literal = *pattern == '\\' && pattern[1] != '\0' ? pattern + 1 : pattern;

        if (*pattern == '*') {
            star = ++pattern;
            run = text;
        } else if (*pattern != '\0' && *literal == *text) {
            pattern = literal + 1;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++run;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool
options_match(List *patterns, const char *schema, const char *table)
{
    ListCell *cell;

    foreach (cell, patterns) {
        struct table_pattern *pattern = lfirst(cell);

        if (pattern_matches(pattern->schema, schema) && pattern_matches(pattern->table, table))
            return true;
    }
    return false;
}
