# Tests that the servers of a system test start, respond, stop and restart as other tests expect.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
is($pg->safe_psql('postgres', "SELECT extname FROM pg_extension WHERE extname = 'clairon'"),
    'clairon', 'a private server has the extension');
like($pg->safe_psql('postgres', 'SHOW data_directory'), qr{^\Q$ENV{CLAIRON_WORK}\E},
    'the data directory of the server is in the work folder');

my $store = Clairon::Test::store();
is($store->execute('SET', 'name', "caf\x{e9}"), 'OK', 'the store accepts a value');
is($store->execute('GET', 'name'), "caf\xc3\xa9", 'the store returns the bytes of the value');
is($store->execute('GET', 'nobody'), undef, 'the reply nil is returned as undef');
ok(!eval { $store->execute('NOSUCH'); 1 }, 'an error reply of the store raises an exception');
like($@, qr/unknown command/i, 'the exception contains the message of the reply');
is_deeply($store->execute('EVAL', "return {1, {'a', false}, 'b'}", 0), [ 1, [ 'a', undef ], 'b' ],
    'nested replies are returned as nested arrays');

is($store->kill9 & 127, 9, 'the store can be killed');
$store->start;
is($store->execute('PING'), 'PONG', 'the store starts again');

my $first = $store->pid;
$store->restart;
isnt($store->pid, $first, 'a restart starts another process');
is($store->execute('GET', 'name'), "caf\xc3\xa9", 'the restarted store has the same data');

is(token(sub => 'u1', exp => 1, secret => 'k'),
    'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjEsInN1YiI6InUxIn0.'
      . 'CRxuUbyHcGqedxuViiBpeegbB6BN8qbMGX596hgI4SQ',
    'a token is signed');
ok(!eval { wait_until('the condition is never true', sub { 0 }, 0.1); 1 }, 'a deadline ends the wait');
like($@, qr/the condition is never true/, 'the error names the awaited condition');

done_testing();
