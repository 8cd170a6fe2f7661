/*
 * statement.c: the prepared statements of recent queries.
 *
 * The text of a query depends only on the rule and on the form of the request, so the requests of
 * all users share few statements. Each execution is planned for its values: a plan for unknown
 * values may be worse by orders of magnitude.
 */
#include "sql/user_rows.h"

#include "common/hashfn.h"
#include "executor/spi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Most statements need 20 to 60 kB. */
#define STATEMENTS_MAX 64
#define TEXT_BYTES_MAX 8192

struct row_statement {
    dlist_node node;
    SPIPlanPtr plan;
    uint32 hash; /* of the text */
    Oid relid;
    Oid user;
    int parameter_count;
    Oid *types;
    char *text;
};

/* The last used one first. */
static dlist_head kept = DLIST_STATIC_INIT(kept);
static int kept_count;

static uint32
hash_of(const struct row_query *query)
{
    return hash_bytes((const unsigned char *)query->text.data, query->text.len);
}

static bool
is_for(const struct row_statement *statement, const struct row_query *query, uint32 hash, Oid relid)
{
    return statement->hash == hash && statement->relid == relid && statement->user == GetUserId() &&
           statement->parameter_count == query->parameter_count &&
           (query->parameter_count == 0 ||
            memcmp(statement->types, query->types, sizeof(Oid) * query->parameter_count) == 0) &&
           strcmp(statement->text, query->text.data) == 0;
}

static void
detach(struct row_statement *statement)
{
    dlist_delete(&statement->node);
    kept_count--;
}

static void
drop(struct row_statement *statement)
{
    SPI_freeplan(statement->plan);
    if (statement->types != NULL)
        pfree(statement->types);
    pfree(statement->text);
    pfree(statement);
}

static SPIPlanPtr
prepare(const struct row_query *query)
{
    SPIPlanPtr plan = SPI_prepare_cursor(query->text.data, query->parameter_count, query->types,
                                         CURSOR_OPT_CUSTOM_PLAN);

    if (plan == NULL)
        elog(ERROR, "could not prepare query: %s", SPI_result_code_string(SPI_result));
    return plan;
}

/*
 * A statement that became invalid is not used: PostgreSQL would resolve its names again, and plan
 * it, before the relation can be checked. Locks on the relation and its partitions are held, so no
 * other invalidation is processed between this check and the planning.
 */
SPIPlanPtr
row_statement_acquire(const struct row_query *query, Oid relid,
                      struct row_statement **ret_statement)
{
    uint32 hash = hash_of(query);
    dlist_mutable_iter at;

    *ret_statement = NULL;
    dlist_foreach_modify(at, &kept)
    {
        struct row_statement *statement = dlist_container(struct row_statement, node, at.cur);

        if (!is_for(statement, query, hash, relid))
            continue;
        detach(statement);
        if (SPI_plan_is_valid(statement->plan)) {
            *ret_statement = statement;
            return statement->plan;
        }
        drop(statement);
    }
    return prepare(query);
}

static struct row_statement *
new_statement(const struct row_query *query, Oid relid, SPIPlanPtr plan)
{
    MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
    struct row_statement *statement = palloc0(sizeof(*statement));

    statement->hash = hash_of(query);
    statement->relid = relid;
    statement->user = GetUserId();
    statement->parameter_count = query->parameter_count;
    if (query->parameter_count > 0) {
        statement->types = palloc(sizeof(Oid) * query->parameter_count);
        memcpy(statement->types, query->types, sizeof(Oid) * query->parameter_count);
    }
    statement->text = pstrdup(query->text.data);
    statement->plan = plan;
    MemoryContextSwitchTo(old);
    return statement;
}

static void
add(struct row_statement *statement)
{
    dlist_push_head(&kept, &statement->node);
    if (++kept_count > STATEMENTS_MAX) {
        struct row_statement *last = dlist_tail_element(struct row_statement, node, &kept);

        detach(last);
        drop(last);
    }
}

void
row_statement_release(const struct row_query *query, Oid relid, SPIPlanPtr plan,
                      struct row_statement *statement)
{
    if (statement != NULL)
        add(statement);
    else if (query->text.len > TEXT_BYTES_MAX || SPI_keepplan(plan) != 0)
        SPI_freeplan(plan);
    else
        add(new_statement(query, relid, plan));
}
