# Tests that slow queries and a lost database connection do not delay notifications, and that requests for rows recover.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::StubRows;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $proxy = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port);
# A proxy delays reads of rows, but not the feed.
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'rows.conninfo' => "host=127.0.0.1 port=@{[ $proxy->port ]} dbname=postgres user=relay",
    'rows.timeout'  => '4s', 'rows.connections' => 2 });
my ($next, $ids) = (10, 0);

sub request { my ($client, %fields) = @_; $client->send({ t => 'rows', r => ++$next, %fields }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub has_reply { my ($client, $r) = @_; return scalar grep { ($_->{r} // 0) == $r } @{ $client->{messages} } }

sub expect_delivery
{
    my ($client, $what) = @_;
    $pg->safe_psql('postgres', "INSERT INTO t VALUES (@{[ ++$ids ]}, 'u1')");
    $client->wait_row($ids);
    pass($what);
    return;
}

# Repeats the request while the relay returns a retry delay, as a client does.
sub request_until_rows
{
    my ($client, %fields) = @_;
    return wait_until('the reply contains rows', sub { my $reply = reply($client, request($client, %fields)); $reply->{t} eq 'rows' ? $reply : 0 });
}

my $client = $relay->client('u1');
$stub->set($_, delay => 30) for qw(slow1 slow2);
$stub->set('fast');
my @slow = map { request($client, source => "slow$_") } 1, 2;
wait_until('both connections are busy', sub { 2 == $stub->calls('slow1') + $stub->calls('slow2') });
my $waits = request($client, source => 'fast');
expect_delivery($client, 'notifications are delivered while all connections are busy');
ok(!grep({ has_reply($client, $_) } @slow, $waits), 'requests for rows wait while all connections are busy');
for my $error (map { reply($client, $_) } @slow)
{
    is_deeply([ @$error{qw(t code retry)} ], [ 'err', 111, JSON::true ], 'a query that exceeds the timeout is ended');
    cmp_ok($error->{after}, '>=', 8000, 'the client receives a delay for its next request');
}
is($relay->metric('clairon_rows_errors_total{kind="timeout"}'), 2, 'the ended query is counted');
reply($client, $waits);    # this query may also have timed out
is(request_until_rows($client, source => 'fast')->{t}, 'rows',
    'other requests are served after slow queries are ended');
wait_until('the server runs no query', sub {
    $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%live_rows%' AND state = 'active' AND pid <> pg_backend_pid()}) eq '0' });
pass('the server runs none of the ended queries');

# The server sends neither data nor a close.
$proxy->freeze;
$waits = request($client, source => 'fast');
expect_delivery($client, 'notifications are delivered while the database does not reply');
is(reply($client, $waits)->{code}, 111, 'a request to an unresponsive database ends with 111');
$proxy->thaw;
$proxy->reject(1);
$proxy->cut;
$waits = request($client, source => 'fast');
expect_delivery($client, 'notifications are delivered without a database for rows');
my $lost = reply($client, $waits);
is_deeply([ @$lost{qw(code retry)} ], [ 111, JSON::true ], 'without a connection the request ends with 111');
my ($status, $body) = $relay->get('/v1/rows?source=fast', Authorization => 'Bearer ' . token(sub => 'u1'));
is_deeply([ $status, JSON::decode_json($body)->{code} ], [ 503, 111 ], 'a request over HTTP ends with 503');
is(($relay->get('/readyz'))[0], 200, 'the relay stays ready');
$proxy->reject(0);
is(request_until_rows($client, source => 'fast')->{t}, 'rows', 'rows are read again after the database reconnects');

# A query is repeated if its connection is lost.
$stub->set('slow1', delay => 1);
$waits = request($client, source => 'slow1');
my $before = () = $stub->calls('slow1');
wait_until('the query runs', sub { $before < (() = $stub->calls('slow1')) || 1 == $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) });
$pg->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
is(reply($client, $waits)->{t}, 'rows', 'a lost query is repeated');

# A client disconnects during its query.
my $gone = $relay->client('u2');
request($gone, source => 'slow1');
$gone->close;
is(reply($client, request($client, source => 'fast'))->{t}, 'rows', 'a client can disconnect while its query runs');

done_testing();
