/* stream.h: the callbacks for transactions that are streamed before their commit, or prepared. */
#ifndef CLAIRON_STREAM_H
#define CLAIRON_STREAM_H

#include "postgres.h"

#include "replication/output_plugin.h"

extern void stream_init(OutputPluginCallbacks *callbacks);

#endif
