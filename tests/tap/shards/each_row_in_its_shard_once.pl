# Tests that, with four shards, each committed row is in the correct shard exactly once and in commit order, with killed
# processes and restored shards.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $SHARDS = 4;
my @STREAMS = map { "clairon:{$_}:stream" } 0 .. $SHARDS - 1;
my %conf    = ('store.shards' => $SHARDS);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2');
    SELECT clairon.watch('one', 'USER', 'owner');
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $store = Clairon::Test::store(fsync => 'everysec');
my $relay = Clairon::Test::relay($pg, $store, conf => \%conf);

# Inserts transactions of twenty rows for twenty users, and one row for a group.
my $last = 0;
sub statements
{
    my ($transactions) = @_;
    my $text = '';
    for (1 .. $transactions)
    {
        $text .= sprintf "BEGIN; INSERT INTO one SELECT i, 'u' || i %% 17 FROM generate_series(%d, %d) i;"
          . "INSERT INTO many VALUES (%d, 't1'); COMMIT;\n", $last + 1, $last + 20, $last + 20;
        $last += 20;
    }
    return $text;
}
sub insert { return $pg->safe_psql('postgres', statements(@_)) }
sub rows { return $last + $last / 20 }
sub stored { my $sum = 0; $sum += $store->execute('XLEN', $_) for @STREAMS; return $sum }
sub wait_stored { return wait_until(rows() . ' entries are stored', sub { stored() >= rows() }) }

sub key_of
{
    my ($entry) = @_;
    my ($table) = $entry->{data} =~ /"source":"(\w+)"/;
    my ($id)    = $entry->{data} =~ /"after":\{"id":(\d+)/;
    return "$table $id";
}

# Checks that each row is stored once over all shards, and in commit order in each shard; each user has one shard, and
# groups are in the first shard.
sub check_complete
{
    my ($when, $lost) = @_;
    my (%found, %shard_of, @unordered);
    for my $k (0 .. $SHARDS - 1)
    {
        my $before = '';
        for my $entry ($store->entries($STREAMS[$k]))
        {
            $found{ key_of($entry) }++;
            my $owner = $entry->{data} =~ /"owner":"(\w+)"/ ? $1 : 'group';
            $shard_of{$owner}{$k} = 1;
            my $position = substr $entry->{route}, 8, 16;
            push @unordered, $entry->{entry} if $position le $before;
            $before = $position;
        }
    }
    my %wanted = map { $_ => 1 } (map { "one $_" } 1 .. $last), (map { 'many ' . 20 * $_ } 1 .. $last / 20);
    delete @wanted{@$lost} if $lost;
    is_deeply(\%found, \%wanted, "$when: each row is stored once");
    is_deeply(\@unordered, [], "$when: each shard is in commit order");
    is_deeply([ grep { keys %{ $shard_of{$_} } > 1 } keys %shard_of ], [], "$when: each user has one shard");
    is_deeply([ sort map { $shard_of{$_}{0} ? $_ : () } keys %shard_of ], ['group'], "$when: groups are in the first shard");
    is($store->pending($STREAMS[0]), $last / 20, "$when: notifications of the first shard are pending there");
    return;
}

insert(5);
wait_stored();
check_complete('initially');
is(scalar(grep { $store->execute('XLEN', $_) > 0 } @STREAMS), $SHARDS, 'all shards contain rows');

# Each process is killed under load.
my $script = Clairon::Test::scratch() . '/rows.sql';
PostgreSQL::Test::Utils::append_to_file($script, statements(150));
my $writer = Clairon::Test::writer($pg, $script);
for my $part (1 .. 4)
{
    my $wanted = 100 + 600 * $part;
    wait_until("$wanted entries are stored", sub { stored() >= $wanted });
    if ($part % 2) { $relay->kill9; $relay->start }
    else           { $store->kill9; $store->start }
}
$writer->finish;
$relay->wait_ready;
wait_stored();
check_complete('after kills of relay and store');
$pg->stop('immediate');
$pg->start;
insert(5);
wait_stored();
check_complete('after a crash of PostgreSQL');
my $replayed = $relay->metric('clairon_store_replayed_total');
ok(defined $replayed, 'the relay counts replayed rows');

# One shard is restored from a copy that is older than the slot's confirmed LSN: the missing rows are replayed only for
# this shard.
sub keys_of { my ($k) = @_; return @{ $store->execute('KEYS', "clairon:{$k}:*") } }
wait_confirmed($pg);
my @kept = map { [ $_, $store->execute('DUMP', $_) ] } keys_of(2);
insert(5);
wait_stored();
$relay->kill9;
$store->execute('DEL', keys_of(2));
$store->execute_bytes('RESTORE', $_->[0], 0, $_->[1]) for @kept;
cmp_ok(stored(), '<', rows(), 'one shard lacks rows after it is restored');
my $epoch = epoch();
$relay->start;
$relay->wait_ready;
wait_stored();
check_complete('after one shard was restored');
is(epoch(), $epoch, 'the epoch is unchanged, because no data is lost');
insert(3);
wait_stored();
check_complete('with later rows');

sub epoch { return join ' ', map { $store->execute('HGET', "clairon:{$_}:meta", 'epoch') // 'none' } 0 .. $SHARDS - 1 }

# One shard loses its data: all sessions receive a gap, and unconfirmed rows are replayed.
my $client = $relay->client('u1');
wait_confirmed($pg);
my %before = map { $_ => [ map { key_of($_) } $store->entries($STREAMS[$_]) ] } 0 .. $SHARDS - 1;
$store->execute('DEL', keys_of(3));
is($client->wait_for('gap')->{why}, 'epoch', 'an emptied shard causes a gap for all sessions');
insert(5);
wait_until('later rows are stored', sub { stored() >= rows() - @{ $before{3} } });
check_complete('after the loss of one shard', $before{3});
$relay->wait_ready;

# The first shard, which contains the memberships, loses its data.
wait_confirmed($pg);
my @lost  = (@{ $before{3} }, map { key_of($_) } $store->entries($STREAMS[0]));
my $mark  = $relay->log_mark;
$store->execute('DEL', keys_of(0));
$relay->wait_for_log(qr/copied clairon.member" rows=2.*streaming from slot/s, from => $mark);
is_deeply([ sort @{ $store->execute('SMEMBERS', 'clairon:{0}:members:TEAM:t1') } ], [qw(u1 u2)],
    'the memberships are copied to the first shard again');
insert(2);
wait_until('later rows are stored', sub { stored() >= rows() - @lost });
is($store->execute('XLEN', $STREAMS[0]), 2, 'the first shard stores later notifications');
is($store->pending($STREAMS[0]), 2, 'the first shard contains the pending users');

# A different number of shards is rejected without any change.
$relay->stop;
for my $other (1, 3, 8)
{
    $relay->configure('store.shards' => $other);
    my $start = $relay->log_mark;
    my $sum   = stored();
    $relay->start;
    $relay->wait_for_log(qr/SHARDS clairon was created with \[store\] shards = 4, not $other: restore the old number/, from => $start);
    is($relay->wait_end >> 8, 3, "with shards = $other, the relay exits with status 3");
    is(stored(), $sum, 'a rejected number of shards changes no data');
}
is_deeply([ grep { /\{[4-7]\}/ } @{ $store->execute('KEYS', '*') } ], [], 'a rejected number of shards leaves no key');
$relay->configure('store.shards' => $SHARDS);
$relay->start;
$relay->wait_ready;
insert(1);
wait_until('rows are stored', sub { stored() >= rows() - @lost });
pass('with the correct number of shards the relay stores later rows');

# A store with entries but without shards is also rejected.
my $plain = Clairon::Test::store();
my $first = Clairon::Test::relay($pg, $plain, conf => { 'feed.slot' => 'plain' });
$pg->safe_psql('postgres', q{INSERT INTO one VALUES (1000001, 'u1')});
wait_until('the entry is stored', sub { $plain->execute('XLEN', 'clairon:stream') == 1 });
$first->stop;
$first->configure(%conf);
$first->start;
$first->wait_for_log(qr/SHARDS clairon was created with \[store\] shards = 1, not 4/);
is($first->wait_end >> 8, 3, 'a relay with more shards than the store exits with status 3');
is_deeply([ grep { /\{/ } @{ $plain->execute('KEYS', '*') } ], [], 'a store without shards is rejected and not changed');

done_testing();
