/*
 * outbox.c: what goes out on a connection to the store: at the end of a turn, as much as its socket
 * takes.
 */
#include "store/outbox.h"

#include <ev.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/memory.h"

#define UNIX_SEND_BYTES (1 << 20) /* the kernel gives what it may */

/*
 * Commands that wait until hiredis has sent what it has: all that its socket does not take it
 * moves.
 */
struct parcel {
    struct parcel *next;
    redisCallbackFn *answer;
    void *ctx;
    char *bytes;
    size_t len;
    size_t count;
};

/* A connection's events; hiredis ends them, which may be after the outbox has let go. */
struct wire {
    struct outbox *outbox; /* NULL: it has */
    struct ev_loop *loop;
    redisAsyncContext *redis;
    ev_io readable;
    ev_io writable;
};

struct outbox {
    struct ev_loop *loop;
    ev_prepare flush;  /* while there is something for the socket that it was not offered */
    struct wire *wire; /* NULL: not in use */
    bool is_sending;   /* hiredis has something left */
    struct parcel *first;
    struct parcel **last; /* where the next one goes */
};

static void
drop_first(struct outbox *outbox)
{
    struct parcel *parcel = outbox->first;

    outbox->first = parcel->next;
    if (outbox->first == NULL)
        outbox->last = &outbox->first;
    free(parcel->bytes);
    free(parcel);
}

/* hiredis has to know of each command, but not which of the bytes are its. */
static enum rc
hand_over(struct outbox *outbox)
{
    static const char no_bytes[] = "*1\r\n$4\r\nEXEC\r\n";
    struct parcel *parcel = outbox->first;

    for (size_t i = 0; i < parcel->count; i++) {
        if (redisAsyncFormattedCommand(outbox->wire->redis, parcel->answer, parcel->ctx,
                                       i == 0 ? parcel->bytes : no_bytes,
                                       i == 0 ? parcel->len : 0) == REDIS_OK)
            continue;
        if (i > 0)
            abort(); /* it was not closing a command ago: there is no memory */
        return RC_AGAIN;
    }
    drop_first(outbox);
    outbox->is_sending = true;
    return RC_OK;
}

/* At the end of the turn, all at once: a turn and two calls of epoll sooner than by its event. */
static void
on_flush(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    struct outbox *outbox = prepare->data;

    (void)events;
    ev_prepare_stop(loop, prepare);
    while (outbox->wire != NULL) {
        if (!outbox->is_sending && outbox->first != NULL && hand_over(outbox) != RC_OK)
            return; /* it is closing */
        redisAsyncHandleWrite(outbox->wire->redis);
        if (outbox->is_sending || outbox->first == NULL)
            return;
    }
}

static void
on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct wire *wire = watcher->data;

    (void)loop;
    (void)events;
    redisAsyncHandleRead(wire->redis);
}

static void
on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct wire *wire = watcher->data;

    (void)loop;
    (void)events;
    redisAsyncHandleWrite(wire->redis);
}

static void
add_read(void *ctx)
{
    struct wire *wire = ctx;

    ev_io_start(wire->loop, &wire->readable);
}

static void
del_read(void *ctx)
{
    struct wire *wire = ctx;

    ev_io_stop(wire->loop, &wire->readable);
}

static void
add_write(void *ctx)
{
    struct wire *wire = ctx;

    ev_io_start(wire->loop, &wire->writable);
}

/* hiredis has sent all it had. */
static void
del_write(void *ctx)
{
    struct wire *wire = ctx;
    struct outbox *outbox = wire->outbox;

    ev_io_stop(wire->loop, &wire->writable);
    if (outbox == NULL)
        return;
    outbox->is_sending = false;
    if (outbox->first != NULL)
        ev_prepare_start(outbox->loop, &outbox->flush);
}

static void
clean_up(void *ctx)
{
    struct wire *wire = ctx;

    ev_io_stop(wire->loop, &wire->readable);
    ev_io_stop(wire->loop, &wire->writable);
    if (wire->outbox != NULL)
        wire->outbox->wire = NULL;
    free(wire);
}

struct outbox *
outbox_new(struct ev_loop *loop)
{
    struct outbox *outbox = memory_new(sizeof(*outbox));

    outbox->loop = loop;
    outbox->last = &outbox->first;
    ev_prepare_init(&outbox->flush, on_flush);
    outbox->flush.data = outbox;
    return outbox;
}

void
outbox_free(struct outbox *outbox)
{
    free(outbox);
}

/*
 * A unix socket asks for more when it is three quarters empty, and is as large as one batch: a
 * store that is fast would have to wait. TCP finds the size that it needs.
 */
static void
widen(const redisContext *context)
{
    const int bytes = UNIX_SEND_BYTES;

    if (context->connection_type == REDIS_CONN_UNIX)
        (void)setsockopt(context->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

void
outbox_use(struct outbox *outbox, redisAsyncContext *redis)
{
    struct wire *wire = memory_new(sizeof(*wire));

    widen(&redis->c);
    *wire = (struct wire){.outbox = outbox, .loop = outbox->loop, .redis = redis};
    ev_io_init(&wire->readable, on_readable, redis->c.fd, EV_READ);
    ev_io_init(&wire->writable, on_writable, redis->c.fd, EV_WRITE);
    wire->readable.data = wire->writable.data = wire;
    redis->ev.data = wire;
    redis->ev.addRead = add_read;
    redis->ev.delRead = del_read;
    redis->ev.addWrite = add_write;
    redis->ev.delWrite = del_write;
    redis->ev.cleanup = clean_up;
    outbox->wire = wire;
    outbox->is_sending = false;
}

void
outbox_end(struct outbox *outbox)
{
    ev_prepare_stop(outbox->loop, &outbox->flush);
    if (outbox->wire != NULL)
        outbox->wire->outbox = NULL;
    outbox->wire = NULL;
    while (outbox->first != NULL) {
        for (size_t i = 0; i < outbox->first->count; i++)
            outbox->first->answer(NULL, NULL, outbox->first->ctx);
        drop_first(outbox);
    }
}

enum rc
outbox_send(struct outbox *outbox, redisCallbackFn *answer, void *ctx, int argc, const char **argv,
            const size_t *lens)
{
    if (outbox->wire == NULL)
        return RC_AGAIN;
    while (outbox->first != NULL)
        if (hand_over(outbox) != RC_OK)
            return RC_AGAIN;
    if (redisAsyncCommandArgv(outbox->wire->redis, answer, ctx, argc, argv, lens) != REDIS_OK)
        return RC_AGAIN;
    outbox->is_sending = true;
    ev_prepare_start(outbox->loop, &outbox->flush);
    return RC_OK;
}

void
outbox_send_ready(struct outbox *outbox, redisCallbackFn *answer, void *ctx, char *bytes,
                  size_t len, size_t count)
{
    struct parcel *parcel = memory_new(sizeof(*parcel));

    *parcel =
        (struct parcel){.answer = answer, .ctx = ctx, .bytes = bytes, .len = len, .count = count};
    *outbox->last = parcel;
    outbox->last = &parcel->next;
    ev_prepare_start(outbox->loop, &outbox->flush);
}
