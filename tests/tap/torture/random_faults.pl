# Tests that each committed row is stored exactly once and in commit order under random faults and load.
#
# A seeded schedule of faults hits PostgreSQL, the store or one of its servers, two relays and the network between
# them while writers commit: kills, crashes, restarts, paused processes, rejected writes, cut connections and networks
# that stop silently. To repeat a run: CLAIRON_TORTURE_SEED=n; for longer ones: CLAIRON_TORTURE_FAULTS=n, and
# CLAIRON_TORTURE_PAUSE=s for pauses longer than the relay's timeouts. CLAIRON_TEST_SHARDS=n sets the number of
# shards, CLAIRON_TORTURE_SERVERS=n that of servers.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed amount);
use Test::More;
use Time::HiRes qw(time);

my $FAULTS  = $ENV{CLAIRON_TORTURE_FAULTS} // amount(10, 100);
my $SEED    = $ENV{CLAIRON_TORTURE_SEED} // int(rand(1_000_000));
my $PAUSE   = $ENV{CLAIRON_TORTURE_PAUSE} // 1;    # the longest, in seconds
my $SERVERS = $ENV{CLAIRON_TORTURE_SERVERS} // 1;
my $WRITERS = 3;
srand $SEED;
note "seed $SEED, $FAULTS faults";

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE plain (id bigserial PRIMARY KEY, writer int, n int, owner text);
    CREATE TABLE acked (id bigserial PRIMARY KEY, writer int, n int, team text DEFAULT 't1');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2');
    SELECT clairon.watch('plain', 'USER', 'owner');
    SELECT clairon.watch('acked', 'TEAM', 'team', ack_required => true)});
my @stores    = map { Clairon::Test::store(fsync => 'everysec') } 1 .. $SERVERS;
my @to_stores = map { Clairon::Test::proxy($_->{socket}) } @stores;
my $to_pg     = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port);
# One relay is local, the other is behind a network.
my @relays = map { Clairon::Test::relay($pg, $stores[0], conf => $_) }
  { 'store.url' => join ',', map { $_->url } @stores }, {
    'store.url'     => join(',', map { $_->url('redis') } @to_stores),
    'feed.conninfo' => 'host=127.0.0.1 dbname=postgres user=relay port=' . $to_pg->port };

# Each stream with the server it is on.
my @streams = do { my $k = 0; map { [ $stores[ $k++ % $SERVERS ], $_ ] } $stores[0]->keys('stream') };
sub stored { my $sum = 0; $sum += $_->[0]->execute('XLEN', $_->[1]) for @streams; return $sum }
sub pending { my $sum = 0; $sum += $_->[0]->pending($_->[1]) for @streams; return $sum }
sub any { return $_[ rand @_ ] }

# Writers: transactions of one to twenty rows, some over both tables, until the stop file exists. The test reads the
# committed rows at the end, so a failed psql does not matter.
my $stop_file = Clairon::Test::scratch() . '/stop';
my $connect   = $pg->connstr('postgres');

sub write_rows
{
    my ($writer) = @_;
    my $n = 0;
    open STDOUT, '>', '/dev/null' or POSIX::_exit(1);
    open STDERR, '>', '/dev/null' or POSIX::_exit(1);
    my $parent = getppid();
    while (!-e $stop_file && getppid() == $parent)    # a test that dies leaves no writer
    {
        my ($first, $last) = ($n + 1, $n + 1 + int rand 20);
        $n = $last;
        system 'psql', '-qX', '-d', $connect, '-c',
            "BEGIN; INSERT INTO plain (writer, n, owner) SELECT $writer, i, 'u' || i % 5 FROM generate_series($first, $last) i;"
          . (rand() < 0.4 ? "INSERT INTO acked (writer, n) VALUES ($writer, $last);" : '') . 'COMMIT';
    }
    POSIX::_exit(0);
}

my @writers;
for my $writer (1 .. $WRITERS)
{
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0) { srand($SEED + $writer); write_rows($writer) }
    push @writers, $pid;
}

sub committed
{
    return eval { $pg->safe_psql('postgres',
        'SELECT (SELECT count(*) FROM plain) + (SELECT count(*) FROM acked)') } // 0;
}

# Waits until that many more rows are committed.
sub wait_rows
{
    my ($rows) = @_;
    my $from = committed();
    wait_until("$rows more rows are committed", sub { committed() >= $from + $rows });
    return;
}

# Waits for a random time.
sub wait_random
{
    my $until = time + rand $PAUSE;
    wait_until('time passes', sub { time > $until });
    return;
}

sub restart_relays { $_->is_alive or $_->start for @relays; return }

# The walsender, a child of the postmaster: a paused one simulates a hanging server.
sub walsender
{
    return eval { $pg->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication LIMIT 1') } || undef;
}

sub pause
{
    my ($pid) = @_;
    return unless $pid && kill STOP => $pid;
    wait_random();
    kill CONT => $pid;
    return;
}

# Repeats the command until the store accepts it.
sub execute_until_accepted
{
    my ($store, @arguments) = @_;
    wait_until("the store accepts @arguments", sub { eval { $store->execute(@arguments); 1 } });
    return;
}

# The store, or one of its servers, rejects writes for some time.
sub reject_writes
{
    my ($how, $again) = @_;
    my $store = any(@stores);
    execute_until_accepted($store, @$how);
    wait_rows(20);
    wait_random();
    execute_until_accepted($store, @$again);
    return;
}

my %faults = (
    'a relay is killed' => sub { my $relay = $relays[ rand @relays ]; $relay->kill9; wait_rows(20); restart_relays() },
    'both relays are killed' => sub { $_->kill9 for @relays; wait_rows(20); restart_relays() },
    'a relay is stopped' => sub { my $relay = $relays[ rand @relays ]; $relay->stop; restart_relays() },
    'a relay is paused' => sub { pause($relays[ rand @relays ]->pid) },
    'both relays are paused, one after the other' => sub { pause($_->pid) for @relays },
    'the store is killed' => sub { my $store = any(@stores); $store->kill9; wait_rows(20); $store->start },
    'the store is paused' => sub { pause(any(@stores)->pid) },
    'the store is full' => sub { reject_writes([qw(CONFIG SET maxmemory 1)], [qw(CONFIG SET maxmemory 0)]) },
    'the store is a replica' => sub {
        reject_writes([ qw(REPLICAOF 127.0.0.1), Clairon::Test::free_port() ], [qw(REPLICAOF NO ONE)]) },
    'the store lacks replicas' => sub {
        reject_writes([qw(CONFIG SET min-replicas-to-write 1)], [qw(CONFIG SET min-replicas-to-write 0)]) },
    'the store and the relays are killed' => sub {
        $_->kill9 for @relays, @stores; wait_rows(20); $_->start for @stores; restart_relays() },
    'PostgreSQL crashes' => sub { $pg->stop('immediate'); $pg->start },
    'PostgreSQL restarts' => sub { $pg->restart },
    'the walsender is terminated' => sub {
        eval { $pg->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication') } },
    'the walsender is paused' => sub { pause(walsender()) },
    'connections to the store are cut' => sub { any(@to_stores)->cut },
    'connections to PostgreSQL are cut' => sub { $to_pg->cut },
    'the network to the store stops' => sub { my $network = any(@to_stores); $network->freeze; wait_random(); $network->thaw },
    'the network to PostgreSQL stops' => sub { $to_pg->freeze; wait_random(); $to_pg->thaw },
    'the network stops, and data in transit is lost' => sub {
        $_->freeze for @to_stores, $to_pg; wait_random(); for (@to_stores, $to_pg) { $_->cut; $_->thaw } },
    'the network is slow' => sub { my $network = any(@to_stores); $network->delay(0.05); wait_rows(60); $network->delay(0) },
);
my @names = sort keys %faults;

my $begin = time;
for my $fault (1 .. $FAULTS)
{
    my $name = $names[ rand @names ];
    note sprintf '%5.1f s  fault %d: %s', time - $begin, $fault, $name;
    $faults{$name}->();
    # Sometimes the next fault precedes the recovery from this one.
    next if rand() < 0.3;
    my $stored = eval { stored() } // 0;
    wait_until("rows are stored again after fault $fault ($name)", sub { (eval { stored() } // 0) > $stored });
}
open my $file, '>', $stop_file or die "could not write $stop_file: $!";
close $file;
waitpid $_, 0 for @writers;

my $rows = committed();
cmp_ok($rows, '>', 10 * $FAULTS, "writers commit $rows rows during $FAULTS faults");
wait_until("all $rows rows are stored", sub { stored() >= $rows });

my @entries = map { $_->[0]->entries($_->[1]) } @streams;
is(scalar @entries, $rows, 'the streams have one entry per row');
my %stored;
for my $entry (@entries)
{
    my ($table) = $entry->{data} =~ /"source":"(\w+)"/;
    my ($id)    = $entry->{data} =~ /"after":\{"id":(\d+)/;
    $stored{"$table $id"}++;
}
my %wanted = map { $_ => 1 } split /\n/, $pg->safe_psql('postgres',
    q{SELECT 'plain ' || id FROM plain UNION ALL SELECT 'acked ' || id FROM acked});
is_deeply(\%stored, \%wanted, 'each committed row is stored exactly once');
my %ids = map { $_->{id} => 1 } @entries;
is(scalar keys %ids, $rows, 'each row has a distinct id');
for my $one (@streams)
{
    my ($store, $stream) = @$one;
    my @positions = map { substr $_->{route}, 8, 16 } $store->entries($stream);
    is(scalar(grep { $positions[$_] le $positions[ $_ - 1 ] } 1 .. $#positions), 0, "$stream is in commit order");
}

# The pending users match the stored rows, and all can be acknowledged.
my $acked = $pg->safe_psql('postgres', 'SELECT count(*) FROM acked');
is(pending(), $acked, 'rows with ack_required are pending');
wait_until('the relays are ready', sub { !grep { ($_->get('/readyz'))[0] != 200 } @relays });
for my $i (0, 1)
{
    my $client = $relays[$i]->client('u' . ($i + 1));
    # Recently stored rows of the other table may still be delivered to u1.
    my $notifications = sub { grep { $_->{metadata}{source} eq 'acked' } $client->notifications };
    my $done = 0;
    while ($done < $acked)
    {
        $client->run_until('more to acknowledge', sub { $notifications->() > $done });
        my @notifications = $notifications->();
        $client->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
        $done = @notifications;
    }
    is($done, $acked, 'member u' . ($i + 1) . ' receives each row once');
}
wait_until('all acks are stored', sub { pending() == 0 });
is_deeply([ grep { /:(ack:|inbox|pending|left)/ } map { @{ $_->execute('KEYS', '*') } } @stores ], [],
    'no notification is left pending');
wait_confirmed($pg);
pass('the slot advances');

done_testing();
