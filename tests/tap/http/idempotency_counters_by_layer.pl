# Tests that counters report which layer recognized a repeated idempotency key: for the API, once() and notify().
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $pg     = Clairon::Test::postgresql('main', conf => "logical_decoding_work_mem = 64kB\n");
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay($pg, $store, roles => 'gate');
my $agent  = Mojo::UserAgent->new;
sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub repeats
{
    my ($relay) = @_;
    return join ' ', map { $relay->metric(qq(clairon_idempotent_repeats_total{layer="$_"})) // 'none' } qw(memory store database);
}
sub publish
{
    my ($relay, $key, $text) = @_;
    my $body = { payload => { text => $text // 'x' }, routing => { audience => { type => 'USER', targets => ['u1'] } } };
    return $agent->post($relay->url('/v1/notifications'),
        { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), 'Idempotency-Key' => $key }, json => $body)->result->code;
}

is(repeats($first), '0 0 0', 'no repeats are counted initially');
is(publish($first, 'k1'), 201, 'a first request returns 201');
is(publish($first, 'k1'), 200, 'a repeat returns 200');
is(repeats($first), '1 0 0', 'a repeat is recognized in memory');
is(publish($second, 'k1'), 200, 'a repeat on another relay returns 200');
is(repeats($second), '0 1 0', 'a repeat on another relay is recognized by the store');
is(publish($first, 'k1', 'y'), 422, 'another body is rejected with 422');
is(repeats($first), '1 0 0', 'another body is not counted as a repeat');

# The relay counts repeats in the database from the WAL, after their transaction has committed.
is(sql(q{SELECT clairon.once('account 1', 'transfer 7')}), 't', 'once() returns true the first time');
is(sql(q{SELECT clairon.once('account 1', 'transfer 7')}), 'f', 'once() returns false for a repeat');
wait_until('the repeat is counted', sub { repeats($first) eq '1 0 1' });
pass('a repeat of once() is counted by the database');
sql(q{SELECT clairon.notify('USER', '{u1}', '{}', idempotency_key => 'n') FROM generate_series(1, 3)});
wait_until('both repeats of notify are counted', sub { repeats($first) eq '1 0 3' });
pass('repeats of notify() are counted');
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); ROLLBACK});
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); SAVEPOINT s; SELECT clairon.once('account 1', 'transfer 7'); ROLLBACK TO s;
    CREATE TABLE t AS SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i; COMMIT});
wait_until('only committed repeats are counted', sub { repeats($first) eq '1 0 4' });
pass('repeats in a rolled-back savepoint are not counted');
sql(q{CREATE TABLE big (id int PRIMARY KEY, owner text); SELECT clairon.watch('big', 'USER', 'owner')});
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); INSERT INTO big SELECT i FROM generate_series(1, 5000) i; SELECT clairon.once('account 1', 'transfer 7'); COMMIT});
wait_until('repeats of a large transaction are counted', sub { repeats($first) eq '1 0 6' });
pass('repeats in a streamed transaction are counted');

# A slot in text mode does not print repeats.
$first->stop;
sql(q{SELECT slot_name FROM pg_create_logical_replication_slot('text', 'clairon')});
sql(q{SELECT clairon.once('account 1', 'transfer 7')});
is(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('text', NULL, NULL)}), '0', 'text mode prints no repeats');

done_testing();
