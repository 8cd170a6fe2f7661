# Tests sentinels with lower epochs: while a majority of the sentinels is dead, the relay ignores one that missed a failover.
# If a majority was recreated, the relay uses the primary of the new sentinels.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{CREATE TABLE t (id serial PRIMARY KEY, owner text); SELECT clairon.watch('t', 'USER', 'owner')});
my $sentinels = Clairon::Test::sentinels();
my ($outdated, @others) = @{ $sentinels->{sentinels} };
my $relay  = Clairon::Test::relay($pg, $sentinels, conf => { 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $rows   = 0;

sub insert { $pg->safe_psql('postgres', q{INSERT INTO t (owner) VALUES ('u1')}); return ++$rows }
sub connections { my ($server) = @_; return ($server->execute('INFO', 'stats') =~ /^total_connections_received:(\d+)/m)[0] }

# Sentinels that changed the role of a server have cut its connections, so the first command may fail.
sub replicate
{
    my ($server, @from) = @_;
    wait_until('the server changes its role', sub { eval { $server->execute('REPLICAOF', @from) } });
    return;
}

sub follow
{
    my ($server, $primary) = @_;
    replicate($server, '127.0.0.1', $primary->{port});
    wait_until('the replica is in sync', sub { my $role = $server->execute('ROLE'); $role->[0] eq 'slave' && $role->[3] eq 'connected' });
    return;
}

$client->wait_row(insert());
my $former = $sentinels->primary;
$outdated->kill9;
$former->kill9;
my $primary = $sentinels->wait_failover($former);
$client->wait_row(insert());
my $epoch = $others[0]->state('clairon')->{'config-epoch'};

# The former primary is reachable, as a replica.
$former->start;
follow($former, $primary);
$_->kill9 for @others;
my $mark = $relay->log_mark;
$outdated->launch;
my $state = wait_until('the outdated sentinel replies', sub { eval { $outdated->state('clairon') } });
is("$state->{port} $state->{flags}", "$former->{port} master", 'the outdated sentinel reports the former primary');
cmp_ok($state->{'config-epoch'}, '<', $epoch, 'its epoch is lower');

# The relay queries a sentinel after each subscription, with another connection.
my $before = connections($outdated);
wait_until('the relay queries the outdated sentinel several times', sub {
    $outdated->execute('CLIENT', 'KILL', 'TYPE', 'pubsub');
    return connections($outdated) - $before >= 12 });
is(($relay->get('/readyz'))[0], 200, 'the relay is ready');
unlike($relay->log_text($mark), qr/shards moved to another server|disagree on the server of a shard/, 'the relay keeps its primary');
$client->wait_row(insert());
pass('notifications are delivered');

# Two of three sentinels are recreated, so their epoch is zero. The third one stays dead.
$outdated->kill9;
my ($promoted) = grep { $_ != $former && $_ != $primary } @{ $sentinels->{nodes} };
replicate($promoted, 'NO', 'ONE');
follow($_, $promoted) for $former, $primary;
$sentinels->launch_new_sentinel($_, $promoted) for @others;
$relay->wait_for_log(qr/shards moved to another server.*server="?127\.0\.0\.1:$promoted->{port}\b/, from => $mark);
is($others[0]->state('clairon')->{'config-epoch'}, 0, 'the recreated sentinels have a lower epoch');
$client->wait_row(insert());
pass('the relay uses the primary of the recreated sentinels');

my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $promoted->entries;
is_deeply(\@stored, [ 1 .. $rows ], 'each row is stored once, in order');

done_testing();
