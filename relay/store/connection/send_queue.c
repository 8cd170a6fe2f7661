/* send_queue.c: sends commands to the store at the end of each loop iteration. */
#include "store/connection/send_queue.h"

#include <ev.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/connection/resp.h"

#define UNIX_SEND_BYTES (1 << 20) /* the kernel may allow less */

/*
 * Encoded commands, sent in one write. They wait until the buffer of hiredis is empty: after each
 * partial write hiredis moves the unsent bytes of its buffer, so a long buffer would be moved many
 * times.
 */
struct pipeline {
    struct pipeline *next;
    redisCallbackFn *on_reply;
    void *ctx;
    char *bytes;
    size_t len;
    size_t count; /* number of commands and of replies */
};

/* The loop events of a connection. hiredis frees them, possibly after the end of the queue. */
struct wire {
    struct send_queue *queue; /* NULL: detached */
    struct ev_loop *loop;
    redisAsyncContext *redis;
    ev_io readable;
    ev_io writable;
};

struct send_queue {
    struct ev_loop *loop;
    ev_prepare flush;  /* never started: queue_flush makes it pending */
    struct wire *wire; /* NULL: not connected */
    bool is_sending;   /* hiredis has unsent bytes */
    int64_t received_us;
    struct pipeline *first;
    struct pipeline **last; /* points to the link that the next pipeline sets */
};

static void
drop_first(struct send_queue *queue)
{
    struct pipeline *pipeline = queue->first;

    queue->first = pipeline->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    free(pipeline->bytes);
    free(pipeline);
}

/*
 * Passes the first pipeline to hiredis, which needs one call per command to expect its reply. The
 * first call passes all bytes. The other calls pass no bytes, but hiredis parses the start of each
 * command.
 */
static enum rc
pass_to_hiredis(struct send_queue *queue)
{
    static const char no_bytes[] = "*1\r\n$4\r\nEXEC\r\n";
    struct pipeline *pipeline = queue->first;

    for (size_t i = 0; i < pipeline->count; i++) {
        if (redisAsyncFormattedCommand(queue->wire->redis, pipeline->on_reply, pipeline->ctx,
                                       i == 0 ? pipeline->bytes : no_bytes,
                                       i == 0 ? pipeline->len : 0) == REDIS_OK)
            continue;
        if (i > 0)
            abort(); /* the first call succeeded, so the only possible error is a lack of memory */
        return RC_AGAIN;
    }
    drop_first(queue);
    queue->is_sending = true;
    return RC_OK;
}

/* Writes before the loop blocks: waiting for EV_WRITE costs an iteration and two epoll calls. */
static void
on_flush(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    struct send_queue *queue = prepare->data;

    (void)loop;
    (void)events;
    while (queue->wire != NULL) {
        if (!queue->is_sending && queue->first != NULL && pass_to_hiredis(queue) != RC_OK)
            return; /* the connection is closing */
        redisAsyncHandleWrite(queue->wire->redis);
        if (queue->is_sending || queue->first == NULL)
            return;
    }
}

/*
 * on_flush runs after the callbacks that are pending now, since its priority is the lowest: after
 * those of a loop iteration, and for commands of the hub's turn, after the turn.
 */
static void
queue_flush(struct send_queue *queue)
{
    ev_feed_event(queue->loop, &queue->flush, EV_PREPARE);
}

static void
on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct wire *wire = watcher->data;

    (void)loop;
    (void)events;
    if (wire->queue != NULL)
        wire->queue->received_us = clock_monotonic_us();
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

/* hiredis has written its buffer. */
static void
del_write(void *ctx)
{
    struct wire *wire = ctx;
    struct send_queue *queue = wire->queue;

    ev_io_stop(wire->loop, &wire->writable);
    if (queue == NULL)
        return;
    queue->is_sending = false;
    if (queue->first != NULL)
        queue_flush(queue);
}

static void
clean_up(void *ctx)
{
    struct wire *wire = ctx;

    ev_io_stop(wire->loop, &wire->readable);
    ev_io_stop(wire->loop, &wire->writable);
    if (wire->queue != NULL)
        wire->queue->wire = NULL;
    free(wire);
}

struct send_queue *
send_queue_new(struct ev_loop *loop)
{
    struct send_queue *queue = memory_new(sizeof(*queue));

    queue->loop = loop;
    queue->last = &queue->first;
    ev_prepare_init(&queue->flush, on_flush);
    ev_set_priority(&queue->flush, EV_MINPRI);
    queue->flush.data = queue;
    return queue;
}

void
send_queue_free(struct send_queue *queue)
{
    free(queue);
}

void
send_queue_use(struct send_queue *queue, redisAsyncContext *redis)
{
    struct wire *wire = memory_new(sizeof(*wire));
    const int bytes = UNIX_SEND_BYTES;

    /*
     * A Unix socket becomes writable when it is three quarters empty, and by default it can buffer
     * one batch: a fast store would be idle. TCP adjusts its buffer automatically.
     */
    if (redis->c.connection_type == REDIS_CONN_UNIX)
        (void)setsockopt(redis->c.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    *wire = (struct wire){.queue = queue, .loop = queue->loop, .redis = redis};
    ev_io_init(&wire->readable, on_readable, redis->c.fd, EV_READ);
    ev_io_init(&wire->writable, on_writable, redis->c.fd, EV_WRITE);
    wire->readable.data = wire->writable.data = wire;
    redis->ev.data = wire;
    redis->ev.addRead = add_read;
    redis->ev.delRead = del_read;
    redis->ev.addWrite = add_write;
    redis->ev.delWrite = del_write;
    redis->ev.cleanup = clean_up;
    queue->wire = wire;
    queue->is_sending = false;
}

void
send_queue_end(struct send_queue *queue)
{
    ev_clear_pending(queue->loop, &queue->flush);
    if (queue->wire != NULL)
        queue->wire->queue = NULL;
    queue->wire = NULL;
    while (queue->first != NULL) {
        for (size_t i = 0; i < queue->first->count; i++)
            queue->first->on_reply(NULL, NULL, queue->first->ctx);
        drop_first(queue);
    }
}

int64_t
send_queue_received_us(const struct send_queue *queue)
{
    return queue->received_us;
}

/*
 * Encodes a command: redisAsyncCommandArgv formats each length with a slow printf. hiredis searches
 * the arguments of a SUBSCRIBE up to a zero byte.
 */
static char *
encode(int argc, const char **argv, const size_t *lens, size_t *ret_len)
{
    size_t room = RESP_NUMBER_MAX + 1;
    char *bytes, *at;

    for (int i = 0; i < argc; i++)
        room += RESP_NUMBER_MAX + 2 + (lens != NULL ? lens[i] : strlen(argv[i]));
    bytes = memory_grow(NULL, room);
    at = resp_number(bytes, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        const size_t len = lens != NULL ? lens[i] : strlen(argv[i]);

        at = resp_number(at, '$', len);
        memcpy(at, argv[i], len);
        memcpy(at + len, "\r\n", 2);
        at += len + 2;
    }
    *at = '\0';
    *ret_len = (size_t)(at - bytes);
    return bytes;
}

enum rc
send_queue_send(struct send_queue *queue, redisCallbackFn *on_reply, void *ctx, int argc,
                const char **argv, const size_t *lens)
{
    char *bytes;
    size_t len;
    int status;

    if (queue->wire == NULL)
        return RC_AGAIN;
    while (queue->first != NULL)
        if (pass_to_hiredis(queue) != RC_OK)
            return RC_AGAIN;
    bytes = encode(argc, argv, lens, &len);
    status = redisAsyncFormattedCommand(queue->wire->redis, on_reply, ctx, bytes, len);
    free(bytes);
    if (status != REDIS_OK)
        return RC_AGAIN;
    queue->is_sending = true;
    queue_flush(queue);
    return RC_OK;
}

void
send_queue_send_ready(struct send_queue *queue, redisCallbackFn *on_reply, void *ctx, char *bytes,
                      size_t len, size_t count)
{
    struct pipeline *pipeline = memory_new(sizeof(*pipeline));

    *pipeline = (struct pipeline){
        .on_reply = on_reply, .ctx = ctx, .bytes = bytes, .len = len, .count = count};
    *queue->last = pipeline;
    queue->last = &pipeline->next;
    queue_flush(queue);
}
