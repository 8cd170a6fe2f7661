# Tests the ends of transactions while the node of a shard is unavailable: later transactions are delivered without the shard's part of
# an earlier one. The end of the earlier one follows that part, when the node has returned.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE news (id serial PRIMARY KEY);
    CREATE TABLE own (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('news', 'ALL');
    SELECT clairon.watch('own', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0 });
my ($user)  = grep { $cluster->primary_of($cluster->shard_of($_)) != $cluster->primary_of(0) } map { "u$_" } 0 .. 99;

sub insert { my ($table) = @_; return $table eq 'own' ? "INSERT INTO own (owner) VALUES ('$user');" : 'INSERT INTO news DEFAULT VALUES;' }

# Returns what the client has received, in order.
sub received { my ($client) = @_; return join ' ', map { $_->{t} eq 'end' ? 'end' : $_->{n}{metadata}{source} } grep { $_->{t} =~ /^(msg|end)$/ } @{ $client->{messages} } }

for my $case ([ 'shard 0', 0, 'news', 'own' ], [ 'the shard of the user', $cluster->shard_of($user), 'own', 'news' ])
{
    my ($what, $shard, $late, $other) = @$case;
    my $client = $relay->client($user, ends => JSON::true);
    $pg->safe_psql('postgres', 'BEGIN;' . insert($other) . insert($late) . 'COMMIT');
    $client->run_until("$what: the client is live", sub { received($client) =~ /end/ });
    @{ $client->{messages} } = ();
    my $lost = $cluster->primary_of($shard);
    $lost->kill9;
    wait_until("$what: it is unavailable", sub { $relay->metric('clairon_store_unavailable_shards') > 0 });
    $pg->safe_psql('postgres', 'BEGIN;' . insert($other) . insert($late) . 'COMMIT');
    $pg->safe_psql('postgres', insert($other));
    $client->run_until("$what: the rows of the other shard arrive", sub { received($client) =~ /$other.*$other/ });
    $lost->start;
    $client->run_until("$what: the ends arrive", sub { received($client) =~ /end.*end/ });
    is(received($client), "$other $other $late end end", "$what: each end follows all of its transaction");
    is($client->gaps, '', "$what: the client receives no gap");
    $client->close;
}

done_testing();
