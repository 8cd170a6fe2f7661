# Tests that cursors of shared notifications do not move backwards when a relay reads the notifications before it reads
# the shard of a user. After another reconnect, the client receives no duplicates.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1');
    SELECT clairon.watch('one', 'USER', 'owner');
    SELECT clairon.watch('many', 'TEAM', 'team')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my ($relay, $gate) = map { Clairon::Test::relay($pg, $cluster, conf => {%conf}) } 1 .. 2;

sub rows { my ($client) = @_; return [ map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $client->notifications ] }

my $client = $relay->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO one SELECT i, 'u1' FROM generate_series(1, 12) i});
$client->wait_notifications(12);
my $pos = $client->pos;
$client->close;

$pg->safe_psql('postgres', q{INSERT INTO many SELECT i, 't1' FROM generate_series(1, 20) i});
wait_until('the other relay has read the shared notifications', sub { $gate->metric('clairon_hub_notifications_total') == 20 });
is($gate->metric('clairon_store_followed_shards'), 1, 'the other relay has not read the shard of the user');

$client = $gate->client('u1', pos => $pos);
$client->wait_notifications(20);
is_deeply(rows($client), [ map { "many $_" } 1 .. 20 ], 'the client resumes on the other relay with the missing notifications');
$pos = $client->pos;
$client->close;

for my $at ($gate, $relay)
{
    $client = $at->client('u1', pos => $pos);
    my $id = $at == $gate ? 21 : 22;
    $pg->safe_psql('postgres', "INSERT INTO many VALUES ($id, 't1')");
    $client->run_until('the new row arrives', sub { grep { $_ eq "many $id" } @{ rows($client) } });
    is_deeply(rows($client), ["many $id"], 'after another reconnect the client receives no row again');
    ok($client->wait_for('connected')->{resumed}, 'the client resumes');
    is($client->gaps, '', 'the client receives no gap');
    $pos = $client->pos;
    $client->close;
}

done_testing();
