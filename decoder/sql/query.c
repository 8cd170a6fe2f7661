/*
 * query.c: the text and the parameters of the query for the rows of a list.
 *
 * The text depends on the rule, on the columns of filter and order, and on which of them have one
 * or several values; all values are parameters. So all users share it. With a limit the query has
 * the order of the list, and an index on target, filter and order columns serves it. A btree index
 * does so for one value of each column, and PostgreSQL sorts all rows of a condition = ANY (..): so
 * there is a scan for each value, and their first rows are merged:
 *
 *   SELECT r.* FROM unnest($1) AS v1 (v) CROSS JOIN LATERAL (
 *       SELECT .. FROM t WHERE t.owner = v1.v AND t.state = $2 ORDER BY t.at DESC, t.id LIMIT $3
 *   ) AS r ORDER BY r.at DESC, r.id LIMIT $4
 */
#include "sql/user_rows.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

const char *
row_operator(Oid operator)
{
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
    Form_pg_operator form;
    char *text;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator %u", operator);
    form = (Form_pg_operator)GETSTRUCT(tuple);
    text = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
                    NameStr(form->oprname));
    ReleaseSysCache(tuple);
    return text;
}

/*
 * The column cast to its base type: polymorphic operators, such as enum operators, reject domains.
 * Without a type modifier the cast changes no value and an index still serves the condition.
 */
const char *
row_column(Form_pg_attribute attribute, Oid base)
{
    const char *column = quote_identifier(NameStr(attribute->attname));

    if (attribute->atttypid == base)
        return psprintf("t.%s", column);
    return psprintf(
        "t.%s::%s", column,
        format_type_extended(base, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

/* Returns the number of the parameter. */
static int
add_parameter(struct row_query *query, Oid type, Datum value)
{
    if (query->parameter_count == query->room) {
        query->room = query->room * 2 + 8;
        query->types = query->types == NULL ? palloc(sizeof(Oid) * query->room)
                                            : repalloc(query->types, sizeof(Oid) * query->room);
        query->values = query->values == NULL
                            ? palloc(sizeof(Datum) * query->room)
                            : repalloc(query->values, sizeof(Datum) * query->room);
    }
    query->types[query->parameter_count] = type;
    query->values[query->parameter_count] = value;
    return ++query->parameter_count;
}

static int
add_array(struct row_query *query, const struct row_values *values)
{
    int16 typlen;
    bool typbyval;
    char typalign;

    get_typlenbyvalalign(values->type, &typlen, &typbyval, &typalign);
    return add_parameter(
        query, get_array_type(values->type),
        PointerGetDatum(construct_array(values->values, values->count, values->type, typlen,
                                        typbyval, typalign)));
}

/* Columns. */

static Form_pg_attribute
attribute_of(const struct row_shape *shape, AttrNumber number)
{
    return TupleDescAttr(RelationGetDescr(shape->relation), number - 1);
}

static void
put_columns(struct row_query *query, const struct row_shape *shape, const char *alias)
{
    TupleDesc desc = RelationGetDescr(shape->relation);
    const char *separator = "";

    for (int i = 0; i < desc->natts; i++) {
        if (!shape->picked[i])
            continue;
        appendStringInfo(&query->text, "%s%s.%s", separator, alias,
                         quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)));
        separator = ", ";
    }
}

static const char *
collation_name(Oid collation)
{
    HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
    Form_pg_collation form;
    char *name;

    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for collation %u", collation);
    form = (Form_pg_collation)GETSTRUCT(tuple);
    name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
                                      NameStr(form->collname));
    ReleaseSysCache(tuple);
    return name;
}

/* The index of the key may have another collation than its column. */
static const char *
collate_clause(const struct row_shape *shape, const struct order_column *column)
{
    if (column->collation == attribute_of(shape, column->number)->attcollation ||
        !OidIsValid(column->collation))
        return "";
    return psprintf(" COLLATE %s", collation_name(column->collation));
}

static void
put_order(struct row_query *query, const struct row_shape *shape, const char *alias)
{
    const struct row_request *request = shape->request;

    for (int i = 0; i < request->order_count; i++) {
        const struct order_column *column = &request->order[i];

        appendStringInfo(&query->text, "%s%s.%s%s%s", i > 0 ? ", " : " ORDER BY ", alias,
                         quote_identifier(NameStr(attribute_of(shape, column->number)->attname)),
                         collate_clause(shape, column), column->is_descending ? " DESC" : "");
    }
    appendStringInfo(&query->text, " LIMIT $%d",
                     add_parameter(query, INT8OID, Int64GetDatum(shape->limit)));
}

/* Conditions. */

/* Unlike IS NULL, these are false for a composite of nulls. Indexes serve both. */
#define IS_NULL "IS NOT DISTINCT FROM NULL"
#define IS_NOT_NULL "IS DISTINCT FROM NULL"

static void
put_and(struct row_query *query, bool *is_first)
{
    appendStringInfoString(&query->text, *is_first ? " WHERE " : " AND ");
    *is_first = false;
}

/* Indexes serve a single value better than an array. Arrays of arrays do not exist. */
static void
put_values(struct row_query *query, const struct row_values *values)
{
    const char *left = psprintf("%s %s", values->column, values->equality);

    if (values->scan > 0)
        appendStringInfo(&query->text, "%s v%d.v", left, values->scan);
    else if (values->is_overlap)
        appendStringInfo(&query->text, "%s $%d", left, add_array(query, values));
    else if (values->count > 1 && OidIsValid(get_array_type(values->type)))
        appendStringInfo(&query->text, "%s ANY ($%d)", left, add_array(query, values));
    else
        for (int i = 0; i < values->count; i++)
            appendStringInfo(&query->text, "%s%s $%d", i > 0 ? " OR " : "", left,
                             add_parameter(query, values->type, values->values[i]));
    if (values->or_null)
        appendStringInfo(&query->text, "%s%s " IS_NULL, values->count > 0 ? " OR " : "",
                         values->column);
}

static void
put_range(struct row_query *query, const struct row_shape *shape,
          const struct row_condition *condition, bool *is_first)
{
    const char *column = row_column(attribute_of(shape, condition->number), condition->type.type);

    for (int i = 0; i < condition->given_count; i++) {
        int strategy =
            condition->has_from && i == 0 ? BTGreaterEqualStrategyNumber : BTLessStrategyNumber;

        put_and(query, is_first);
        appendStringInfo(&query->text, "%s %s $%d", column,
                         row_operator(condition->type.operators[strategy]),
                         add_parameter(query, condition->type.type, condition->values[i]));
    }
}

static void
put_bound(struct row_query *query, const struct row_shape *shape, const struct order_column *column,
          int bound, bool *is_first)
{
    const char *expression =
        psprintf("%s%s", row_column(attribute_of(shape, column->number), column->type.type),
                 collate_clause(shape, column));

    put_and(query, is_first);
    if (bound == BOUND_NULL || bound == BOUND_NOT_NULL)
        appendStringInfo(&query->text, "%s %s", expression,
                         bound == BOUND_NULL ? IS_NULL : IS_NOT_NULL);
    else
        appendStringInfo(&query->text, "%s %s $%d", expression,
                         row_operator(column->type.operators[bound]),
                         add_parameter(query, column->type.type, column->after));
}

static void
put_piece(struct row_query *query, const struct row_shape *shape, const struct row_piece *piece,
          bool *is_first)
{
    const struct order_column *order = shape->request->order;

    for (int i = 0; i < piece->prefix; i++)
        put_bound(query, shape, &order[i], order[i].is_null ? BOUND_NULL : BTEqualStrategyNumber,
                  is_first);
    if (piece->prefix >= 0)
        put_bound(query, shape, &order[piece->prefix], piece->bound, is_first);
}

static void
put_scan(struct row_query *query, const struct row_shape *shape, const struct row_piece *piece)
{
    const struct row_request *request = shape->request;
    char *schema = get_namespace_name(RelationGetNamespace(shape->relation));
    bool is_first = true;

    appendStringInfoString(&query->text, "SELECT ");
    put_columns(query, shape, "t");
    appendStringInfo(&query->text, " FROM %s AS t",
                     quote_qualified_identifier(schema, RelationGetRelationName(shape->relation)));
    for (int i = 0; i < shape->value_count; i++) {
        put_and(query, &is_first);
        appendStringInfoChar(&query->text, '(');
        put_values(query, &shape->values[i]);
        appendStringInfoChar(&query->text, ')');
    }
    for (int i = 0; i < request->condition_count; i++)
        if (request->conditions[i].is_range)
            put_range(query, shape, &request->conditions[i], &is_first);
    put_piece(query, shape, piece, &is_first);
    if (shape->is_ordered)
        put_order(query, shape, "t");
}

void
row_query_build(struct row_query *query, const struct row_shape *shape,
                const struct row_piece *piece)
{
    *query = (struct row_query){0};
    initStringInfo(&query->text);
    if (!shape->is_merged) {
        put_scan(query, shape, piece);
        return;
    }
    appendStringInfoString(&query->text, "SELECT ");
    put_columns(query, shape, "r");
    appendStringInfoString(&query->text, " FROM ");
    for (int i = 0; i < shape->value_count; i++)
        if (shape->values[i].scan > 0)
            appendStringInfo(&query->text, "pg_catalog.unnest($%d) AS v%d (v) CROSS JOIN ",
                             add_array(query, &shape->values[i]), shape->values[i].scan);
    appendStringInfoString(&query->text, "LATERAL (");
    put_scan(query, shape, piece);
    appendStringInfoString(&query->text, ") AS r");
    put_order(query, shape, "r");
}

/* Scans for each value. */

/* unnest() would return the members of a composite as columns. */
static bool
may_have_scans(const struct row_values *values)
{
    return values->count > 1 && values->count <= MERGED_SCANS_MAX && !values->is_overlap &&
           !values->or_null && get_typtype(values->type) != TYPTYPE_COMPOSITE &&
           OidIsValid(get_array_type(values->type));
}

/* The fewest values first, so that most columns have scans. */
static struct row_values *
next_merged(const struct row_shape *shape)
{
    struct row_values *next = NULL;

    for (int i = 0; i < shape->value_count; i++) {
        struct row_values *values = &shape->values[i];

        if (values->scan == 0 && may_have_scans(values) &&
            (next == NULL || values->count < next->count))
            next = values;
    }
    return next;
}

bool
row_shape_merge(struct row_shape *shape)
{
    struct row_values *next;
    int scans = 1;
    int number = 0;

    while ((next = next_merged(shape)) != NULL && scans * next->count <= MERGED_SCANS_MAX) {
        scans *= next->count;
        next->scan = ++number;
    }
    shape->is_merged = number > 0;
    return shape->is_merged;
}

void
row_shape_join(struct row_shape *shape)
{
    for (int i = 0; i < shape->value_count; i++)
        shape->values[i].scan = 0;
    shape->is_merged = false;
}

/* Ranges of the order. */

struct row_piece *
row_pieces(const struct row_request *request, int *ret_count)
{
    struct row_piece *pieces = palloc(sizeof(*pieces) * (2 * request->order_count + 1));
    int count = 0;

    if (!request->has_after)
        pieces[count++] = (struct row_piece){.prefix = -1};
    for (int i = request->order_count - 1; request->has_after && i >= 0; i--) {
        const struct order_column *column = &request->order[i];

        if (column->is_descending)
            pieces[count++] =
                (struct row_piece){i, column->is_null ? BOUND_NOT_NULL : BTLessStrategyNumber};
        else if (!column->is_null)
            pieces[count++] = (struct row_piece){i, BTGreaterStrategyNumber};
        if (!column->is_descending && !column->is_null && column->is_nullable)
            pieces[count++] = (struct row_piece){i, BOUND_NULL};
    }
    *ret_count = count;
    return pieces;
}
