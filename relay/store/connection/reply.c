/*
 * reply.c: the store's replies: allocates each in one block, checks their form, and parses them;
 * hints for error replies.
 */
#include "store/connection/reply.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rates.h"
#include "base/text.h"

#define BLOCK_BYTES (128u * 1024)
#define ALIGN 16u
/* far above any legitimate size, because an array is allocated before its elements arrive */
#define ELEMENTS_MAX (1u << 20)

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

struct block {
    struct block *before;
    size_t size;
    size_t used;
    _Alignas(ALIGN) char bytes[];
};

struct reply_arena {
    struct block *block; /* the current block; the first block is kept */
    const unsigned *expected;
    bool is_held;   /* hiredis owns a complete or partial reply, and will call free_object */
    bool is_orphan; /* free_object frees the arena together with that reply */
};

/* freeObject receives only the reply, so the arena pointer is stored before it. */
struct item {
    struct reply_arena *arena;
    struct redisReply reply;
};

static struct block *
make_block(size_t size, struct block *before)
{
    struct block *block = malloc(sizeof(*block) + size);

    if (block == NULL)
        return NULL;
    block->before = before;
    block->size = size;
    block->used = 0;
    return block;
}

/* NULL: out of memory; hiredis then closes the connection. */
static void *
reply_arena_alloc(struct reply_arena *arena, size_t size)
{
    struct block *block = arena->block;
    void *allocated;

    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (size > block->size - block->used) {
        block = make_block(size > BLOCK_BYTES ? size : BLOCK_BYTES, block);
        if (block == NULL)
            return NULL;
        arena->block = block;
    }
    allocated = block->bytes + block->used;
    block->used += size;
    return allocated;
}

static struct redisReply *
make_reply(const redisReadTask *task)
{
    struct reply_arena *arena = task->privdata;
    struct item *item;

    /* hiredis 0.14 aborts on an unexpected reply other than an error. */
    if (task->parent == NULL && *arena->expected == 0 && task->type != REDIS_REPLY_ERROR)
        return NULL;
    item = reply_arena_alloc(arena, sizeof(*item));
    if (item == NULL)
        return NULL;
    *item = (struct item){.arena = arena, .reply.type = task->type};
    return &item->reply;
}

/*
 * Links the reply into its array. Call it only after all memory of the reply was allocated. If a
 * create function fails, hiredis does not own the reply and never calls free_object for it. Then
 * is_held must not be set, or reply_arena_free would wait for that call.
 */
static void *
attach_reply(const redisReadTask *task, struct redisReply *reply)
{
    const struct redisReply *parent = task->parent != NULL ? task->parent->obj : NULL;
    struct reply_arena *arena = task->privdata;

    arena->is_held = true;
    if (parent != NULL)
        parent->element[task->idx] = reply;
    return reply;
}

static void *
create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redisReply *reply = make_reply(task);
    char *copy = reply != NULL ? reply_arena_alloc(task->privdata, len + 1) : NULL;

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    reply->str = copy;
    reply->len = len;
    return attach_reply(task, reply);
}

static void *
create_array(const redisReadTask *task, element_count count)
{
    struct redisReply *reply;
    size_t size = (size_t)count * sizeof(*reply->element);

    if ((size_t)count > ELEMENTS_MAX)
        return NULL;
    reply = make_reply(task);
    if (reply == NULL)
        return NULL;
    if (count > 0) {
        reply->element = reply_arena_alloc(task->privdata, size);
        if (reply->element == NULL)
            return NULL;
        memset(reply->element, 0, size);
    }
    reply->elements = (size_t)count;
    return attach_reply(task, reply);
}

static void *
create_integer(const redisReadTask *task, long long value)
{
    struct redisReply *reply = make_reply(task);

    if (reply == NULL)
        return NULL;
    reply->integer = value;
    return attach_reply(task, reply);
}

static void *
create_nil(const redisReadTask *task)
{
    struct redisReply *reply = make_reply(task);

    if (reply == NULL)
        return NULL;
    reply->type = REDIS_REPLY_NIL; /* task->type is the type of the missing value */
    return attach_reply(task, reply);
}

#if HIREDIS_MAJOR >= 1
/* RESP3 is not requested. */
static void *
create_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)value;
    return create_string(task, text, len);
}

static void *
create_bool(const redisReadTask *task, int value)
{
    return create_integer(task, value);
}
#endif

static void
drop_blocks(struct reply_arena *arena, const struct block *last)
{
    while (arena->block != last) {
        struct block *before = arena->block->before;

        free(arena->block);
        arena->block = before;
    }
}

/* Frees all blocks except the first. */
static void
empty(struct reply_arena *arena)
{
    struct block *first = arena->block;

    while (first->before != NULL)
        first = first->before;
    drop_blocks(arena, first);
    first->used = 0;
    arena->is_held = false;
}

static void
arena_end(struct reply_arena *arena)
{
    drop_blocks(arena, NULL);
    free(arena);
}

/* Called for complete replies, and for a partial reply when the reader is freed. */
static void
free_object(void *reply)
{
    struct reply_arena *arena;

    if (reply == NULL)
        return;
    arena = ((struct item *)((char *)reply - offsetof(struct item, reply)))->arena;
    if (arena->is_orphan)
        arena_end(arena);
    else
        empty(arena);
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
    .createNil = create_nil,
    .freeObject = free_object,
};

struct reply_arena *
reply_arena_new(void)
{
    struct reply_arena *arena = memory_new(sizeof(*arena));

    arena->block = make_block(BLOCK_BYTES, NULL);
    if (arena->block == NULL)
        abort();
    return arena;
}

void
reply_arena_use(struct reply_arena *arena, redisReader *reader, const unsigned *expected)
{
    empty(arena);
    arena->expected = expected;
    reader->fn = &functions;
    reader->privdata = arena;
}

void
reply_arena_free(struct reply_arena *arena)
{
    if (arena != NULL && arena->is_held)
        arena->is_orphan = true;
    else if (arena != NULL)
        arena_end(arena);
}

bool
reply_is_error(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR;
}

bool
reply_is_integer(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_INTEGER;
}

long long
reply_integer(const struct redisReply *reply)
{
    return reply_is_integer(reply) ? reply->integer : 0;
}

const char *
reply_text(const struct redisReply *reply)
{
    return reply != NULL ? reply->str : NULL;
}

size_t
reply_count(const struct redisReply *reply)
{
    return reply_is_array(reply, 0) ? reply->elements : 0;
}

const struct redisReply *
reply_at(const struct redisReply *reply, size_t at)
{
    return at < reply_count(reply) ? reply->element[at] : NULL;
}

struct bytes
reply_bytes(const struct redisReply *reply)
{
    if (reply == NULL || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        return (struct bytes){NULL, 0};
    return (struct bytes){(const unsigned char *)reply->str, (size_t)reply->len};
}

bool
reply_is_array(const struct redisReply *reply, size_t count)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements >= count;
}

struct bytes
reply_field(const struct redisReply *fields, const char *name)
{
    size_t len = strlen(name);

    if (!reply_is_array(fields, 2))
        return (struct bytes){NULL, 0};
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        struct bytes key = reply_bytes(fields->element[i]);
        if (key.len == len && memcmp(key.at, name, len) == 0)
            return reply_bytes(fields->element[i + 1]);
    }
    return (struct bytes){NULL, 0};
}

size_t
reply_size(const struct redisReply *reply)
{
    size_t size = reply_bytes(reply).len;

    for (size_t i = 0; i < reply_count(reply); i++)
        size += reply_size(reply->element[i]);
    return size;
}

static size_t
aligned(size_t size)
{
    return (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

static size_t
size_of(const struct redisReply *reply)
{
    size_t size = aligned(sizeof(*reply)) + aligned(reply->elements * sizeof(*reply->element)) +
                  (reply->str != NULL ? aligned((size_t)reply->len + 1) : 0);

    for (size_t i = 0; i < reply->elements; i++)
        size += size_of(reply->element[i]);
    return size;
}

static void *
copy_alloc(char **at, size_t size)
{
    void *allocated = *at;

    *at += aligned(size);
    return allocated;
}

static struct redisReply *
copy(const struct redisReply *reply, char **at)
{
    struct redisReply *kept = copy_alloc(at, sizeof(*kept));

    *kept = *reply;
    if (reply->str != NULL) {
        kept->str = copy_alloc(at, (size_t)reply->len + 1);
        memcpy(kept->str, reply->str, (size_t)reply->len + 1);
    }
    kept->element = copy_alloc(at, reply->elements * sizeof(*reply->element));
    for (size_t i = 0; i < reply->elements; i++)
        kept->element[i] = copy(reply->element[i], at);
    return kept;
}

struct redisReply *
reply_keep(const struct redisReply *reply)
{
    char *at = memory_grow(NULL, size_of(reply));

    return copy(reply, &at);
}

struct redisReply *
reply_keep_from(const struct redisReply *reply, size_t from)
{
    struct redisReply rest = *reply;

    rest.element += from;
    rest.elements -= from;
    return reply_keep(&rest);
}

enum rc
reply_id(const struct redisReply *reply, struct entry_id *ret_id)
{
    const struct bytes id = reply_bytes(reply);

    return id.at != NULL ? entry_id_read((const char *)id.at, id.len, ret_id) : RC_BAD;
}

enum rc
reply_entry_id(const struct redisReply *element, struct entry_id *ret_id)
{
    return reply_is_array(element, 1) ? reply_id(element->element[0], ret_id) : RC_BAD;
}

/* False: no valid time in milliseconds. A reply's strings end with a zero byte. */
static bool
read_expiration(struct bytes text, int64_t *ret_us)
{
    long long ms = strtoll((const char *)text.at, NULL, 10);

    if (ms < 0 || ms > INT64_MAX / 1000)
        return false;
    *ret_us = ms * 1000;
    return true;
}

enum rc
entry_read(const struct redisReply *element, struct entry *ret_entry)
{
    const struct redisReply *fields;
    struct entry entry = {.shard = 0}; /* set by the caller, as the fields of a pending list */
    struct bytes route, open;

    if (!reply_is_array(element, 2) || reply_entry_id(element, &entry.id) != RC_OK)
        return RC_BAD;
    fields = reply_at(element, 1);
    entry.uuid = reply_field(fields, "id");
    entry.data = reply_field(fields, "data");
    route = reply_field(fields, "route");
    if (entry.data.len == 0 || !frame_is_uuid((const char *)entry.uuid.at, entry.uuid.len) ||
        route.at == NULL || frame_parse_header(route, &entry.frame) != RC_OK)
        return RC_BAD;
    entry.is_late = (entry.frame.flags & FRAME_LATE) != 0;
    /* The scripts add the users of a retry, and the expiration of an open-ended audience. */
    entry.retry_users = reply_field(fields, "retry_users");
    entry.is_retry = entry.retry_users.at != NULL;
    open = reply_field(fields, "open_ended");
    entry.expires_us = entry.frame.as.notification.expires_us;
    if (open.at != NULL && !read_expiration(open, &entry.expires_us))
        return RC_BAD;
    *ret_entry = entry;
    return RC_OK;
}

/* ---- error replies */

#define CLUSTER_HINT                                                                               \
    "this server is a node of a cluster: set [store] url = redis+cluster://host:port,host:port"

#define REPLICA_HINT "this server is a replica: [store] url must name the primary"
#define WRONG_PASSWORD_HINT "wrong user or password in [store] url"
#define NO_PASSWORD_HINT "the store has no password: remove it from [store] url"

#define FULL "OOM command not allowed"

static const struct fault faults[] = {
    {FULL,
     "the store is full: raise maxmemory, or shorten [store] retention; PostgreSQL retains WAL "
     "meanwhile",
     false},
    {"MISCONF",
     "the store cannot write to its disk: check its log; PostgreSQL retains WAL meanwhile", false},
    {"NOREPLICAS",
     "the store has fewer replicas than its min-replicas-to-write: start them; PostgreSQL retains "
     "WAL meanwhile",
     false},
    {"READONLY", REPLICA_HINT, true},
    {"MASTERDOWN", REPLICA_HINT, true},
    {"CLUSTERDOWN", CLUSTER_HINT, true},
    {"MOVED ", CLUSTER_HINT, true},
    {"CROSSSLOT", CLUSTER_HINT, true},
    {"cluster support disabled",
     "this server is not a node of a cluster: set [store] url = redis://host:port", true},
    {"No such master", "[store] url must end in the primary's name, as in sentinel monitor", true},
    {"unknown command 'SENTINEL'", "this server is not a sentinel: check [store] url", true},
    {"LOADING", "the store is loading its dataset: wait", true},
    {"NOAUTH", "add user and password to [store] url: redis://user:password@host:port", true},
    {"WRONGPASS", WRONG_PASSWORD_HINT, true},
    {"invalid password", WRONG_PASSWORD_HINT, true},
    {"without any password", NO_PASSWORD_HINT, true},
    {"no password is set", NO_PASSWORD_HINT, true},
    {"NOPERM",
     "the relay's ACL user needs ~<prefix>:* and +@all -@dangerous +info +config|get; in a "
     "cluster also +cluster|slots +cluster|info +cluster|nodes +cluster|countkeysinslot",
     false},
    {"BUSY ", "a script on the store does not end: SCRIPT KILL; its SLOWLOG names the script",
     false},
    {"certificate verify failed",
     "[store] tls_ca must name the CA of the store's certificate; the certificate must match the "
     "host of [store] url and must not have expired",
     true},
    {"max number of clients", "raise maxclients of the store", true},
};

const struct fault *
fault_find(const char *error)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (strstr(error, faults[i].word) != NULL)
            return &faults[i];
    return NULL;
}

const char *
fault_hint(const char *error)
{
    const struct fault *fault = fault_find(error);

    return fault != NULL ? fault->hint : NULL;
}

bool
fault_is_redirection(const char *error)
{
    static const char *const starts[] = {"MOVED ", "ASK ", "TRYAGAIN ", "UNBLOCKED "};
    static const char *const words[] = {"CLUSTERDOWN ", "READONLY ", "MASTERDOWN ", "LOADING "};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strncmp(error, starts[i], strlen(starts[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(error, words[i]) != NULL)
            return true;
    return false;
}

bool
fault_is_busy(const char *error)
{
    return strncmp(error, "BUSY ", 5) == 0 ||
           (strncmp(error, "EXECABORT ", 10) == 0 && strstr(error, ": BUSY ") != NULL);
}

bool
fault_is_full(const char *error)
{
    return strstr(error, FULL) != NULL;
}

const struct fault *
fault_report(struct throttles *log, const char *failure, const char *error)
{
    const struct fault *fault = fault_find(error);
    uint64_t kind = hash_bytes(HASH_START, failure, strlen(failure));
    unsigned suppressed;

    if (fault != NULL)
        kind = hash_bytes(kind, fault->word, strlen(fault->word));
    if (throttle_allows(throttles_find(log, kind), clock_monotonic_us(), &suppressed))
        log_error("store", failure, LOG_TEXT("error", error), LOG_TEXT("hint", fault_hint(error)),
                  LOG_UINT("suppressed", suppressed));
    return fault;
}
