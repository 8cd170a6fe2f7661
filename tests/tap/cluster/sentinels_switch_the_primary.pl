# Tests a store with sentinels: the relay follows each failover, with the least permissions for the sentinels, and does not
# write to a former primary.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $sentinels = Clairon::Test::sentinels();
for my $sentinel (@{ $sentinels->{sentinels} })
{
    # The rules of docker/CLUSTER.md.
    $sentinel->execute('ACL', 'SETUSER', 'watcher', 'on', '>word', qw(resetchannels &+switch-master +sentinel|master +sentinel|replicas +subscribe));
    $sentinel->execute('SENTINEL', 'FLUSHCONFIG');
}
my $word = Clairon::Test::scratch() . '/word';
Clairon::Test::Relay->write_file($word, "word\n");
my $relay = Clairon::Test::relay($pg, $sentinels, conf => { 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h',
    'store.sentinel_user' => 'watcher', 'store.sentinel_password_file' => $word });
my $client = $relay->client('u1');
my $rows   = 0;

sub insert { my ($count) = @_; $pg->safe_psql('postgres', q{INSERT INTO t (owner) VALUES ('u1')}) for 1 .. $count; return $rows += $count }
sub newest { my ($node) = @_; return $node->execute('XREVRANGE', 'clairon:stream', '+', '-', 'COUNT', 1)->[0][0] }

$client->wait_row(insert(10));
wait_until('the relay subscribes to the failovers of each sentinel', sub {
    !grep { $_->execute('CLIENT', 'LIST') !~ /^(?=.* sub=1 )(?=.* user=watcher\b)/m } @{ $sentinels->{sentinels} } });
for my $how (qw(killed paused))
{
    my $former = $sentinels->primary;
    my $since  = time;
    if ($how eq 'killed') { $former->kill9 }
    else                  { $former->pause }
    insert(10);
    $client->wait_row($rows);
    note sprintf 'a %s primary: notifications are delivered after %.1f s', $how, time - $since;
    my $primary = $sentinels->wait_failover($former);
    isnt($primary, $former, "a $how primary: the relay uses the new primary");
    if ($how eq 'paused')
    {
        # No sentinel has demoted the former primary, which still considers itself the primary.
        $_->kill9 for @{ $sentinels->{sentinels} };
        kill CONT => $former->pid;
        wait_until('the former primary still replies', sub { $former->execute('ROLE')->[0] eq 'master' });
        my $newest = newest($former);
        $client->wait_row(insert(10));
        is(newest($former), $newest, 'the relay writes nothing to the former primary');
        my @others = grep { !/name=sentinel|addr=\S*sock/ } split /\n/, $former->execute('CLIENT', 'LIST', 'TYPE', 'normal');
        is_deeply(\@others, [], 'the relay has no connection to the former primary');
        $_->launch for @{ $sentinels->{sentinels} };
    }
    else { $former->start }
    wait_until("the former primary that was $how is a replica", sub { (eval { $former->execute('ROLE')->[0] } // '') eq 'slave' });
    wait_until('all replicas are in sync', sub {
        my $role = eval { $sentinels->primary->execute('ROLE') };    # sentinels may cut connections
        $role && $role->[0] eq 'master' && @{ $role->[2] } == 2 });
}

# A failover on request. It is requested again if the sentinels reject it, or abort it because the promotion takes too
# long. During a failover, requests are rejected.
my $former = $sentinels->primary;
wait_until('the sentinels promote a replica on request', sub {
    my $primary = $sentinels->primary;
    return 1 if $primary && $primary != $former;
    eval { $sentinels->{sentinels}[0]->execute('SENTINEL', 'FAILOVER', 'clairon') };
    return 0 });
$sentinels->wait_failover($former);
$client->wait_row(insert(10));
pass('the relay follows a failover on request');

# A leading sentinel reports the former primary until its failover ends, after other sentinels have announced the new
# primary. Each switch of the relay must follow a later failover. The run may have more than three failovers, because a
# slow machine can make a primary appear dead.
my @moves     = $relay->log_text =~ /msg="shards moved to another server".*? server="(\S+)"/g;
my @failovers = $sentinels->promoted;
my @later     = @failovers;
my $not_found = grep { my $move = $_; shift @later while @later && $later[0] ne $move; !shift @later } @moves;
is($not_found, 0, 'the relay never returns to a former primary') or diag "moves: @moves; failovers: @failovers";

# The store remains reachable while at least one sentinel replies.
$_->kill9 for @{ $sentinels->{sentinels} }[ 0, 1 ];
$relay->restart;
my $pos = $client->pos;
$client = $relay->client('u1', pos => $pos);
$client->wait_row(insert(1));
pass('one sentinel is sufficient to find the primary');

my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $sentinels->entries;
is_deeply(\@stored, [ 1 .. $rows ], 'each row is stored once, in order');
my $last = $relay->client('u1');
$last->wait_notifications($rows);
$last->ack(map { $_->{metadata}{id} } $last->notifications);
wait_until('all acknowledgements are stored', sub { $sentinels->pending == 0 });
wait_confirmed($pg);
pass('the slot advances');

done_testing();
