# Tests that the reply to `barrier` follows the notifications of all transactions that were visible at the request, with
# one and with 16 shards, on a relay with the feed and on another one; and how it reports the end of a transaction.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Client;
use Clairon::Test::RawSocket;
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "max_prepared_transactions = 5\nlog_statement = 'all'\n");
$pg->safe_psql('postgres', q{
    CREATE DATABASE other;
    CREATE TABLE quiet (id int);
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE everyone (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}');
    SELECT clairon.watch('everyone', 'ALL', operations => '{create}')});
my $id = 100;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub request { my ($client, %fields) = @_; $client->send({ t => 'barrier', r => ++$id, %fields }); return $id }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub barrier { my ($client, %fields) = @_; return reply($client, request($client, %fields)) }
sub has_reply { my ($client, $r) = @_; return scalar grep { ($_->{r} // 0) == $r } @{ $client->{messages} } }
sub committed { my ($reply) = @_; return $reply->{t} eq 'barrier' ? $reply->{committed} // 'unknown' : "$reply->{code}" }

# The ids of the rows that arrived before the reply.
sub rows_before
{
    my ($client, $r) = @_;
    my @ids;
    for my $message (@{ $client->{messages} })
    {
        return join ' ', @ids if ($message->{r} // 0) == $r;
        push @ids, $message->{n}{payload}{after}{id} if $message->{t} eq 'msg';
    }
    return 'no reply';
}

sub http
{
    my ($relay, $query, $user) = @_;
    my ($status, $body) = $relay->get("/v1/barrier$query", Authorization => 'Bearer ' . token(sub => $user // 'u1'));
    return ($status, JSON::decode_json($body));
}

sub response { my ($one, $query) = @_; return Clairon::Test::RawSocket->new($one)->request(GET => "/v1/barrier$query", Authorization => 'Bearer ' . token(sub => 'u1')) }

sub queries { return scalar(() = slurp_file($pg->logfile) =~ /execute <unnamed>: SELECT clairon\.live_position/g) }

for my $shards (1, 16)
{
    my $store  = Clairon::Test::store();
    my $slot   = "clairon_$shards";
    my %conf   = ('store.shards' => $shards, 'rows.timeout' => '60s', 'feed.slot' => $slot);
    my $first  = Clairon::Test::relay($pg, $store, conf => \%conf);
    my $second = Clairon::Test::relay(undef, $store, roles => 'gate',
        conf => { %conf, 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay' });
    sql('TRUNCATE t, everyone');
    for my $relay ($first, $second)
    {
        my $at     = ($relay == $first ? 'the relay with the feed' : 'another relay') . ", shards: $shards";
        my $client = $relay->client('u1');
        ok((grep { $_ eq 'barrier' } @{ $client->wait_for('connected')->{features} }), "connected announces barriers: $at");
        sql('DELETE FROM t; DELETE FROM everyone');
        sql(q{BEGIN; INSERT INTO t SELECT i, 'u' || 1 + i % 2 FROM generate_series(1, 40) i;
              INSERT INTO everyone SELECT i FROM generate_series(101, 120) i; COMMIT});
        my $r = request($client);
        my $reply = reply($client, $r);
        is_deeply($reply, { t => 'barrier', r => $r }, "the reply without a transaction has no outcome: $at");
        is(rows_before($client, $r), join(' ', (map { 2 * $_ } 1 .. 20), 101 .. 120), "all rows precede the reply: $at");

        my $x = sql('INSERT INTO quiet VALUES (1) RETURNING pg_current_xact_id()');
        is(committed(barrier($client, x => $x)), 1, "a transaction without notifications: $at");
        is(committed(barrier($client, x => $pg->safe_psql('other', 'SELECT pg_current_xact_id()'))), 1, "a transaction of another database: $at");
        my ($status, $body) = http($relay, "?x=$x");
        is("$status $body->{committed}", '200 1', "the outcome over HTTP: $at");
        ($status, $body) = http($relay, '');
        is_deeply([ $status, sort keys %$body ], [ 200, 'pos' ], "without a transaction only the cursor is returned: $at");
        sql(q{INSERT INTO t VALUES (200, 'u1')});
        my (undef, $after) = http($relay, '');
        my $resumed = $relay->client('u1', pos => $body->{pos});
        is($resumed->wait_row(200)->{t}, 'msg', "a cursor precedes later notifications: $at");
        my $late = $relay->client('u1', pos => $after->{pos});
        reply($late, request($late));
        is(scalar $late->notifications, 0, "a cursor is behind earlier notifications: $at");
    }
    $_->stop for $second, $first;
    sql("SELECT pg_drop_replication_slot('$slot')");
}

my $store  = Clairon::Test::store();
my $relay  = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s' });
my $client = $relay->client('u1');

# The outcomes of transactions.
my $session = $pg->background_psql('postgres');
my $rolled_back = $session->query_safe('BEGIN; INSERT INTO quiet VALUES (2) RETURNING pg_current_xact_id()');
my $running = request($client, x => $rolled_back);
barrier($client);
ok(!has_reply($client, $running), 'a barrier waits for a transaction that runs');
$session->query_safe('ROLLBACK');
is(committed(reply($client, $running)), 0, 'a transaction that is rolled back');
my $committed = $session->query_safe(q{BEGIN; INSERT INTO t VALUES (300, 'u1') RETURNING pg_current_xact_id()});
$running = request($client, x => $committed);
barrier($client);
$session->query_safe('COMMIT');
is(committed(reply($client, $running)), 1, 'a transaction that commits');
is((split / /, rows_before($client, $running))[-1], 300, 'the rows of the transaction precede the reply');

$session->query_safe('BEGIN; SAVEPOINT a; INSERT INTO quiet VALUES (3)');
my $kept = $session->query_safe('SELECT xmin FROM quiet WHERE id = 3');
$session->query_safe('RELEASE a; SAVEPOINT b; INSERT INTO quiet VALUES (4)');
my $undone = $session->query_safe('SELECT xmin FROM quiet WHERE id = 4');
$session->query_safe('ROLLBACK TO b');
my ($of_kept, $of_undone) = map { request($client, x => $_) } $kept, $undone;
barrier($client);
ok(!has_reply($client, $_), 'a barrier waits for the transaction of a subtransaction') for $of_kept, $of_undone;
$session->query_safe('COMMIT');
is(committed(reply($client, $of_kept)), 1, 'a subtransaction that commits');
is(committed(reply($client, $of_undone)), 0, 'a subtransaction that is rolled back');

my $prepared = $session->query_safe(q{BEGIN; INSERT INTO t VALUES (301, 'u1') RETURNING pg_current_xact_id()});
$session->query_safe(q{PREPARE TRANSACTION 'p'});
$running = request($client, x => $prepared);
barrier($client);
ok(!has_reply($client, $running), 'a barrier waits for a prepared transaction');
sql(q{COMMIT PREPARED 'p'});
is(committed(reply($client, $running)), 1, 'a prepared transaction that commits');
is((split / /, rows_before($client, $running))[-1], 301, 'the rows of a prepared transaction precede the reply');
$session->quit;

# Invalid requests.
my $next = sql('SELECT pg_current_xact_id()::text::bigint + 1000000');
for my $x ($next, '18446744073709551615', 2)
{
    my $reply = barrier($client, x => "$x");
    is("$reply->{t} $reply->{code}", 'err 107', "an id that was never assigned: $x");
}
for my $x ('', '0', '-1', '1.5', '1e3', 'x', '18446744073709551616', ' 5', 5, JSON::null, [])
{
    my $text = ref $x ? JSON->new->allow_nonref->encode($x) : $x;
    is(barrier($client, x => $x)->{code}, 107, "an invalid id: '$text'");
}
is(barrier($client, y => 1)->{code}, 107, 'an unknown field');
$client->send({ t => 'barrier' });
like($client->wait_for(sub { $_[0]{t} eq 'err' && !exists $_[0]{r} })->{msg}, qr/needs an "r"/, 'a request without a number');
is((http($relay, "?x=$_"))[0], 400, "an invalid id over HTTP: '$_'") for '', '0', 'x', $next, '18446744073709551616';
is(($relay->get('/v1/barrier'))[0], 401, 'a request over HTTP without a token');

# A request that is sent before `connected`.
my $eager = Clairon::Test::Client->new($relay->url('/v1/ws'));
$eager->send({ t => 'connect', r => 1, token => token(sub => 'u1'), later => 1 }, { t => 'barrier', r => 2, x => "$next" }, { t => 'barrier', r => 3 });
is(reply($eager, 2)->{code}, 107, 'an error for a request that was sent before the reply to connect');
is(reply($eager, 3)->{t}, 'barrier', 'a reply to a request that was sent before the reply to connect');
is($eager->{messages}[0]{t}, 'connected', 'connected is the first reply, also to a connect with an unknown field');

# Many sessions share a query.
my $blocker = $pg->background_psql('postgres');
my $x = $blocker->query_safe(q{BEGIN; INSERT INTO t SELECT i, 'many' FROM generate_series(1000, 1009) i; SELECT pg_current_xact_id()});
my @many = map { $relay->client('many') } 1 .. 40;
my @requests = map { my $one = $_; [ map { [ $one, request($one, x => $x) ] } 1 .. 16 ] } @many;
is(barrier($many[0], x => $x)->{code}, 111, 'a session may have 16 barriers');
wait_until('all requests wait', sub { $relay->metric('clairon_hub_waiting_barriers') == 640 });
my $before = queries();
$blocker->query_safe('COMMIT');
for my $request (map { @$_ } @requests)
{
    my ($one, $r) = @$request;
    is(committed(reply($one, $r)), 1, 'each session has its reply') if $r == $requests[0][0][1];
    reply($one, $r);
}
cmp_ok(queries() - $before, '<', 100, '640 requests share few queries');
is(rows_before($many[39], $requests[39][0][1]), join(' ', 1000 .. 1009), 'the rows precede the reply');

# More transactions than one query has: each is a subtransaction of the same one.
$blocker->query_safe('BEGIN; DO $$ BEGIN FOR i IN 1001 .. 2120 LOOP BEGIN INSERT INTO quiet VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$');
my @xids = split /\n/, $blocker->query_safe('SELECT xmin FROM quiet WHERE id > 1000');
is(scalar @xids, 1120, 'there are many transactions');
push @many, map { $relay->client('many') } 41 .. 70;
@requests = map { my $one = $_; map { [ $one, request($one, x => pop @xids) ] } 1 .. 16 } @many;
wait_until('all requests wait', sub { $relay->metric('clairon_hub_waiting_barriers') == 1120 });
is(barrier($client)->{t}, 'barrier', 'a request without a transaction does not wait for the others');
is((grep { has_reply(@$_) } @requests), 0, 'none of the others has a reply');
$blocker->query_safe('COMMIT');
is((grep { committed(reply(@$_)) eq '1' } @requests), 1120, 'each request has its reply');
$blocker->quit;
wait_until('no request waits', sub { $relay->metric('clairon_hub_waiting_barriers') == 0 });

# A query serves only the requests that precede it.
sql(q{ALTER FUNCTION clairon.live_position(text) RENAME TO moved;
    CREATE FUNCTION clairon.live_position(text) RETURNS text LANGUAGE plpgsql AS
    'DECLARE result text := clairon.moved($1); BEGIN PERFORM pg_advisory_xact_lock(7); RETURN result; END'});
$session = $pg->background_psql('postgres');
$session->query_safe('SELECT pg_advisory_lock(7)');
my $early = request($client);
wait_until('the query runs', sub { sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) });
Clairon::Test::wait_confirmed($pg);
my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
kill STOP => $walsender;
sql(q{INSERT INTO t VALUES (400, 'u1')});
my $later = request($client);
wait_until('both requests wait', sub { $relay->metric('clairon_hub_waiting_barriers') == 2 });
$session->query_safe('SELECT pg_advisory_unlock(7)');
is(reply($client, $early)->{t}, 'barrier', 'a request that precedes the query');
kill CONT => $walsender;
is(reply($client, $later)->{t}, 'barrier', 'a request during the query');
is((split / /, rows_before($client, $later))[-1], 400, 'a row that was committed during the query precedes its reply');
$session->quit;
sql('DROP FUNCTION clairon.live_position(text); ALTER FUNCTION clairon.moved(text) RENAME TO live_position');

# An error of the query is not a lost connection: the barrier ends immediately.
sql('ALTER FUNCTION clairon.live_position(text) RENAME TO moved');
my $failed = barrier($client);
is("$failed->{t} $failed->{code} $failed->{msg}", 'err 100 could not read the WAL position', 'an error of the query');
ok(!exists $failed->{after}, 'it is not repeated');
my $response = response($relay, '?x=5');
is("$response->{status} " . ($response->{headers}{'retry-after'} // 'none'), '500 none', 'an error of the query over HTTP');
like($relay->log_text, qr/could not read the WAL position" sqlstate="42883" error="[^"]*clairon\.live_position/, 'the error is logged');
sql('ALTER FUNCTION clairon.moved(text) RENAME TO live_position');
is(barrier($client)->{t}, 'barrier', 'the next query succeeds');

# A session that ends, and a relay that stops, with barriers that wait.
$blocker = $pg->background_psql('postgres');
$x = $blocker->query_safe('BEGIN; SELECT pg_current_xact_id()');
my $leaving = $relay->client('u9');
request($leaving, x => $x);
wait_until('the request waits', sub { $relay->metric('clairon_hub_waiting_barriers') == 1 });
$leaving->close;
wait_until('the request has ended', sub { $relay->metric('clairon_hub_waiting_barriers') == 0 });
request($client, x => $x);
$relay->stop;

# The time limit.
$relay->configure('rows.timeout' => '1s');
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', win => 1);
my $reply = barrier($client, x => $x);
is("$reply->{t} $reply->{code} $reply->{msg}", 'err 111 transaction has not ended within rows.timeout', 'a transaction that runs for longer than rows.timeout');
cmp_ok($reply->{after}, '>', 0, 'the error has a delay');
$response = response($relay, "?x=$x");
is($response->{status}, 503, 'the same over HTTP');
like($response->{headers}{'retry-after'}, qr/\A[1-9]\d*\z/, 'the response over HTTP has a delay');
$blocker->quit;

# PostgreSQL is away.
$pg->stop;
$reply = barrier($client);
is("$reply->{code} $reply->{msg}", '111 database does not reply', 'a database that does not reply');
$response = response($relay, '');
is("$response->{status} $response->{json}{detail}", '503 database does not reply', 'the same over HTTP');
like($response->{headers}{'retry-after'}, qr/\A[1-9]\d*\z/, 'this response has a delay, too');
$pg->start;
$relay->wait_ready;
ok(wait_until('a barrier is answered', sub { barrier($client)->{t} eq 'barrier' }), 'a barrier after its return');

done_testing();
