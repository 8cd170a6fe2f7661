/* objects.c: remember and compare the catalog objects that plans were prepared from. */
#include "rules/objects.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/catcache.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "encode/encode.h"
#include "rules/rules.h"

enum object_kind {
    USED_TYPE,      /* with its schema, labels, casts and functions */
    USED_FUNCTION,  /* with its schema */
    USED_OPERATOR,  /* with its schema */
    USED_COLLATION, /* with its schema */
    USED_ROLE,      /* as which an expression is parsed */
    USED_CAST       /* from `oid` to `target` */
};

struct object_key {
    enum object_kind kind;
    Oid oid;
    Oid target;
};

struct object {
    struct object_key key;
    struct digest digest;
};

struct objects {
    MemoryContext context;
    uint64 memberships;
    bool is_outdated;
    HTAB *table; /* NULL: no objects */
};

/* Changes of role memberships, which privileges depend on. */
static uint64 memberships;

static void
on_membership(Datum arg, int cache, uint32 hash)
{
    memberships++;
}

struct objects *
objects_new(MemoryContext *ret_context)
{
    static bool registered;
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "clairon objects", ALLOCSET_SMALL_SIZES);
    struct objects *objects = MemoryContextAllocZero(context, sizeof(*objects));

    if (!registered)
        CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, on_membership, (Datum)0);
    registered = true;
    objects->context = context;
    objects->memberships = memberships;
    *ret_context = context;
    return objects;
}

long
objects_count(const struct objects *objects)
{
    return objects->table == NULL ? 0 : hash_get_num_entries(objects->table);
}

static bool
is_foreign(Oid object)
{
    return object >= FirstNormalObjectId;
}

static void
digest_row(struct digest *digest, HeapTuple row)
{
    TransactionId xmin = HeapTupleHeaderGetRawXmin(row->t_data);

    digest_add_value(digest, xmin);
    digest_add_value(digest, row->t_self);
}

/* Adds the row of an object outside PostgreSQL itself. It may have been dropped. */
static void
digest_object(struct digest *digest, int cache, Oid oid)
{
    HeapTuple row;

    if (!is_foreign(oid))
        return;
    row = SearchSysCache1(cache, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(row))
        return;
    digest_row(digest, row);
    ReleaseSysCache(row);
}

/* Adds all rows with this key. */
static void
digest_list(struct digest *digest, int cache, Oid key)
{
    CatCList *list = SearchSysCacheList1(cache, ObjectIdGetDatum(key));

    for (int i = 0; i < list->n_members; i++)
        digest_row(digest, &list->members[i]->tuple);
    digest_add_value(digest, list->n_members);
    ReleaseSysCacheList(list);
}

/* Casts from the type decide which functions and operators are called with its values. */
static void
digest_type(struct digest *digest, Oid oid)
{
    HeapTuple row = SearchSysCache1(TYPEOID, ObjectIdGetDatum(oid));
    Form_pg_type type;

    if (!HeapTupleIsValid(row))
        return;
    type = (Form_pg_type)GETSTRUCT(row);
    digest_row(digest, row);
    digest_object(digest, NAMESPACEOID, type->typnamespace);
    digest_object(digest, PROCOID, type->typinput);
    digest_object(digest, PROCOID, type->typoutput);
    digest_object(digest, PROCOID, type->typsubscript);
    digest_list(digest, CASTSOURCETARGET, oid);
    if (type->typtype == TYPTYPE_ENUM)
        digest_list(digest, ENUMTYPOIDNAME, oid);
    if (type->typtype == TYPTYPE_COMPOSITE &&
        SearchSysCacheExists1(RELOID, ObjectIdGetDatum(type->typrelid))) {
        uint64 identifier;

        /* The members are those of a relation: PostgreSQL numbers its versions. */
        ReleaseTupleDesc(encoders_row_type(oid, -1, &identifier));
        digest_add_value(digest, identifier);
    }
    ReleaseSysCache(row);
}

/* Adds an object with one row, which has its schema in this attribute. */
static void
digest_with_schema(struct digest *digest, int cache, Oid oid, AttrNumber schema)
{
    HeapTuple row = SearchSysCache1(cache, ObjectIdGetDatum(oid));
    bool is_null;

    if (!HeapTupleIsValid(row))
        return;
    digest_row(digest, row);
    digest_object(digest, NAMESPACEOID,
                  DatumGetObjectId(SysCacheGetAttr(cache, row, schema, &is_null)));
    ReleaseSysCache(row);
}

static void
digest_cast(struct digest *digest, Oid source, Oid target)
{
    HeapTuple row =
        SearchSysCache2(CASTSOURCETARGET, ObjectIdGetDatum(source), ObjectIdGetDatum(target));

    if (!HeapTupleIsValid(row))
        return;
    digest_row(digest, row);
    ReleaseSysCache(row);
}

/* A dropped object has a digest of zeros. */
static struct digest
digest_of_object(const struct object_key *key)
{
    struct digest digest = {{0, 0}};
    bool is_superuser;

    switch (key->kind) {
    case USED_TYPE:
        digest_type(&digest, key->oid);
        break;
    case USED_FUNCTION:
        digest_with_schema(&digest, PROCOID, key->oid, Anum_pg_proc_pronamespace);
        break;
    case USED_OPERATOR:
        digest_with_schema(&digest, OPEROID, key->oid, Anum_pg_operator_oprnamespace);
        break;
    case USED_COLLATION:
        digest_with_schema(&digest, COLLOID, key->oid, Anum_pg_collation_collnamespace);
        break;
    case USED_ROLE:
        is_superuser = superuser_arg(key->oid);
        digest_add_value(&digest, is_superuser);
        break;
    case USED_CAST:
        digest_cast(&digest, key->oid, key->target);
        break;
    }
    return digest;
}

/* Returns false when the object is known. */
static bool
add(struct objects *objects, enum object_kind kind, Oid oid, Oid target)
{
    struct object_key key = {kind, oid, target};
    HASHCTL control = {.keysize = sizeof(struct object_key),
                       .entrysize = sizeof(struct object),
                       .hcxt = objects->context};
    struct object *object;

    if (objects->table == NULL)
        objects->table =
            hash_create("clairon objects", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    if (hash_search(objects->table, &key, HASH_FIND, NULL) != NULL)
        return false;
    object = hash_search(objects->table, &key, HASH_ENTER, NULL);
    object->digest = (struct digest){{0, 0}};
    object->digest = digest_of_object(&key);
    return true;
}

/* Returns the type within a domain, an array, a range or a multirange; InvalidOid: none. */
static Oid
inner_type(Oid type)
{
    switch (get_typtype(type)) {
    case TYPTYPE_DOMAIN:
        return getBaseType(type);
    case TYPTYPE_RANGE:
        return get_range_subtype(type);
    case TYPTYPE_MULTIRANGE:
        return get_multirange_range(type);
    default:
        return get_element_type(type);
    }
}

void
objects_add_type(struct objects *objects, Oid type)
{
    for (; is_foreign(type) && add(objects, USED_TYPE, type, InvalidOid); type = inner_type(type))
        CHECK_FOR_INTERRUPTS();
}

void
objects_add_encoders(struct objects *objects, const struct encoders *encoders)
{
    for (int i = 0; i < encoders->count; i++) {
        objects_add_type(objects, encoders->list[i]->type);
        /* Whether a library can be loaded is not in the catalogs. */
        if (!encode_is_loaded(&encoders->list[i]->output))
            objects_outdate(objects);
    }
}

/* Types whose values are names of objects in a stored condition. */
static bool
is_name_type(Oid type)
{
    switch (type) {
    case REGPROCOID:
    case REGPROCEDUREOID:
    case REGOPEROID:
    case REGOPERATOROID:
    case REGCLASSOID:
    case REGCOLLATIONOID:
    case REGTYPEOID:
    case REGCONFIGOID:
    case REGDICTIONARYOID:
    case REGNAMESPACEOID:
    case REGROLEOID:
        return true;
    default:
        return false;
    }
}

/* True when the node names an object outside PostgreSQL itself, or computes a name. */
static bool
names_object(Node *node)
{
    const Const *constant = (Const *)node;

    return is_name_type(exprType(node)) &&
           (!IsA(node, Const) ||
            (!constant->constisnull && is_foreign(DatumGetObjectId(constant->constvalue))));
}

/* Returns false when the expression uses an object and `objects` is NULL. */
static bool
note(struct objects *objects, enum object_kind kind, Oid oid)
{
    if (!is_foreign(oid))
        return true;
    if (objects == NULL)
        return false;
    if (kind == USED_TYPE)
        objects_add_type(objects, oid);
    else
        (void)add(objects, kind, oid, InvalidOid);
    return true;
}

static bool
have_types(const List *args, const Oid *types, int count)
{
    if (list_length(args) != count)
        return false;
    for (int i = 0; i < count; i++)
        if (IsA(list_nth(args, i), NamedArgExpr) || exprType(list_nth(args, i)) != types[i])
            return false;
    return true;
}

/* Arguments of exactly the declared types: no function that is created later fits better. */
static bool
is_exact_call(const FuncExpr *call)
{
    HeapTuple row = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
    Form_pg_proc function;
    bool is_exact;

    if (!HeapTupleIsValid(row))
        return false;
    function = (Form_pg_proc)GETSTRUCT(row);
    is_exact = !call->funcvariadic &&
               have_types(call->args, function->proargtypes.values, function->pronargs);
    ReleaseSysCache(row);
    return is_exact;
}

/* With `any`, the right argument is an array. */
static bool
is_exact_operator(Oid operator, const List * args, bool any)
{
    Oid types[2];

    op_input_types(operator, & types[0], &types[1]);
    if (any)
        types[1] = get_array_type(types[1]);
    return have_types(args, types, 2);
}

/* The cast may be replaced by another, or by one with a function. */
static bool
note_cast(struct objects *objects, Node *arg, Oid target)
{
    Oid source = exprType(arg);

    if (!is_foreign(source) && !is_foreign(target))
        return true;
    if (objects == NULL)
        return false;
    (void)add(objects, USED_CAST, source, target);
    return true;
}

static bool
note_call(struct objects *objects, const FuncExpr *call)
{
    if (call->funcformat == COERCE_EXPLICIT_CAST || call->funcformat == COERCE_IMPLICIT_CAST)
        return note_cast(objects, linitial(call->args), call->funcresulttype);
    return !is_foreign(call->funcid) || is_exact_call(call);
}

static bool
note_operator(struct objects *objects, Oid operator, const List * args, bool any)
{
    return !is_foreign(operator) ||
           (is_exact_operator(operator, args, any) && note(objects, USED_OPERATOR, operator));
}

/* Returns true at a function that cannot be noted, like note_node. */
static bool
note_function(Oid function, void *context)
{
    return !note(context, USED_FUNCTION, function);
}

/* Returns true at the first node that other objects may change. */
static bool
note_node(Node *node, void *context)
{
    struct objects *objects = context;
    bool is_noted = true;

    if (node == NULL)
        return false;
    switch (nodeTag(node)) {
    case T_List:
    case T_CaseWhen:
        return expression_tree_walker(node, note_node, context);
    case T_FuncExpr:
        is_noted = note_call(objects, (FuncExpr *)node);
        break;
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr:
        is_noted = note_operator(objects, ((OpExpr *)node)->opno, ((OpExpr *)node)->args, false);
        break;
    case T_ScalarArrayOpExpr:
        is_noted = note_operator(objects, ((ScalarArrayOpExpr *)node)->opno,
                                 ((ScalarArrayOpExpr *)node)->args, true);
        break;
    case T_CoerceViaIO:
        is_noted = note_cast(objects, (Node *)((CoerceViaIO *)node)->arg, exprType(node));
        break;
    case T_ArrayCoerceExpr:
        is_noted = note_cast(objects, (Node *)((ArrayCoerceExpr *)node)->arg, exprType(node));
        break;
    case T_RelabelType:
        is_noted = note_cast(objects, (Node *)((RelabelType *)node)->arg, exprType(node));
        break;
    case T_Var:
    case T_Const:
    case T_NamedArgExpr:
    case T_SubscriptingRef:
    case T_FieldSelect:
    case T_BoolExpr:
    case T_NullTest:
    case T_BooleanTest:
    case T_CaseExpr:
    case T_CaseTestExpr:
    case T_CoalesceExpr:
    case T_MinMaxExpr:
    case T_CollateExpr:
    case T_ArrayExpr:
        break;
    default: /* unknown */
        return true;
    }
    return !is_noted || names_object(node) || !note(objects, USED_TYPE, exprType(node)) ||
           !note(objects, USED_COLLATION, exprCollation(node)) ||
           !note(objects, USED_COLLATION, exprInputCollation(node)) ||
           check_functions_in_node(node, note_function, context) ||
           expression_tree_walker(node, note_node, context);
}

bool
objects_add_expression(struct objects *objects, Node *expression)
{
    if (note_node(expression, objects))
        return false;
    if (objects != NULL && objects_count(objects) > 0)
        (void)add(objects, USED_ROLE, GetUserId(), InvalidOid);
    return true;
}

void
objects_outdate(struct objects *objects)
{
    objects->is_outdated = true;
}

bool
objects_changed(const struct objects *objects)
{
    HASH_SEQ_STATUS sequence;
    const struct object *object;
    struct digest digest;

    if (objects->is_outdated)
        return true;
    if (objects_count(objects) == 0)
        return false;
    if (objects->memberships != memberships)
        return true;
    hash_seq_init(&sequence, objects->table);
    while ((object = hash_seq_search(&sequence)) != NULL) {
        digest = digest_of_object(&object->key);
        if (digest_equal(&digest, &object->digest))
            continue;
        hash_seq_term(&sequence);
        return true;
    }
    return false;
}
