# Tests a relay that starts to read a shard whose node hangs, while another shard is emptied. The new client of the
# shard receives only notifications that are stored after the loss.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Client;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my $feed    = Clairon::Test::relay($pg, $cluster, roles => 'feed', conf => {%conf});
my $gate    = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf});

my ($shared, $hangs, $emptied) = ($cluster->primary_of(0));
$hangs = $cluster->primary_of((grep { $cluster->primary_of($_) != $shared } 1 .. 15)[0]);
($emptied) = grep { $_ != $shared && $_ != $hangs } $cluster->alive;
my ($user) = grep { $cluster->primary_of($cluster->shard_of($_)) == $hangs } map { "u$_" } 1 .. 99;

$pg->safe_psql('postgres', "INSERT INTO t SELECT i, '$user' FROM generate_series(1, 5) i");
wait_until('the rows are stored', sub { $cluster->stored == 5 });
is($gate->metric('clairon_store_followed_shards'), 1, 'the relay does not read the shard of the rows yet');

$cluster->pause($hangs);
sub connecting { my $client = Clairon::Test::Client->new($gate->url('/v1/ws')); $client->send({ t => 'connect', r => 1, token => token(sub => $user) }); return $client }
my $client = connecting();
wait_until('the relay starts to read the shard', sub { $gate->metric('clairon_store_followed_shards') == 2 });
$emptied->execute('FLUSHALL');
$gate->wait_for_log(qr/store was emptied or its progress reset/);
is(scalar(grep { $_->{t} eq 'connected' } @{ $client->{messages} }), 0, 'the client waits for the shard');
$cluster->resume($hangs);
# On a busy machine the client may have waited for so long that the relay asked it to reconnect.
wait_until('the client is connected', sub {
    $client = connecting() if $client->{closed};
    $client->run_until('a reply arrives', sub { @{ $client->{messages} } || $client->{closed} });
    return !$client->{closed} && $client->{messages}[0]{t} eq 'connected' });
wait_until('the slot is read again', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'}) });
$pg->safe_psql('postgres', "INSERT INTO t VALUES (6, '$user')");
$client->wait_notifications(1);
is($client->{messages}[-1]{n}{payload}{after}{id}, 6, 'the client receives the new row');
is(scalar($client->notifications), 1, 'the client receives no older row');

done_testing();
