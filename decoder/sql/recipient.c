/*
 * recipient.c: the reader of rows: the targets of a rule that address this user, and the check of
 * each row.
 */
#include "sql/user_rows.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"

#include "base/data.h"
#include "changes/changes.h"
#include "encode/encode.h"
#include "plan/plan.h"

/* Collects the targets of each part, as lists of strings in the server's encoding. */
struct collected {
    int part_count;
    char *kinds[LIMIT_PARTS];
    List *targets[LIMIT_PARTS];
};

static int
compare_fragments(const void *a, const void *b)
{
    const struct fragment *left = a;
    const struct fragment *right = b;
    int order = memcmp(left->bytes, right->bytes, Min(left->len, right->len));

    return order != 0 ? order : left->len - right->len;
}

/* Splits STRUCTURE+ROLE. Audiences are ASCII. */
static void
split_audience(struct collected *collected, const char *audience)
{
    char *at = pstrdup(audience);

    while (at != NULL && collected->part_count < LIMIT_PARTS) {
        char *plus = strchr(at, '+');

        if (plus != NULL)
            *plus = '\0';
        collected->kinds[collected->part_count++] = at;
        at = plus == NULL ? NULL : plus + 1;
    }
}

/* Parsed once, and planned for the size of the table at each execution. */
static SPIPlanPtr
member_statement(void)
{
    static SPIPlanPtr kept;
    Oid types[] = {TEXTOID, TEXTOID};
    SPIPlanPtr plan;

    if (kept != NULL)
        return kept;
    plan = SPI_prepare_cursor("SELECT target FROM clairon.member"
                              " WHERE user_id OPERATOR(pg_catalog.=) $2"
                              " AND audience OPERATOR(pg_catalog.=) $1",
                              lengthof(types), types, CURSOR_OPT_CUSTOM_PLAN);
    if (plan == NULL || SPI_keepplan(plan) != 0)
        elog(ERROR, "could not prepare query: %s", SPI_result_code_string(SPI_result));
    kept = plan;
    return kept;
}

static void
collect_members(struct collected *collected, int part, const char *user_id)
{
    Datum values[] = {CStringGetTextDatum(collected->kinds[part]), CStringGetTextDatum(user_id)};

    if (SPI_execute_plan(member_statement(), values, NULL, true, 0) != SPI_OK_SELECT)
        elog(ERROR, "could not read clairon.member");
    for (uint64 i = 0; i < SPI_processed; i++)
        collected->targets[part] =
            lappend(collected->targets[part],
                    SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1));
    SPI_freetuptable(SPI_tuptable);
}

static void
collect_group(struct collected *collected, const JsonbValue *kind, const JsonbValue *target)
{
    for (int i = 0; i < collected->part_count; i++)
        if (kind->val.string.len == (int)strlen(collected->kinds[i]) &&
            memcmp(kind->val.string.val, collected->kinds[i], kind->val.string.len) == 0)
            collected->targets[i] = lappend(
                collected->targets[i], pnstrdup(target->val.string.val, target->val.string.len));
}

/* Groups of other kinds are ignored, even one named like a composite audience. */
static void
collect_groups(struct collected *collected, Jsonb *groups)
{
    JsonbIterator *iterator = JsonbIteratorInit(&groups->root);
    JsonbValue kind = {0};
    JsonbValue item;
    JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
    bool in_array = false;
    bool valid = token == WJB_BEGIN_OBJECT;

    while (valid && (token = JsonbIteratorNext(&iterator, &item, false)) != WJB_DONE) {
        switch (token) {
        case WJB_KEY:
            kind = item;
            break;
        case WJB_BEGIN_ARRAY:
            valid = !in_array;
            in_array = true;
            break;
        case WJB_ELEM:
            valid = item.type == jbvString;
            if (valid)
                collect_group(collected, &kind, &item);
            break;
        case WJB_END_ARRAY:
            in_array = false;
            break;
        default:
            valid = token == WJB_END_OBJECT;
        }
    }
    if (!valid)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for parameter \"groups\""),
                        errhint("The value must be an object of arrays of strings, such as "
                                "{\"STRUCTURE\": [\"s1\"]}.")));
}

static void
sort_targets(struct recipient_part *part, const List *targets)
{
    ListCell *cell;

    part->plain = palloc(sizeof(char *) * Max(list_length(targets), 1));
    part->texts = palloc(sizeof(struct fragment) * Max(list_length(targets), 1));
    foreach (cell, targets) {
        char *plain = lfirst(cell);
        struct fragment *text = &part->texts[part->count];

        part->plain[part->count++] = plain;
        text->bytes = encode_to_utf8(plain, strlen(plain), &text->len);
    }
    qsort(part->texts, part->count, sizeof(struct fragment), compare_fragments);
}

void
recipient_load(struct recipient *recipient, const struct rule *rule, const char *user_id,
               Jsonb *groups)
{
    bool to_user = strcmp(rule->audience, "USER") == 0;
    struct collected collected = {0};

    *recipient = (struct recipient){0};
    if (!to_user && !rule->to_all) {
        split_audience(&collected, rule->audience);
        for (int i = 0; i < collected.part_count; i++)
            collect_members(&collected, i, user_id);
    }
    collect_groups(&collected, groups);
    if (to_user) { /* replaces any groups with this kind's name */
        collected.part_count = 1;
        collected.kinds[0] = "";
        collected.targets[0] = list_make1(pstrdup(user_id));
    }
    recipient->part_count = collected.part_count;
    for (int i = 0; i < collected.part_count; i++) {
        recipient->parts[i].kind = collected.kinds[i];
        sort_targets(&recipient->parts[i], collected.targets[i]);
    }
}

static bool
part_contains(const struct recipient_part *part, const char *text, int len)
{
    struct fragment wanted = {text, len};

    return bsearch(&wanted, part->texts, part->count, sizeof(wanted), compare_fragments) != NULL;
}

/* Copies a part of a composite target, unescaped. Returns the end of the part. */
static const char *
copy_part(const char *at, const char *end, char *ret_part, int *ret_len)
{
    int len = 0;

    for (; at < end && *at != '+'; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        ret_part[len++] = *at;
    }
    *ret_len = len;
    return at;
}

/* True when the user belongs to each part of the target. */
static bool
belongs_to(const struct recipient *recipient, const char *text, int len)
{
    const char *at = text;
    const char *end = text + len;
    char *part;

    if (recipient->part_count == 1)
        return part_contains(&recipient->parts[0], text, len);
    part = palloc(len + 1);
    for (int i = 0; i < recipient->part_count; i++) {
        int part_len;

        at = copy_part(at, end, part, &part_len);
        if (!part_contains(&recipient->parts[i], part, part_len))
            return false;
        if (i + 1 < recipient->part_count && at++ == end)
            return false;
    }
    return at == end;
}

/* True when one of the targets, in the form of a notification, addresses the user. */
static bool
is_addressed(const struct recipient *recipient, const struct target_list *targets)
{
    if (recipient->part_count == 0)
        return true;
    for (int i = 0; i < targets->count; i++)
        if (belongs_to(recipient, targets->texts[i], targets->lengths[i]))
            return true;
    return false;
}

bool
recipient_may_read(const struct recipient *recipient, const struct rule *rule)
{
    return rule->target_column != 0 || rule->part_count > 0 ||
           is_addressed(recipient, &rule->literal);
}

/* Checks the targets first: only_when may be slow, and must warn only about the user's rows. */
bool
recipient_may_read_row(const struct recipient *recipient, struct decoder *decoder,
                       const struct plan *plan, const struct image *row)
{
    struct target_list *targets;
    bool too_many;
    bool met = true;

    if (plan->target_state == TARGET_COLUMNS &&
        !(audience_read_targets(decoder, plan, row, &targets, &too_many) &&
          is_addressed(recipient, targets)))
        return false;
    return plan->condition == NULL || (audience_meets_condition(decoder, plan, row, &met) && met);
}
