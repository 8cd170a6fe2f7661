#!/usr/bin/env bash
# banned.sh: finds calls that are unbounded or report no error, calls to a client's socket outside relay/gate/net, and
# markers of unfinished work.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
# banned PATTERN PATH..: fails when the pattern is found, or when grep itself fails.
banned() {
    local found
    found=$(grep -rnE "$@") || [ $? = 1 ] || exit
    [ -z "$found" ] || { echo "$found"; bad=1; }
}

functions='strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|sscanf|alloca|system|popen'
banned "(^|[^_[:alnum:]])($functions)[[:space:]]*\(" relay decoder tests/unit --include='*.[ch]'

# A client's socket is plain or TLS; conn.h hides the difference. A call of a member (transport->send) is allowed, and
# so is "send(2)" in a comment.
socket_calls='recv|recvfrom|recvmsg|send|sendto|sendmsg|sendfile|read|readv|write|writev|shutdown|poll|ioctl'
socket_calls+='|getsockopt|setsockopt|getpeername|getsockname|SSL_[[:alnum:]_]+'
banned "(^|[^_.>[:alnum:]])($socket_calls)[[:space:]]*\(([^2]|2[^)]|$)" relay/gate relay/wire \
    --include='*.[ch]' --exclude-dir=net

banned '\<(TODO|FIXME|XXX)\>' relay decoder sql client tests/unit tests/tools docker \
    --include='*.[ch]' --include='*.lua' --include='*.sql' --include='*.js' --include='*.py' --include='*.sh' \
    --exclude-dir=node_modules
exit "$bad"
