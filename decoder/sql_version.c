/* sql_version.c: tells SQL which version of the library the server loaded. */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "protocol/version.h"

PG_FUNCTION_INFO_V1(clairon_version);

Datum
clairon_version(PG_FUNCTION_ARGS)
{
    PG_RETURN_TEXT_P(cstring_to_text(CLAIRON_VERSION));
}
