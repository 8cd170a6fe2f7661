# Tests that a table owner's code that ignores cancellation occupies a limited number of backends, and that rows of
# other tables are still read.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
# The planner calls the function in the predicate of the index once in each backend. The function ignores
# statement_timeout and disables the server's connection check.
$pg->safe_psql('postgres', q{
    CREATE ROLE attacker;
    CREATE SCHEMA own AUTHORIZATION attacker;
    CREATE TABLE other (id int PRIMARY KEY, owner text);
    ALTER TABLE other REPLICA IDENTITY FULL;
    SELECT clairon.watch('other', 'USER', 'owner', live => true);
    INSERT INTO other VALUES (1, 'u1');
    SET ROLE attacker;
    CREATE TABLE own.attack (is_on boolean);
    INSERT INTO own.attack VALUES (false);
    CREATE FUNCTION own.evil() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
        WHILE (SELECT is_on FROM own.attack) LOOP
            BEGIN
                PERFORM set_config('client_connection_check_interval', '0', false), set_config('statement_timeout', '0', false);
                PERFORM pg_sleep(60);
            EXCEPTION WHEN query_canceled THEN
                RAISE LOG 'attack: % ignores a cancellation', pg_backend_pid();
            END;
        END LOOP;
        RETURN 1;
    END $$;
    CREATE TABLE own.t (id int PRIMARY KEY, owner text);
    ALTER TABLE own.t REPLICA IDENTITY FULL;
    CREATE INDEX ON own.t (owner) WHERE own.evil() = 1;
    INSERT INTO own.t SELECT i, 'u' || i FROM generate_series(1, 5) i;
    SELECT clairon.watch('own.t', 'USER', 'owner', live => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '1s', 'rows.connections' => 3 });
my ($next, $most) = (10, 0);

sub attack { my ($is_on) = @_; $pg->safe_psql('postgres', "UPDATE own.attack SET is_on = $is_on"); return }
sub request { my ($client, $source) = @_; $client->send({ t => 'rows', r => ++$next, source => $source }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub stuck { return $relay->metric('clairon_rows_stuck_queries') }

# Returns the backends that run the attack.
sub attackers { return split /\n/, $pg->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) }

# Updates the maximum number of backends with queries for rows.
sub count_backends
{
    my $count = $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%clairon.live_rows(%' AND pid <> pg_backend_pid()});
    $most = $count if $count > $most;
    return;
}

# Repeats the request while the server closes connections because of an earlier attack, or if a busy machine exceeds
# rows.timeout.
sub request_until_rows
{
    my ($client, $source) = @_;
    return wait_until('the reply contains rows', sub { my $reply = reply($client, request($client, $source)); $reply->{t} eq 'rows' ? $reply : 0 });
}

# Requests the rows of both tables. Requests for the hostile table are rejected.
sub request_meanwhile
{
    my ($what) = @_;
    for my $user (map { "u$_" } 1 .. 5)
    {
        my $client = $relay->client($user);
        my $error  = reply($client, request($client, 'own.t'));
        is_deeply([ @$error{qw(t code retry)} ], [ 'err', 111, JSON::true ], "$what: $user receives a delay");
        is(@{ request_until_rows($client, 'other')->{rows} }, $user eq 'u1' ? 1 : 0, "$what: $user receives rows of another table");
        count_backends();
    }
    return;
}

my %clients = map { $_ => $relay->client($_) } qw(u1 u2 u3);
is(@{ request_until_rows($clients{u1}, 'own.t')->{rows} }, 1, 'rows of the table are read before the attack');
$pg->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%clairon.live_rows(%' AND pid <> pg_backend_pid()});

# The server terminates the backend, because its query ignores the timeout.
attack('true');
my $waits = request($clients{u1}, 'own.t');
my ($pid) = wait_until('the attack runs', sub { (attackers())[0] // 0 });
is(reply($clients{u1}, $waits)->{code}, 111, 'the request ends after rows.timeout');
request_meanwhile('cancellation is ignored');
$relay->wait_for_log(qr/PostgreSQL did not end a query in time.*source="own\.t" rule="default" pid=$pid\b/);
pass('the relay logs the table, the rule and the backend');
wait_until('the server has ended the backend', sub { !grep { $_ == $pid } attackers() });
wait_until('the relay has detected the end of the backend', sub { stuck() == 0 });
pass('the backend ends, although its query ignores cancellation');
attack('false');
is(@{ request_until_rows($clients{u1}, 'own.t')->{rows} }, 1, 'rows of the table are read after the attack');

# The backends ignore SIGTERM. All connections except one may hang.
$pg->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%clairon.live_rows(%' AND pid <> pg_backend_pid()});
attack('true');
my %requests = map { $_ => request($clients{$_}, 'own.t') } sort keys %clients;
my @pids = wait_until('two of three connections run the attack', sub { my @found = attackers(); @found == 2 ? \@found : 0 })->@*;
kill STOP => @pids;
is(reply($clients{$_}, $requests{$_})->{code}, 111, "$_ receives a delay") for sort keys %clients;
wait_until('both queries are stuck', sub { stuck() == 2 });
request_meanwhile('termination is ignored') for 1 .. 2;
is(stuck(), 2, 'no additional query of the table runs');
my ($status, $body) = $relay->get('/v1/rows?source=own.t', Authorization => 'Bearer ' . token(sub => 'u1'));
is_deeply([ $status, JSON::decode_json($body)->{code} ], [ 503, 111 ], 'a request over HTTP is rejected with 503');
cmp_ok($most, '<=', 3, 'the number of backends never exceeds rows.connections');
attack('false');
kill CONT => @pids;
wait_until('the relay has detected the end of the backends', sub { stuck() == 0 });
is(@{ request_until_rows($clients{u2}, 'own.t')->{rows} }, 1, 'rows of the table are read after the backends have ended');

done_testing();
