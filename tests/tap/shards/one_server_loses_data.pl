# Tests shards on two servers, one of which is behind or restored: each row is stored once, and only actual losses are
# announced.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $SHARDS = 4;
my $pg     = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1');
    SELECT clairon.watch('one', 'USER', 'owner');
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $port    = Clairon::Test::free_port();
my @stores  = (Clairon::Test::store(), Clairon::Test::store(fsync => 'always', options => [ '--port', $port, '--repl-diskless-sync-delay', 0 ]));
my $replication = Clairon::Test::proxy("127.0.0.1:$port");          # between the second one and its replica
my $replica = Clairon::Test::store(fsync => 'always', options => [ '--replicaof', '127.0.0.1', $replication->port ]);
my $address = Clairon::Test::proxy($stores[1]{socket});         # the second one's address in the relay's settings
# The first one has no replica: nothing is confirmed, so a new feed reads everything again.
my $relay = Clairon::Test::relay($pg, undef, conf => { 'store.shards' => $SHARDS, 'store.min_replicas' => 1,
    'store.url' => join(',', $stores[0]->url, $address->url('redis')), 'gate.ping' => '1h', 'delivery.ack_timeout' => '1h' });

# Transactions of ten rows for five users, and one for a group.
my $last = 0;
sub insert
{
    my ($transactions) = @_;
    for (1 .. $transactions)
    {
        $pg->safe_psql('postgres', sprintf q{BEGIN; INSERT INTO one SELECT i, 'u' || i %% 5 FROM generate_series(%d, %d) i;
            INSERT INTO many VALUES (%d, 't1'); COMMIT}, $last + 1, $last + 10, $last + 10);
        $last += 10;
    }
    return;
}

sub entries
{
    my ($shard) = @_;
    return map { $_->{data} =~ /"source":"(\w+)".*"after":\{"id":(\d+)/ ? "$1 $2" : 'none' }
      $stores[ $shard % 2 ]->entries("clairon:{$shard}:stream");
}
sub stored { my (@shards) = @_; return scalar map { entries($_) } @shards ? @shards : 0 .. $SHARDS - 1 }

# The last rows are stored, so all earlier ones are.
sub wait_stored
{
    my %newest = map { $_ => 1 } (map { 'one ' . ($last - $_) } 0 .. 4), "many $last";
    wait_until("the rows up to $last are stored", sub { 6 == grep { $newest{$_} } map { (entries($_))[ -3 .. -1 ] } 0 .. $SHARDS - 1 });
    return;
}

# Each row once over all shards, except lost ones; in commit order in each.
sub check_complete
{
    my ($when, @lost) = @_;
    my (%found, @unordered);
    for my $k (0 .. $SHARDS - 1)
    {
        $found{$_}++ for entries($k);
        my @positions = map { substr $_->{route}, 8, 16 } $stores[ $k % 2 ]->entries("clairon:{$k}:stream");
        push @unordered, grep { $positions[$_] le $positions[ $_ - 1 ] } 1 .. $#positions;
    }
    my %wanted = map { $_ => 1 } (map { "one $_" } 1 .. $last), map { 'many ' . 10 * $_ } 1 .. $last / 10;
    delete @wanted{@lost};
    is_deeply(\%found, \%wanted, "$when: each row is stored once");
    is_deeply(\@unordered, [], "$when: each shard is in commit order");
    return;
}

my $client = $relay->client('u1');
sub check_delivered
{
    my ($when) = @_;
    my @wanted = sort { $a <=> $b } map { ($_ % 5 == 1 ? $_ : (), $_ % 10 ? () : $_) } 1 .. $last;
    my %rows;
    $client->run_until('all rows', sub { %rows = map { $_->{payload}{after}{id} => 1 } $client->notifications; keys %rows >= @wanted });
    is_deeply([ sort { $a <=> $b } keys %rows ], \@wanted, "$when: each row is delivered to a live client");
    is($client->gaps, '', "$when: the client gets no gap");
    return;
}

insert(3);
wait_stored();
check_complete('at first');
check_delivered('at first');

# The relay is killed when one server has its parts of some batches and the other has none.
$address->freeze;
my ($near, $far) = (stored(0, 2), stored(1, 3));
insert(5);
wait_until('one server has its parts', sub { stored(0, 2) > $near });
$relay->kill9;
is(stored(1, 3), $far, 'killed between batches: the other server has no row of the batch');
$address->cut;
$address->thaw;
$relay->start;
$relay->wait_ready;
insert(1);
wait_stored();
check_complete('killed between batches');
$client = $relay->client('u1');
$client->{messages} = [];

# The second server is killed and its replica lacks the last rows: they are replayed for this server only.
my $from = $last;
sub on_replica { return $replica->execute('XLEN', 'clairon:{1}:stream') + $replica->execute('XLEN', 'clairon:{3}:stream') }
wait_until('the replica has caught up', sub { on_replica() == stored(1, 3) });
$replication->freeze;
insert(2);
wait_stored();
cmp_ok(on_replica(), '<', stored(1, 3), 'the replica lacks the last rows');
my $mark = $relay->log_mark;
$stores[1]->kill9;
$replica->execute('REPLICAOF', 'NO', 'ONE');
$address->target($replica->{socket});
$stores[1] = $replica;
$relay->wait_for_log(qr/streaming from slot/, from => $mark);
insert(1);
wait_stored();
check_complete('a failover of one server');
my @wanted = grep { $_ % 5 == 1 || $_ % 10 == 0 } $from + 1 .. $last;
my %rows;
sub received { return { map { $_ => 1 } grep { $_ > $from } map { $_->{payload}{after}{id} } $client->notifications } } # in addition to pending rows
$client->run_until('all rows', sub { %rows = %{ received() }; keys %rows >= @wanted });
is_deeply([ sort { $a <=> $b } keys %rows ], \@wanted, 'a failover of one server delivers all rows to a live client');
is($client->gaps, '', 'a failover of one server causes no gap');

# One shard is restored from a copy older than the slot's confirmed LSN. Rows in between are lost for this shard and
# announced. The other shards lost nothing and get no replayed rows.
sub epochs { return map { $stores[ $_ % 2 ]->execute('HGET', "clairon:{$_}:meta", 'epoch') } 0 .. $SHARDS - 1 }
sub keys_of { return sort @{ $stores[1]->execute('KEYS', 'clairon:{3}:*') } }
$relay->configure('store.min_replicas' => 0);
$relay->restart;
wait_confirmed($pg);
my @kept = map { [ $_, $stores[1]->execute('DUMP', $_) ] } keys_of();
my $stored_before = stored(3);
insert(2);
wait_stored();
my @lost = (entries(3))[ $stored_before .. stored(3) - 1 ];
cmp_ok(scalar @lost, '>', 0, 'the shard has rows that it will lose');
wait_confirmed($pg);
$relay->configure('store.min_replicas' => 1);
$relay->restart;
insert(2);
wait_stored();
$client = $relay->client('u1');
my @before = epochs();
$relay->kill9;
$stores[1]->execute('DEL', keys_of());
$stores[1]->execute_bytes('RESTORE', $_->[0], 0, $_->[1]) for @kept;
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/slot starts beyond the store's progress/, from => $mark);
$relay->wait_ready;
my $reconnected = $relay->client('u1', pos => $client->pos);
is($reconnected->wait_for('gap')->{why}, 'epoch', 'an old copy of one shard causes a gap');
insert(1);
wait_stored();
check_complete('an old copy of one shard', @lost);
my @after = epochs();
is_deeply([ grep { $before[$_] ne $after[$_] } 0 .. $SHARDS - 1 ], [3], 'the other shards are not changed');
is($stores[0]->pending('clairon:{0}:stream'), $last / 10, 'each pending notification is pending once');

done_testing();
