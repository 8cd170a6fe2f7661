# Which layer recognized the repeat of an idempotency key: do the relay's counters tell, for the API, for once and for notify?
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

is(repeats($first), '0 0 0', 'nothing was repeated yet');
is(publish($first, 'k1'), 201, 'a first request');
is(publish($first, 'k1'), 200, 'its repeat');
is(repeats($first), '1 0 0', 'is recognized in memory');
is(publish($second, 'k1'), 200, 'by another relay');
is(repeats($second), '0 1 0', 'it is recognized by the store');
is(publish($first, 'k1', 'y'), 422, 'another body is no repeat');
is(repeats($first), '1 0 0', 'and not counted');

# Those of the database come through the WAL, if their transaction commits.
is(sql(q{SELECT clairon.once('account 1', 'transfer 7')}), 't', 'the first time');
is(sql(q{SELECT clairon.once('account 1', 'transfer 7')}), 'f', 'a reprocess');
wait_until('it is counted', sub { repeats($first) eq '1 0 1' });
pass('by the database');
sql(q{SELECT clairon.notify('USER', '{u1}', '{}', idempotency_key => 'n') FROM generate_series(1, 3)});
wait_until('both repeats of notify are counted', sub { repeats($first) eq '1 0 3' });
pass('repeats of notify too');
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); ROLLBACK});
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); SAVEPOINT s; SELECT clairon.once('account 1', 'transfer 7'); ROLLBACK TO s;
    CREATE TABLE t AS SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i; COMMIT});
wait_until('of what was undone nothing is counted', sub { repeats($first) eq '1 0 4' });
pass('nor of a savepoint that was rolled back');
sql(q{CREATE TABLE big (id int PRIMARY KEY, owner text); SELECT clairon.watch('big', 'USER', 'owner')});
sql(q{BEGIN; SELECT clairon.once('account 1', 'transfer 7'); INSERT INTO big SELECT i FROM generate_series(1, 5000) i; SELECT clairon.once('account 1', 'transfer 7'); COMMIT});
wait_until('those of a large transaction are counted', sub { repeats($first) eq '1 0 6' });
pass('also where it is read before its commit');

# A reader of the slot in text mode sees nothing of them.
$first->stop;
sql(q{SELECT slot_name FROM pg_create_logical_replication_slot('text', 'clairon')});
sql(q{SELECT clairon.once('account 1', 'transfer 7')});
is(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('text', NULL, NULL)}), '0', 'text mode prints no repeat');

done_testing();
