# Tests a relay that is paused or stopped while the move of a shard's slot is interrupted, and its repair begins: when it
# continues or starts, it does not use the shard before all keys are on one node.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;
use Time::HiRes qw(time);

my $PAUSE_S = 6;    # longer than the relay's limit of 5 s
my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1');
    SELECT clairon.watch('t', 'TEAM', 'team', ack_required => true)});
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'delivery.ack_timeout' => '1h' });
my $shard = 0;    # contains all memberships
my ($slot, $from) = ($cluster->slot($shard), $cluster->primary_of($shard));
my ($to) = grep { $_ != $from } $cluster->primaries;

# Inserts rows of a user without a session, so only the store contains the notifications.
sub insert { my ($first, $last) = @_; return $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 't1' FROM generate_series($first, $last) i") }

insert(1, 5);
wait_until('the rows are stored', sub { $cluster->stored == 5 });
my $epoch = $cluster->execute('HGET', "clairon:{$shard}:meta", 'epoch');
my $mark  = $relay->log_mark;

kill STOP => $relay->pid;
my $until = time + $PAUSE_S;
$cluster->begin_move($shard, $to);
$cluster->move_keys($shard, $from, $to, 0, qr/:(members|groups)/);
$_->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE') for $from, $to;
insert(6, 10);
wait_until('the relay was paused long enough', sub { time > $until });
kill CONT => $relay->pid;
wait_until('the relay waits', sub { $relay->log_text($mark) =~ /keys of a shard are on several nodes/ });
is($from->execute('XLEN', "clairon:{$shard}:stream"), 5, 'the relay stores nothing without the memberships');

$cluster->begin_move($shard, $to);
1 while $cluster->move_keys($shard, $from, $to, 10);
$cluster->end_move($shard, $from, $to);
wait_until('all rows are stored', sub { $cluster->stored >= 10 });
is(scalar($cluster->entries), 10, 'each row is stored once');
is(join(' ', map { $cluster->audience_of($_) } $cluster->entries), join(' ', ('u1') x 10), 'each audience contains the member');
is($cluster->execute('HGET', "clairon:{$shard}:meta", 'epoch'), $epoch, 'the epoch does not change');
my $client = $relay->client('u1');
$client->wait_notifications(10);
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1 .. 10 ], 'the user receives all rows in order');
wait_confirmed($pg);
pass('the slot advances');

$relay->stop;
is($cluster->execute('HGET', "clairon:{$shard}:meta", 'place'), $to->{id}, 'the store contains the node with all keys');
$cluster->begin_move($shard, $from);
$cluster->move_keys($shard, $to, $from, 0, qr/:(members|groups)/);
$_->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE') for $from, $to;
insert(11, 15);
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/keys of a shard are on several nodes/, from => $mark);
is($to->execute('XLEN', "clairon:{$shard}:stream"), 10, 'a relay that starts stores nothing without the memberships');
$cluster->begin_move($shard, $from);
1 while $cluster->move_keys($shard, $to, $from, 10);
$cluster->end_move($shard, $to, $from);
wait_until('all rows are stored', sub { $cluster->stored >= 15 });
is(join(' ', map { $cluster->audience_of($_) } grep { $_->{data} =~ /"id":1[1-5]\b/ } $cluster->entries), join(' ', ('u1') x 5), 'each later audience contains the member');

done_testing();
