# Tests the ends of transactions after a failover in which shard 0 has lost its newest notifications, and the shard of the user has not:
# shard 0 receives them again, behind later ones of the user. The end of such a transaction follows all of it, also on a relay
# that was started shortly before or after the failover.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use Test::More;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 2 }

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE news (id serial PRIMARY KEY);
    CREATE TABLE own (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('news', 'ALL');
    SELECT clairon.watch('own', 'USER', 'owner')});
my $store = Clairon::Test::store(fsync => 'always');
# Too few replicas are connected, so no LSN is confirmed, and PostgreSQL retains all WAL.
my $feed = Clairon::Test::relay($pg, $store, roles => 'feed', conf => { 'store.min_replicas' => 1 });
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate');

sub sources { my ($client) = @_; return join ' ', map { $_->{t} eq 'end' ? 'end' : $_->{n}{metadata}{source} } grep { $_->{t} =~ /^(msg|end)$/ } @{ $client->{messages} } }

sub keys_of_shard_0 { return @{ $store->execute('KEYS', 'clairon:{0}:*') } }

for my $restarted ('', 'before', 'after')
{
    my $what  = $restarted ? "a relay that was restarted $restarted the failover" : 'a relay that has followed the failover';
    my $first = $gate->client('u1', ends => JSON::true);
    my $pos   = $first->pos;
    my @kept  = map { [ $_, $store->execute('DUMP', $_) ] } keys_of_shard_0();
    $pg->safe_psql('postgres', q{BEGIN; INSERT INTO own (owner) VALUES ('u1'); INSERT INTO news DEFAULT VALUES; INSERT INTO news DEFAULT VALUES; COMMIT});
    $pg->safe_psql('postgres', q{INSERT INTO own (owner) VALUES ('u1')});
    $first->run_until("$what: all rows arrive", sub { $first->notifications >= 4 });
    $first->close;
    $feed->kill9;
    $gate->restart if $restarted eq 'before';
    kill STOP => $gate->pid;
    $store->execute('DEL', keys_of_shard_0());
    $store->execute_bytes('RESTORE', $_->[0], 0, $_->[1]) for @kept;
    $store->restart;
    $gate->kill9 if $restarted eq 'after';
    $gate->start if $restarted eq 'after';
    kill CONT => $gate->pid;
    $gate->wait_ready;

    my $client = $gate->client('u1', pos => $pos, ends => JSON::true);
    $client->run_until("$what: the rows of the user arrive", sub { $client->notifications >= 2 });
    $feed->start;
    $client->run_until("$what: all rows arrive", sub { $client->notifications >= 4 });
    $client->run_until("$what: the ends arrive", sub { sources($client) =~ /end.*end/ });
    is(sources($client), 'own own news news end end', "$what: each end follows all of its transaction");
    is($client->gaps, '', "$what: the client receives no gap");
    $client->close;
}

done_testing();
