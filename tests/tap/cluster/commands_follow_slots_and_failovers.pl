# Tests that the commands errors and trace find the error logs and notifications of all shards in a cluster and with
# sentinels, and that they wait while a slot moves and during a failover.
use strict;
use warnings;

use Clairon::Test qw(wait_until unaudited);
use IPC::Run ();
use JSON ();
use Test::More;

my $SHARDS = 4;
my $USERS  = 12;
my $pg     = Clairon::Test::postgresql('main');

# Stores notifications for one user each, which expire and enter the error logs of three shards. Returns their ids.
sub expire_some
{
    my ($store) = @_;
    my @ids = split /\n/, $pg->safe_psql('postgres', "SELECT clairon.notify('USER', ARRAY['u' || i], '{}', ack_required => true,"
          . " ttl => '1 hour') FROM generate_series(1, $USERS) i");
    my %shard;
    wait_until('all notifications are stored', sub {
        my @pending = $store->keys('pending');
        for my $k (0 .. $#pending)
        {
            my $found = $store->execute('HMGET', $pending[$k], @ids);
            defined $found->[$_] and $shard{ $ids[$_] } = $k for 0 .. $#ids;
        }
        return keys %shard == @ids;
    });
    my @due = $store->keys('due');
    $store->execute('ZADD', $due[ $shard{$_} ], 1, "$_:") for @ids;
    wait_until('all notifications are in the error log', sub { $store->error_count == @ids });
    return @ids;
}

# Drops pending notifications of all shards.
sub check_drop
{
    my ($relay, $store, $kind) = @_;
    my @ids = split /\n/, $pg->safe_psql('postgres', "SELECT clairon.notify('USER', ARRAY['u' || i], '{}', ack_required => true, source => 'dropped')"
          . " FROM generate_series(1, $USERS) i");
    wait_until('all notifications are pending', sub { $store->pending == $USERS });
    is(($relay->run('drop', '--source', 'dropped', '--dry-run'))[1], "would drop $USERS notifications for $USERS users; nothing was changed\n",
        "$kind: a dry run counts the notifications of all shards");
    is(($relay->run('drop', @ids[ 0 .. 4 ]))[1], "dropped 5 notifications for 5 users\n", "$kind: notifications of several shards are dropped");
    is(($relay->run('drop', '--source', 'dropped'))[1], sprintf("dropped %d notifications for %1\$d users\n", $USERS - 5), "$kind: the others are dropped by their source");
    is($store->pending, 0, "$kind: nothing is pending");
    return;
}

sub age { my ($ms, $number) = split /-/, $_[0]{entry}; return $ms * 1e6 + $number }

# Reads and changes the error log, and reads a trace.
sub check_commands
{
    my ($relay, $store, $kind) = @_;
    check_drop($relay, $store, $kind);
    my @ids = expire_some($store);
    my ($code, $out, $err) = $relay->run('errors', 'list', '--json');
    my @listed = map { JSON::decode_json($_) } split /\n/, $out;
    is_deeply([ $code, $err, sort map { $_->{id} } @listed ], [ 0, '', sort @ids ], "$kind: all entries of all shards are listed");
    is_deeply([ map { $_->{id} } @listed ], [ map { $_->{id} } sort { age($a) <=> age($b) } @listed ], "$kind: the entries are listed oldest first");
    my @first = map { JSON::decode_json($_)->{id} } split /\n/, ($relay->run('errors', 'list', '--json', '--limit', 5))[1];
    is_deeply(\@first, [ map { $_->{id} } @listed[ 0 .. 4 ] ], "$kind: a limit selects the oldest entries of all shards");
    is(($relay->run('errors', 'drop', '--limit', 2))[1], "dropped 2 entries\n",
        "$kind: the number of dropped entries is printed");
    is_deeply([ map { $_->{id} } $store->errors ], [ map { $_->{id} } @listed[ 2 .. $#listed ] ], "$kind: the oldest entries are dropped");
    is_deeply([ map { ($relay->run('trace', $_))[0] } @ids[ 0 .. 3 ] ], [ (0) x 4 ], "$kind: traces are read from any shard");
    is(($relay->run('trace', '01234567-89ab-8def-8123-456789abcdef'))[0], 1, "$kind: an unknown id has no trace");
    return @ids;
}

my $cluster = Clairon::Test::store_cluster(shards => $SHARDS);
my $relay   = Clairon::Test::relay($pg, $cluster);
$relay->wait_ready if $relay->can('wait_ready');
my @ids = check_commands($relay, $cluster, 'cluster');
my $left = @ids - 2;

# A node in the URL was removed from the cluster, but still runs.
my $removed = $cluster->add_node;
$cluster->delete_node($removed);
my $mixed = '--store.url=redis+cluster://' . join ',', map { "127.0.0.1:$_->{port}" } $removed, $cluster->alive;
is_deeply([ ($relay->run('trace', $ids[-1], $mixed))[ 0, 2 ] ], [ 0, '' ], 'commands ignore a node that was removed from the cluster');
$removed->kill9;

# While a slot moves, a redrive waits, and is applied once. The relay is stopped, so only the command uses the slot.
$relay->stop;
my ($shard) = grep { $cluster->execute('XLEN', "clairon:{$_}:errors") } 1 .. $SHARDS - 1;
my $to   = (grep { $_ != $cluster->primary_of($shard) } $cluster->primaries)[0];
my $from = $cluster->begin_move($shard, $to);

# A move that was interrupted and closed: the owner lacks the stream. A redrive would create another one.
my ($dead) = map { $_->{id} } grep { $_->{stream} eq "clairon:{$shard}:errors" } $cluster->errors;
$cluster->move_keys($shard, $from, $to, 0, qr/:(stream|meta)$/);
$_->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'STABLE') for $from, $to;
my ($status, undef, $reason) = $relay->run('errors', 'redrive', $dead);
is_deeply([ $status, $from->execute('EXISTS', "clairon:{$shard}:stream") ], [ 1, 0 ], 'a redrive does not use a shard whose keys are on two nodes');
like($reason, qr/shards unavailable: $shard;/, 'the error names the shard');
$to->execute('CLUSTER', 'SETSLOT', $cluster->slot($shard), 'IMPORTING', $from->{id});
1 while $cluster->move_keys($shard, $to, $from, 10);
$cluster->begin_move($shard, $to);

# The slot moves again.
$from->execute('CONFIG', 'RESETSTAT');
my $redrive = IPC::Run::start([ $relay->{program}, 'errors', 'redrive', '--all', '-c', $relay->{file} ], '>', \my $out, '2>', \my $err);
wait_until('the redrive checks the node', sub { $from->execute('INFO', 'commandstats') =~ /cmdstat_cluster\|?nodes|cmdstat_script/ });
1 while $cluster->move_keys($shard, $from, $to, 10);
$cluster->end_move($shard, $from, $to);
$redrive->finish;
is_deeply([ $out, unaudited($err) ], [ "redrove $left entries for $left users\n", '' ], 'a redrive waits while its slot moves');
is($cluster->error_count, 0, 'all entries are redriven');
is($cluster->execute('HGET', "clairon:{$shard}:meta", 'place'), $from->{id}, 'a command stores no verdict on the node of the shard, and deletes none');
my $waiting = 0;
$waiting += $cluster->execute('HLEN', $_) for $cluster->keys('pending');
is($waiting, $left, 'each notification is pending once');

# A failover during a command.
my $primary = $cluster->primary_of($shard);
$primary->execute('WAIT', 1, 0);
$primary->kill9;
is_deeply([ ($relay->run('trace', $_))[0] ], [0], 'the command trace waits until the failover ends') for $ids[-1];
$cluster->end;

# Commands also follow the sentinels of a store.
my $sentinels = Clairon::Test::sentinels();
$pg->drop_slot('clairon');
my $other = Clairon::Test::relay($pg, $sentinels);
check_commands($other, $sentinels, 'sentinels');
$other->stop;

# The sentinels have other credentials than the servers. During a failover the command reads nothing, because the
# primary that the sentinels report may be the former primary.
$_->execute('ACL', 'SETUSER', 'watcher', 'on', '>word', '~*', '&*', '+@all') for @{ $sentinels->{sentinels} };
my $file = Clairon::Test::scratch() . '/word';
for my $word ('word', 'wrong')
{
    $other->write_file($file, "$word\n");
    my ($code, undef, $err) = $other->run('errors', 'list', '--store.sentinel_user=watcher', "--store.sentinel_password_file=$file");
    is($code, $word eq 'word' ? 0 : 1, "the sentinels check the password \"$word\"");
    like($err, $word eq 'word' ? qr/^$/ : qr/WRONGPASS/, 'only the wrong password causes an error message');
}
my $seen = Clairon::Test::scratch() . '/replies';    # a list would not be shared with the proxy, a separate process
my $proxy = Clairon::Test::proxy($sentinels->{sentinels}[0]{socket}, edit => sub {
    return unless $_[0] =~ /config-epoch/;
    open my $out, '>>', $seen or die "could not open $seen: $!";
    print {$out} 'x';
    close $out or die "could not write $seen: $!";
    $_[0] =~ s/\$6\r\nmaster\r\n/\$27\r\nmaster,failover_in_progress\r\n/ if -s $seen < 3 });
is(($other->run('errors', 'list', '--store.url=redis+sentinel://127.0.0.1:' . $proxy->port . '/clairon'))[0], 0, 'a command waits until the failover ends');
cmp_ok(-s $seen, '>=', 3, 'the command queries the sentinels until the failover ends');

my $former = $sentinels->primary;
$sentinels->{sentinels}[0]->kill9;
is(($other->run('errors', 'list'))[0], 0, 'a command succeeds while one sentinel is unreachable');
$former->execute('WAIT', 2, 0);
$former->kill9;
my ($code, $list) = $other->run('errors', 'list', '--json');
is_deeply([ $code, scalar(split /\n/, $list) ], [ 0, $USERS - 2 ], 'commands wait until the sentinels report another primary');
$_->kill9 for grep { $_->is_alive } @{ $sentinels->{sentinels} };
($code, undef, my $none) = $other->run('errors', 'list');
is($code, 1, 'without a reachable sentinel, commands fail');
like($none, qr/could not connect to the store \(127\.0\.0\.1:\d+\): Connection refused/, 'the error states the reason');

done_testing();
