/*
 * lines.c: send the lines of text mode with few system calls.
 *
 * Each line is a message. The server flushes its send buffer after each message, which costs more
 * than rendering a short line. So lines stay in the buffer until they fill LINES_BYTES: its flush
 * does nothing while a line is written. The walsender flushes the buffer itself after each WAL
 * record, also after a commit. Its other messages follow the lines in the same buffer.
 *
 * Only this file uses PqCommMethods, which is the same in PostgreSQL 15 to 18.
 */
#include "output/output.h"

#include "access/xact.h"

/* libpq.h includes the headers of these libraries for struct Port, which is not used here. */
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq.h"
#include "miscadmin.h"

#include "decoder.h"

#define LINES_BYTES (16 * 1024)

static PQcommMethods holding;

static int
flush_nothing(void)
{
    return 0;
}

static bool
is_nothing_pending(void)
{
    return false;
}

void
lines_setup(struct decoder *decoder)
{
    decoder->holds_lines =
        !decoder->options.framed && MyBackendType == B_WAL_SENDER && !IsTransactionState();
}

static void
write_unflushed(LogicalDecodingContext *ctx)
{
    const PQcommMethods *methods = PqCommMethods;

    holding = *methods;
    holding.flush_if_writable = flush_nothing;
    holding.is_send_pending = is_nothing_pending;
    PqCommMethods = &holding;
    PG_TRY();
    {
        OutputPluginWrite(ctx, true);
    }
    PG_FINALLY();
    {
        PqCommMethods = methods;
    }
    PG_END_TRY();
}

void
lines_write(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    decoder->held_bytes += ctx->out->len;
    if (decoder->holds_lines && decoder->held_bytes < LINES_BYTES) {
        write_unflushed(ctx);
    } else {
        decoder->held_bytes = 0;
        OutputPluginWrite(ctx, true);
    }
}

void
lines_flush(struct decoder *decoder)
{
    if (decoder->held_bytes > 0)
        (void)pq_flush_if_writable(); /* a lost connection ends the session at its next write */
    decoder->held_bytes = 0;
}
