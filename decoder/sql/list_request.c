/*
 * list_request.c: the filter, order, start and length of a list.
 *
 *   filter  {"course_id": 7, "status": ["draft", null], "due": {"from": "2025-01-01", "to": ..}}
 *   sort    {"-created_at", "id"}; the columns of the key that it lacks follow, ascending
 *   after   the values of all these columns in the last row that the client has
 *
 * A value is what payload.after contains, or a text. The input function of the column's type reads
 * it. Columns are those of the rule's filter_columns; `sort` may also name the columns of the key.
 */
#include "sql/user_rows.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/typcache.h"

#include "base/sandbox.h"
#include "encode/encode.h"
#include "plan/plan.h"

/* The longest text of a fault; it may contain a value. */
#define FAULT_BYTES_MAX 500

/* The longest text of a number: a few bytes of JSON may have 131072 digits. */
#define NUMBER_BYTES_MAX 1000

/* Faults. */

/* A fault of the request, which ends its reading. */
static void
set_fault(struct row_request *request, int code, char *text)
{
    text[pg_mbcliplen(text, strlen(text), FAULT_BYTES_MAX)] = '\0';
    request->fault = code;
    request->fault_text = text;
}

static bool
reject_field(struct row_request *request, const char *field, const char *rule)
{
    set_fault(request, REQUEST_INVALID, psprintf("\"%s\" %s", field, rule));
    return false;
}

static bool
reject_column(struct row_request *request, const char *column, const char *rule)
{
    set_fault(request, REQUEST_INVALID, psprintf("column \"%s\": %s", column, rule));
    return false;
}

/* Columns. */

static bool
may_filter(const struct row_request *request, AttrNumber number)
{
    for (int i = 0; i < request->rule->filter_count; i++)
        if (request->rule->filter_columns[i] == number)
            return true;
    return false;
}

static bool
is_in_key(const struct row_request *request, AttrNumber number)
{
    for (int i = 0; i < request->key->count; i++)
        if (request->key->numbers[i] == number)
            return true;
    return false;
}

/* Returns the number of a column that the field may name, or 0 and sets the fault. */
static AttrNumber
find_column(struct row_request *request, const char *name, bool with_key)
{
    TupleDesc desc = RelationGetDescr(request->relation);

    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        if (plan_can_read(attribute) && strcmp(NameStr(attribute->attname), name) == 0 &&
            (may_filter(request, attribute->attnum) ||
             (with_key && is_in_key(request, attribute->attnum))))
            return attribute->attnum;
    }
    set_fault(request, REQUEST_DENIED,
              psprintf("column \"%s\" is not in filter_columns of rule \"%s\"", name,
                       request->rule->name));
    return 0;
}

static const char *
column_name(const struct row_request *request, AttrNumber number)
{
    return NameStr(TupleDescAttr(RelationGetDescr(request->relation), number - 1)->attname);
}

bool
row_type_read(struct row_type *type, Oid declared)
{
    TypeCacheEntry *entry;

    type->type = getBaseType(declared);
    entry = lookup_type_cache(type->type,
                              TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_BTREE_OPFAMILY);
    if (!OidIsValid(entry->lt_opr) || !OidIsValid(entry->eq_opr))
        return false;
    for (int i = BTLessStrategyNumber; i <= BTGreaterStrategyNumber; i++)
        type->operators[i] =
            get_opfamily_member(entry->btree_opf, entry->btree_opintype, entry->btree_opintype, i);
    return OidIsValid(type->operators[BTLessStrategyNumber]) &&
           OidIsValid(type->operators[BTGreaterStrategyNumber]);
}

/* A type may have lost its order since clairon.watch(): a composite with a new member of json. */
static void
read_type(const struct row_request *request, AttrNumber number, struct row_type *type)
{
    Oid declared = TupleDescAttr(RelationGetDescr(request->relation), number - 1)->atttypid;

    if (!row_type_read(type, declared))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("could not identify an ordering operator for type %s",
                               format_type_be(declared))));
}

/* The parts of a request, before values are read. */

/* Returns false for an array or object, and for a number like 1e100000. */
static bool
read_scalar(const JsonbValue *item, struct given_value *given)
{
    given->kind = item->type;
    switch (item->type) {
    case jbvNull:
        return true;
    case jbvString:
        given->text = pnstrdup(item->val.string.val, item->val.string.len);
        return true;
    case jbvNumeric:
        given->text =
            DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(item->val.numeric)));
        if (strlen(given->text) <= NUMBER_BYTES_MAX)
            return true;
        pfree(given->text);
        return false;
    case jbvBool:
        given->text = item->val.boolean ? "true" : "false";
        return true;
    default:
        return false;
    }
}

/* One of a list. */
static bool
read_list(struct row_request *request, struct row_condition *condition, JsonbContainer *list)
{
    JsonbIterator *iterator = JsonbIteratorInit(list);
    JsonbValue item;

    condition->given = palloc0(sizeof(struct given_value) * Max(JsonContainerSize(list), 1));
    (void)JsonbIteratorNext(&iterator, &item, true);
    while (JsonbIteratorNext(&iterator, &item, true) == WJB_ELEM) {
        struct given_value *given = &condition->given[condition->given_count];

        if (!read_scalar(&item, given))
            return reject_column(request, condition->name,
                                 "a list must contain strings, numbers, booleans or null");
        if (given->kind == jbvNull)
            condition->or_null = true;
        else
            condition->given_count++;
    }
    return true;
}

static bool
read_bound(struct row_request *request, struct row_condition *condition, JsonbContainer *range,
           const char *name, bool *ret_has, struct given_value *given)
{
    JsonbValue key = {.type = jbvString, .val.string = {strlen(name), (char *)name}};
    JsonbValue *item = findJsonbValueFromContainer(range, JB_FOBJECT, &key);

    *ret_has = item != NULL;
    if (item == NULL || (read_scalar(item, given) && given->kind != jbvNull))
        return true;
    return reject_column(
        request, condition->name,
        psprintf("\"%s\" of a range must be a string, a number or a boolean", name));
}

static bool
read_range(struct row_request *request, struct row_condition *condition, JsonbContainer *range)
{
    struct given_value from = {0}, to = {0};
    bool has_from, has_to;

    condition->is_range = true;
    if (!read_bound(request, condition, range, "from", &has_from, &from) ||
        !read_bound(request, condition, range, "to", &has_to, &to))
        return false;
    if (JsonContainerSize(range) == 0 || JsonContainerSize(range) != has_from + has_to)
        return reject_column(request, condition->name, "a range has \"from\", \"to\" or both");
    condition->has_from = has_from;
    condition->given = palloc(sizeof(from) * 2);
    if (has_from)
        condition->given[condition->given_count++] = from;
    if (has_to)
        condition->given[condition->given_count++] = to;
    return true;
}

static bool
read_condition(struct row_request *request, const char *name, const JsonbValue *value)
{
    struct row_condition *condition = &request->conditions[request->condition_count];

    *condition = (struct row_condition){.name = name, .number = find_column(request, name, false)};
    if (condition->number == 0)
        return false;
    request->condition_count++;
    read_type(request, condition->number, &condition->type);
    if (value->type == jbvBinary)
        return JsonContainerIsArray(value->val.binary.data)
                   ? read_list(request, condition, value->val.binary.data)
                   : read_range(request, condition, value->val.binary.data);
    condition->given = palloc0(sizeof(struct given_value));
    if (!read_scalar(value, condition->given))
        return reject_column(request, name, "unexpected value");
    condition->or_null = value->type == jbvNull;
    condition->given_count = condition->or_null ? 0 : 1;
    return true;
}

static bool
read_filter(struct row_request *request, Jsonb *filter)
{
    JsonbIterator *iterator;
    JsonbValue name, value;

    if (!JB_ROOT_IS_OBJECT(filter))
        return reject_field(request, request->fields->filter, "must be an object");
    request->conditions = palloc0(sizeof(struct row_condition) * Max(JB_ROOT_COUNT(filter), 1));
    iterator = JsonbIteratorInit(&filter->root);
    (void)JsonbIteratorNext(&iterator, &name, true);
    while (JsonbIteratorNext(&iterator, &name, true) == WJB_KEY) {
        (void)JsonbIteratorNext(&iterator, &value, true);
        if (!read_condition(request, pnstrdup(name.val.string.val, name.val.string.len), &value))
            return false;
    }
    return true;
}

static bool
is_ordered_by(const struct row_request *request, AttrNumber number)
{
    for (int i = 0; i < request->order_count; i++)
        if (request->order[i].number == number)
            return true;
    return false;
}

static void
add_order(struct row_request *request, AttrNumber number, bool is_descending, Oid collation)
{
    struct order_column *column = &request->order[request->order_count++];

    *column = (struct order_column){.number = number,
                                    .is_descending = is_descending,
                                    .is_nullable = !is_in_key(request, number),
                                    .collation = collation};
    read_type(request, number, &column->type);
}

static bool
read_order(struct row_request *request, const char *given)
{
    bool is_descending = given[0] == '-';
    const char *name = given + is_descending;
    AttrNumber number = find_column(request, name, true);

    if (number == 0)
        return false;
    if (is_ordered_by(request, number))
        return reject_field(request, request->fields->sort,
                            psprintf("contains column \"%s\" twice", name));
    add_order(request, number, is_descending,
              TupleDescAttr(RelationGetDescr(request->relation), number - 1)->attcollation);
    return true;
}

static bool
read_sort(struct row_request *request, ArrayType *sort)
{
    Datum *items;
    bool *nulls;
    int count;

    if (ARR_NDIM(sort) > 1)
        return reject_field(request, request->fields->sort, "must be an array of column names");
    deconstruct_array(sort, TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &count);
    for (int i = 0; i < count; i++) {
        if (nulls[i])
            return reject_field(request, request->fields->sort, "must not contain null");
        if (!read_order(request, TextDatumGetCString(items[i])))
            return false;
    }
    return true;
}

/* Each column at most once: those of the filter, then those of the key. */
static bool
read_orders(struct row_request *request, ArrayType *sort)
{
    const struct row_key *key = request->key;

    request->order =
        palloc(sizeof(struct order_column) * (request->rule->filter_count + key->count + 1));
    if (sort != NULL && !read_sort(request, sort))
        return false;
    for (int i = 0; i < key->count; i++)
        if (!is_ordered_by(request, key->numbers[i]))
            add_order(request, key->numbers[i], false, key->collations[i]);
    return true;
}

static bool
read_after(struct row_request *request, Jsonb *after)
{
    const char *field = request->fields->after;
    JsonbIterator *iterator;
    JsonbValue item;

    if (!JB_ROOT_IS_ARRAY(after) || JB_ROOT_IS_SCALAR(after))
        return reject_field(request, field, "must be an array");
    if (JB_ROOT_COUNT(after) != request->order_count)
        return reject_field(
            request, field,
            psprintf("must have one value for each column of \"%s\" and of the key (%d)",
                     request->fields->sort, request->order_count));
    request->has_after = true;
    iterator = JsonbIteratorInit(&after->root);
    (void)JsonbIteratorNext(&iterator, &item, true);
    for (int i = 0; JsonbIteratorNext(&iterator, &item, true) == WJB_ELEM; i++)
        if (!read_scalar(&item, &request->order[i].given))
            return reject_field(request, field, "must contain strings, numbers, booleans or null");
    return true;
}

bool
row_request_read(struct row_request *request, const struct row_request_input *input)
{
    if (request->has_limit && (request->limit < 1 || request->limit > request->max_rows))
        return reject_field(request, "limit", psprintf("must be 1 to %d", request->max_rows));
    if (request->is_count && (request->has_limit || input->after != NULL || input->sort != NULL))
        return reject_field(request, "count",
                            psprintf("excludes \"limit\", \"%s\" and \"%s\"", request->fields->sort,
                                     request->fields->after));
    return (input->filter == NULL || read_filter(request, input->filter)) &&
           read_orders(request, input->sort) &&
           (input->after == NULL || read_after(request, input->after));
}

/* Values. */

struct conversion {
    struct row_request *request;
    const char *column; /* whose value is being read */
};

/* payload.after contains bytea in base64, the text form starts with a backslash. */
static Datum
read_bytea(const char *text)
{
    return DirectFunctionCall2(binary_decode, CStringGetTextDatum(text),
                               CStringGetTextDatum("base64"));
}

/*
 * The input of a composite runs code of the owner, in constraints of domains. Settings that it
 * changes are reverted, before other values are read.
 */
static Datum
read_value(const struct given_value *given, Oid type)
{
    int level = NewGUCNestLevel();
    Oid function;
    Oid parameter;
    Datum value;

    if (type == BYTEAOID && given->text[0] != '\\') {
        value = read_bytea(given->text);
    } else {
        getTypeInputInfo(type, &function, &parameter);
        value = OidInputFunctionCall(function, given->text, parameter, -1);
    }
    AtEOXact_GUC(false, level);
    return value;
}

static void
read_values(struct conversion *conversion, struct row_condition *condition)
{
    conversion->column = condition->name;
    /* Types such as enums look up a name in the value. */
    if (!encode_is_native(condition->type.type))
        guard_catalog_caches(condition->given_count);
    condition->values = palloc(sizeof(Datum) * Max(condition->given_count, 1));
    for (int i = 0; i < condition->given_count; i++)
        condition->values[i] = read_value(&condition->given[i], condition->type.type);
}

static void
convert(void *arg)
{
    struct conversion *conversion = arg;
    struct row_request *request = conversion->request;

    for (int i = 0; i < request->condition_count; i++)
        read_values(conversion, &request->conditions[i]);
    for (int i = 0; request->has_after && i < request->order_count; i++) {
        struct order_column *column = &request->order[i];

        conversion->column = column_name(request, column->number);
        column->is_null = column->given.kind == jbvNull;
        if (!column->is_null)
            column->after = read_value(&column->given, column->type.type);
    }
}

/*
 * One subtransaction for all values: input functions of extensions raise errors in all releases,
 * and an error that is not caught would be logged as often as a client likes.
 */
bool
row_request_convert(struct row_request *request)
{
    struct conversion conversion = {.request = request};
    char *reason;

    return guard_run(convert, &conversion, &reason) ||
           reject_column(request, conversion.column, reason);
}

/* The columns that a client may compare itself. */

/*
 * How a column is compared. An order is the same in JavaScript for integers, booleans and UUIDs: a
 * string's code units have another order than its code points, and other types have another order
 * than their text. Equal values have the same JSON, and only these, for more types.
 */
enum comparison { COMPARE_NEVER, COMPARE_EQUALITY, COMPARE_ORDER };

static enum comparison
comparison_of_text(Oid collation)
{
    return GetDatabaseEncoding() == PG_UTF8 && OidIsValid(collation) &&
                   get_collation_isdeterministic(collation)
               ? COMPARE_EQUALITY
               : COMPARE_NEVER;
}

static enum comparison
comparison_of(Oid type, Oid collation)
{
    switch (type) {
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case BOOLOID:
    case UUIDOID:
        return COMPARE_ORDER;
    case TEXTOID:
    case VARCHAROID:
        return comparison_of_text(collation);
    default:
        return get_typtype(type) == TYPTYPE_ENUM ? COMPARE_EQUALITY : COMPARE_NEVER;
    }
}

/* True if the value is what payload.after contains: "07" is equal to 7 for PostgreSQL only. */
static bool
is_canonical(const struct given_value *given, Oid type, Datum value)
{
    Oid output;
    bool is_varlena;

    if (given->kind != (type == BOOLOID ? jbvBool : jbvString) &&
        !(given->kind == jbvNumeric && (type == INT2OID || type == INT4OID || type == INT8OID)))
        return false;
    if (type == BOOLOID)
        return true;
    getTypeOutputInfo(type, &output, &is_varlena);
    return strcmp(OidOutputFunctionCall(output, value), given->text) == 0;
}

/* Integers beyond 2^53 are strings in JSON, all others numbers. */
static bool
is_json_form(const struct given_value *given, Oid type, Datum value)
{
    const int64 safe = INT64CONST(9007199254740991);

    if (!is_canonical(given, type, value))
        return false;
    if (type == INT8OID)
        return (given->kind == jbvNumeric) ==
               (DatumGetInt64(value) >= -safe && DatumGetInt64(value) <= safe);
    return (type != INT2OID && type != INT4OID) || given->kind == jbvNumeric;
}

static bool
may_compare(const struct row_request *request, AttrNumber number)
{
    Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(request->relation), number - 1);
    Oid type = getBaseType(attribute->atttypid);
    enum comparison comparison = comparison_of(type, attribute->attcollation);

    if (comparison == COMPARE_NEVER ||
        (comparison == COMPARE_EQUALITY && is_ordered_by(request, number)))
        return false;
    for (int i = 0; i < request->condition_count; i++) {
        const struct row_condition *condition = &request->conditions[i];

        if (condition->number != number)
            continue;
        if (condition->is_range && comparison == COMPARE_EQUALITY)
            return false;
        for (int j = 0; j < condition->given_count; j++)
            if (!is_json_form(&condition->given[j], type, condition->values[j]))
                return false;
    }
    return true;
}

/* Only columns that the rule still has. */
AttrNumber
row_request_comparable(const struct row_request *request, AttrNumber after)
{
    TupleDesc desc = RelationGetDescr(request->relation);

    for (int number = after + 1; number <= desc->natts; number++)
        if ((may_filter(request, number) || is_in_key(request, number)) &&
            plan_can_read(TupleDescAttr(desc, number - 1)) && may_compare(request, number))
            return number;
    return 0;
}
