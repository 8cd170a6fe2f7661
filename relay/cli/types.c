/* types.c: `clairon types`: prints the rows of live rules as TypeScript interfaces. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/urls.h"
#include "postgres/connection.h"

#define TYPES "types"
#define MODULE_MAX (16 * 1024 * 1024) /* bytes of the output */
#define DEPTH_MAX 32                  /* of types within types; PostgreSQL rejects cycles */
#define KEY_MAX 512                   /* bytes of two names of PostgreSQL and a rule's name */
#define NAME_MAX_BYTES 128            /* bytes of an interface's name */

static const char types_usage[] =
    "Usage: clairon types -c FILE [options] >FILE.ts\n"
    "Prints a TypeScript module: one interface per live rule, with the columns of its rows, and "
    "the\n"
    "interface Rules with the filter columns and the key, for connect<Rules>(). Reads the rules\n"
    "from [rows] conninfo, or else [feed] conninfo.\n"
    "\n"
    "  -c FILE              configuration file of the relay\n"
    "  --rows.conninfo=V    one setting\n";

/*
 * One row for each column of a live rule (part 0), then one or several for each type that these
 * columns contain (part 1): the labels of an enum, the attributes of a composite type, the element
 * of an array, or the base type of a domain.
 */
static const char QUERY[] =
    "WITH RECURSIVE live AS ("
    " SELECT (CASE nspname WHEN 'public' THEN relname::text ELSE nspname || '.' || relname END)"
    " COLLATE \"C\" AS source, r.name COLLATE \"C\" AS rule, attnum, attname::text AS name, "
    "atttypid AS type,"
    " attndims::int AS dims, attnotnull AS required,"
    " coalesce(attnum = ANY (r.filter_columns), false) AS is_filter,"
    " EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisvalid AND indimmediate"
    " AND CASE relreplident WHEN 'i' THEN indisreplident ELSE indisprimary END"
    " AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) AS is_key"
    " FROM clairon.rule r JOIN pg_class c ON c.oid = r.relation"
    " JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON attrelid = c.oid"
    " WHERE r.live AND r.part = 0 AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'"
    " AND (r.columns IS NULL OR attnum = ANY (r.columns))),"
    " parts AS ("
    " SELECT t.oid, 'd' AS kind, NULL::text AS name, typbasetype AS type, typndims AS dims,"
    " typnotnull AS required, 0::real AS place FROM pg_type t WHERE typtype = 'd'"
    " UNION ALL SELECT t.oid, 'a', NULL, typelem, 0, false, 0 FROM pg_type t"
    " WHERE typelem <> 0 AND typsubscript = 'pg_catalog.array_subscript_handler'::regproc"
    " UNION ALL SELECT t.oid, 'c', attname::text, atttypid, attndims::int, false, attnum"
    " FROM pg_type t JOIN pg_attribute ON attrelid = typrelid"
    " WHERE typtype = 'c' AND attnum > 0 AND NOT attisdropped"
    " UNION ALL SELECT enumtypid, 'e', enumlabel::text, 0, 0, false, enumsortorder FROM pg_enum),"
    " used (oid) AS (SELECT type FROM live"
    " UNION SELECT parts.type FROM used JOIN parts USING (oid) WHERE parts.type <> 0)"
    " SELECT 0 AS part, 0 AS owner, 'r' AS kind, source, rule, name, type, dims, required,"
    " is_filter, is_key, attnum::real AS place FROM live"
    " UNION ALL SELECT 1, oid::int8, kind, '', '', name, type, dims, required, false, false, place"
    " FROM used JOIN parts USING (oid)"
    " ORDER BY part, source, rule, owner, place";

enum field { PART, OWNER, KIND, SOURCE, RULE, NAME, TYPE, DIMS, REQUIRED, IS_FILTER, IS_KEY };

/* The values of payload.after that are not strings, by the oid of their type. */
static const struct {
    const char *oid;
    const char *text;
} NATIVES[] = {
    {"16", "boolean"},
    {"20", "number | string"}, /* int8: a string beyond 2^53-1 */
    {"21", "number"},          /* int2 */
    {"23", "number"},          /* int4 */
    {"700", "number | \"NaN\" | \"Infinity\" | \"-Infinity\""},
    {"701", "number | \"NaN\" | \"Infinity\" | \"-Infinity\""},
    {"114", "unknown"},  /* json */
    {"3802", "unknown"}, /* jsonb */
    {"2249", "unknown"}, /* record */
};

struct types {
    PGresult *rows;
    int rule_rows; /* rows of part 0 */
    char **names;  /* of the interfaces, one for each rule */
    int name_count;
    struct buffer out;
    bool is_full; /* types within types may have any number of attributes together */
};

static const char *
field_of(const struct types *types, int row, enum field field)
{
    return PQgetvalue(types->rows, row, field);
}

static int
dims_of(const struct types *types, int row)
{
    return (int)strtol(field_of(types, row, DIMS), NULL, 10);
}

static bool
is_true(const struct types *types, int row, enum field field)
{
    return strcmp(field_of(types, row, field), "t") == 0;
}

static void
add(struct types *types, const char *text)
{
    types->is_full |= buffer_add(&types->out, text, strlen(text)) != RC_OK;
}

static void
add_string(struct types *types, const char *text)
{
    types->is_full |= buffer_add_json(&types->out, text, strlen(text)) != RC_OK;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A name that is no identifier is a string. */
static void
add_property(struct types *types, const char *name)
{
    bool is_identifier = is_letter(name[0]);

    for (const char *at = name; *at != '\0'; at++)
        is_identifier = is_identifier && (is_letter(*at) || is_digit(*at));
    if (is_identifier)
        add(types, name);
    else
        add_string(types, name);
}

/* ---- types */

static void add_type(struct types *types, const char *oid, int dims, bool is_nullable, int depth);

/* -1: the type contains no others. */
static int
first_part(const struct types *types, const char *oid)
{
    for (int row = types->rule_rows; row < PQntuples(types->rows); row++) {
        if (strcmp(field_of(types, row, OWNER), oid) == 0)
            return row;
    }
    return -1;
}

static bool
is_part_of(const struct types *types, int row, const char *oid)
{
    return row < PQntuples(types->rows) && strcmp(field_of(types, row, OWNER), oid) == 0;
}

static void
add_native(struct types *types, const char *oid)
{
    const char *text = "string";

    for (size_t i = 0; i < sizeof(NATIVES) / sizeof(NATIVES[0]); i++) {
        if (strcmp(NATIVES[i].oid, oid) == 0)
            text = NATIVES[i].text;
    }
    add(types, text);
}

static void
add_composite(struct types *types, const char *oid, int row, int depth)
{
    add(types, "{ ");
    for (; is_part_of(types, row, oid) && !types->is_full; row++) {
        add_property(types, field_of(types, row, NAME));
        add(types, ": ");
        add_type(types, field_of(types, row, TYPE), dims_of(types, row), true, depth);
        add(types, is_part_of(types, row + 1, oid) ? "; " : " }");
    }
}

static void
add_enum(struct types *types, const char *oid, int row)
{
    for (bool is_first = true; is_part_of(types, row, oid); row++, is_first = false) {
        if (!is_first)
            add(types, " | ");
        add_string(types, field_of(types, row, NAME));
    }
}

/* The number of dimensions is that of the declaration, which PostgreSQL does not enforce. */
static void
add_array(struct types *types, const char *element, int dims, int depth)
{
    add(types, "(");
    add_type(types, element, 0, true, depth);
    add(types, ")");
    for (int i = 0; i == 0 || i < dims; i++)
        add(types, "[]");
}

/* The follow-up to a domain is its base type. The value `unknown` includes null. */
static void
add_type(struct types *types, const char *oid, int dims, bool is_nullable, int depth)
{
    int row = depth < DEPTH_MAX ? first_part(types, oid) : -1;
    char kind = row >= 0 ? field_of(types, row, KIND)[0] : '\0';

    if (kind == 'd') {
        const int inner = dims_of(types, row);

        add_type(types, field_of(types, row, TYPE), inner > 0 ? inner : dims,
                 is_nullable && !is_true(types, row, REQUIRED), depth + 1);
        return;
    }
    if (kind == 'a')
        add_array(types, field_of(types, row, TYPE), dims, depth + 1);
    else if (kind == 'c')
        add_composite(types, oid, row, depth + 1);
    else if (kind == 'e')
        add_enum(types, oid, row);
    else
        add_native(types, oid);
    if (is_nullable)
        add(types, " | null");
}

/* ---- interfaces */

static bool
is_same_rule(const struct types *types, int row, int other)
{
    return strcmp(field_of(types, row, SOURCE), field_of(types, other, SOURCE)) == 0 &&
           strcmp(field_of(types, row, RULE), field_of(types, other, RULE)) == 0;
}

/* Adds the words of a name, each with an initial capital: course_entries becomes CourseEntries. */
static void
add_words(char name[NAME_MAX_BYTES], const char *text)
{
    size_t len = strlen(name);
    bool is_start = true;

    for (; *text != '\0' && len + 1 < NAME_MAX_BYTES; text++) {
        const bool is_word = *text != '_' && (is_letter(*text) || is_digit(*text));

        if (is_word)
            name[len++] = is_start && *text >= 'a' && *text <= 'z' ? (char)(*text - 32) : *text;
        is_start = !is_word;
    }
    name[len] = '\0';
}

static bool
is_used(const struct types *types, const char *name)
{
    for (int i = 0; i < types->name_count; i++) {
        if (strcmp(types->names[i], name) == 0)
            return true;
    }
    return strcmp(name, "Rules") == 0;
}

/* Names that differ only in other characters get a number. */
static void
name_interface(struct types *types, int row)
{
    char name[NAME_MAX_BYTES] = "", unique[NAME_MAX_BYTES + 16];

    add_words(name, field_of(types, row, SOURCE));
    if (strcmp(field_of(types, row, RULE), "default") != 0)
        add_words(name, field_of(types, row, RULE));
    snprintf(unique, sizeof(unique), "%s%s", is_letter(name[0]) ? "" : "Rule", name);
    for (int number = 2; is_used(types, unique); number++)
        snprintf(unique, sizeof(unique), "%s%s%d", is_letter(name[0]) ? "" : "Rule", name, number);
    types->names[types->name_count++] = memory_text(unique, strlen(unique));
}

static void
write_interfaces(struct types *types)
{
    for (int row = 0; row < types->rule_rows; row++) {
        if (row == 0 || !is_same_rule(types, row, row - 1)) {
            name_interface(types, row);
            add(types, "export interface ");
            add(types, types->names[types->name_count - 1]);
            add(types, " {\n");
        }
        add(types, "  ");
        add_property(types, field_of(types, row, NAME));
        add(types, ": ");
        add_type(types, field_of(types, row, TYPE), dims_of(types, row),
                 !is_true(types, row, REQUIRED), 0);
        add(types, ";\n");
        if (row + 1 == types->rule_rows || !is_same_rule(types, row, row + 1))
            add(types, "}\n\n");
    }
}

/* Adds the names of the columns of a rule, from its first row, for which `field` is true. */
static void
add_names(struct types *types, int first, enum field field)
{
    bool is_empty = true;

    for (int row = first; row < types->rule_rows && is_same_rule(types, row, first); row++) {
        if (!is_true(types, row, field))
            continue;
        if (!is_empty)
            add(types, " | ");
        add_string(types, field_of(types, row, NAME));
        is_empty = false;
    }
    if (is_empty)
        add(types, "never");
}

/* The key is the source, or source/rule for a rule other than "default". */
static void
write_rules(struct types *types)
{
    int at = 0;

    add(types, "export interface Rules {\n");
    for (int row = 0; row < types->rule_rows; row++) {
        const char *rule = field_of(types, row, RULE);
        const bool is_default = strcmp(rule, "default") == 0;
        char key[KEY_MAX];

        if (row > 0 && is_same_rule(types, row, row - 1))
            continue;
        snprintf(key, sizeof(key), "%s%s%s", field_of(types, row, SOURCE), is_default ? "" : "/",
                 is_default ? "" : rule);
        add(types, "  ");
        add_string(types, key);
        add(types, ": { row: ");
        add(types, types->names[at++]);
        add(types, "; filters: ");
        add_names(types, row, IS_FILTER);
        add(types, "; key: ");
        add_names(types, row, IS_KEY);
        add(types, " };\n");
    }
    add(types, "}\n");
}

static int
print_module(PGresult *rows)
{
    struct types types = {.rows = rows};
    int code;

    while (types.rule_rows < PQntuples(rows) &&
           strcmp(field_of(&types, types.rule_rows, PART), "0") == 0)
        types.rule_rows++;
    types.names = memory_new(((size_t)types.rule_rows + 1) * sizeof(*types.names));
    buffer_init(&types.out, MODULE_MAX);
    add(&types, "// Generated by \"clairon types\" from the live rules of the database.\n\n");
    write_interfaces(&types);
    write_rules(&types);
    if (types.is_full) {
        fprintf(stderr, "clairon " TYPES ": module larger than %d MB\n", MODULE_MAX >> 20);
        code = 1;
    } else {
        code = cli_print(types.out.bytes);
    }
    for (int i = 0; i < types.name_count; i++)
        free(types.names[i]);
    free(types.names);
    buffer_free(&types.out);
    return code;
}

/* ---- the query */

/* NULL after printing the error. */
static PGresult *
run(PGconn *conn, const char *command)
{
    PGresult *result = PQexec(conn, command);
    ExecStatusType status = PQresultStatus(result);
    const char *hint;

    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return result;
    hint = postgres_error_hint(PQresultErrorField(result, PG_DIAG_SQLSTATE),
                               PQresultErrorMessage(result));
    fprintf(stderr, "clairon " TYPES ": could not read the rules: %s%s%s\n",
            postgres_error_line(PQresultErrorMessage(result)), hint[0] != '\0' ? "; " : "", hint);
    PQclear(result);
    return NULL;
}

static int
print_types(const char *conninfo)
{
    /* a connect_timeout in conninfo replaces the first one */
    static const char *const keys[] = {"connect_timeout", "dbname", "fallback_application_name",
                                       "client_encoding", NULL};
    const char *const values[] = {"10", conninfo, "clairon types", "UTF8", NULL};
    PGconn *conn = PQconnectdbParams(keys, values, 1);
    PGresult *result = NULL;
    int code = 1;

    if (PQstatus(conn) != CONNECTION_OK) {
        fprintf(stderr, "clairon " TYPES ": could not connect to PostgreSQL: %s\n",
                postgres_error_line(PQerrorMessage(conn)));
    } else if ((result = run(conn, postgres_session_command(conn))) != NULL) {
        PQclear(result);
        result = run(conn, QUERY);
    }
    if (result != NULL)
        code = print_module(result);
    PQclear(result);
    PQfinish(conn);
    return code;
}

/* A relay without the role feed may set only [rows] conninfo. */
static enum rc
load_settings(struct config *ret_config, const char *path, int argc, char **argv,
              char error[CONFIG_ERROR_MAX])
{
    static char only_feed[] = "--relay.roles=feed", unused[] = "--feed.conninfo=dbname=unused";
    static char *const rows_only[] = {only_feed, unused, NULL};
    static char *const forced[] = {only_feed, NULL};
    enum rc rc = cli_settings_load(ret_config, path, argc, argv, rows_only, error);

    if (rc != RC_OK || ret_config->rows.conninfo != NULL)
        return rc;
    config_free(ret_config);
    *ret_config = (struct config){0};
    return cli_settings_load(ret_config, path, argc, argv, forced, error);
}

int
cli_types(int argc, char **argv)
{
    bool help = false;
    const char *path = NULL;
    const struct cli_option options[] = {{"--help", NULL, &help},
                                         {"-h", NULL, &help},
                                         {"-c", &path, NULL},
                                         {"--config", &path, NULL}};
    struct config config = {0};
    char error[CONFIG_ERROR_MAX];
    int code = cli_options_parse(TYPES, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 NULL, 0);

    if (code != 0)
        return code;
    if (help)
        return cli_print(types_usage);
    if (load_settings(&config, path, argc, argv, error) == RC_OK)
        code =
            print_types(config.rows.conninfo != NULL ? config.rows.conninfo : config.feed.conninfo);
    else
        code = cli_settings_error(TYPES, path, error);
    config_free(&config);
    return code;
}
