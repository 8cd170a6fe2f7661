/* cli.h: the commands except the daemon and the doctor. */
#ifndef CLAIRON_CLI_H
#define CLAIRON_CLI_H

/*
 * `clairon token`: prints a development token. argv[0] is the command's name. Returns the exit
 * code: 0, 1 if the token could not be created or written, 2 for wrong usage.
 */
int cli_token(int argc, char **argv);

/*
 * `clairon errors list|redrive|drop` and `clairon trace ID`. Return the exit status: 0, 1 if the
 * command failed for an id or the store failed, 2 for wrong usage.
 */
int cli_errors(int argc, char **argv);
int cli_trace(int argc, char **argv);

/*
 * `clairon store accept SHARD --without NODE`. Returns the exit status: 0, 1 if the node is not
 * lost or the store failed, 2 for wrong usage.
 */
int cli_store(int argc, char **argv);

#endif
