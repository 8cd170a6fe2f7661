/* query.c: write the query for the rows that a live rule may address to a user. */
#include "rows/query.h"

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "base/sandbox.h"

/*
 * The equality operator of the type, or InvalidOid if no condition is possible. For base types and
 * enums, the input function converts a value's text to an equal value. So a condition on the value
 * finds each row with that target.
 */
static Oid
equality_of(Oid type)
{
    char kind = get_typtype(type);

    if (kind != TYPTYPE_ENUM && kind != TYPTYPE_BASE)
        return InvalidOid;
    return lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
}

struct input {
    FmgrInfo function;
    Oid io_parameter;
    char *text;
    Datum value;
};

static void
read_value(void *arg)
{
    struct input *input = arg;

    input->value = InputFunctionCall(&input->function, input->text, input->io_parameter, -1);
}

/*
 * Converts the targets to values of the type. Targets that the type rejects are skipped: no row
 * contains them.
 */
static int
read_values(const struct recipient_part *part, Oid type, Datum *ret_values)
{
    struct input input;
    Oid function;
    char *reason;
    int count = 0;

    getTypeInputInfo(type, &function, &input.io_parameter);
    fmgr_info(function, &input.function);
    for (int i = 0; i < part->count; i++) {
        input.text = part->plain[i];
        if (guard_run(read_value, &input, &reason))
            ret_values[count++] = input.value;
    }
    return count;
}

static void
add_parameter(struct row_query *query, Oid type, Datum value)
{
    query->types[query->parameter_count] = type;
    query->values[query->parameter_count++] = value;
}

static void
add_array(struct row_query *query, Oid element, Datum *values, int count)
{
    int16 typlen;
    bool typbyval;
    char typalign;

    get_typlenbyvalalign(element, &typlen, &typbyval, &typalign);
    add_parameter(
        query, get_array_type(element),
        PointerGetDatum(construct_array(values, count, element, typlen, typbyval, typalign)));
}

static const char *
qualified_operator(Oid operator)
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
static const char *
column_expression(Form_pg_attribute attribute, Oid base)
{
    const char *column = quote_identifier(NameStr(attribute->attname));

    if (attribute->atttypid == base)
        return psprintf("t.%s", column);
    return psprintf(
        "t.%s::%s", column,
        format_type_extended(base, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

/* Indexes serve a single value better than an array. */
static void
put_condition(struct row_query *query, const char *column, const char *operator, bool is_array,
              Oid type, Datum *values, int count)
{
    bool is_list = !is_array && count > 1;

    if (is_array || is_list)
        add_array(query, type, values, count);
    else
        add_parameter(query, type, values[0]);
    appendStringInfo(&query->text, " %s %s %s %s($%d)",
                     query->parameter_count == 1 ? "WHERE" : "AND", column, operator,
                     is_list ? "ANY " : "", query->parameter_count);
}

static void
restrict_column(struct row_query *query, Form_pg_attribute attribute, const struct encoder *encoder,
                const struct recipient_part *part)
{
    bool is_array = encoder->element != NULL;
    Oid type = is_array ? get_element_type(encoder->type) : encoder->type;
    Oid equality;
    Datum *values;
    int count;

    /* int2vector and oidvector have elements, but are not arrays. */
    if (!OidIsValid(type) || (is_array && get_array_type(type) != encoder->type))
        return;
    equality = equality_of(type);
    if (!OidIsValid(equality))
        return;
    values = palloc(sizeof(Datum) * Max(part->count, 1));
    count = read_values(part, type, values);
    if (count == 0)
        query->is_empty = true;
    else
        put_condition(query, column_expression(attribute, encoder->type),
                      is_array ? "OPERATOR(pg_catalog.&&)" : qualified_operator(equality), is_array,
                      type, values, count);
}

static void
put_columns(struct row_query *query, TupleDesc desc)
{
    query->indexes = palloc(sizeof(int) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        if (!plan_can_read(attribute))
            continue;
        appendStringInfo(&query->text, "%st.%s", query->column_count > 0 ? ", " : "",
                         quote_identifier(NameStr(attribute->attname)));
        query->indexes[query->column_count++] = i;
    }
}

void
row_query_build(struct row_query *query, Relation relation, const struct plan *plan,
                const struct recipient *recipient)
{
    TupleDesc desc = RelationGetDescr(relation);
    char *schema = get_namespace_name(RelationGetNamespace(relation));

    *query = (struct row_query){0};
    initStringInfo(&query->text);
    appendStringInfoString(&query->text, "SELECT ");
    put_columns(query, desc);
    appendStringInfo(&query->text, " FROM %s AS t",
                     quote_qualified_identifier(schema, RelationGetRelationName(relation)));
    for (int i = 0; i < plan->part_count; i++) {
        const struct bound_column *column = &plan->parts[i].column;

        if (column->index >= 0)
            restrict_column(query, TupleDescAttr(desc, column->index), column->encoder,
                            &recipient->parts[i]);
    }
}
