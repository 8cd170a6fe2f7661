# Tests that each committed row is stored exactly once and in commit order under random faults and load, and that each pair and
# each notification that asks for receipts has exactly one outcome in the table of receipts.
#
# A seeded schedule of faults hits PostgreSQL, the store, two relays and the network between them while writers commit:
# kills, crashes, restarts, paused processes, rejected writes, cut connections and networks that stop silently.
# CLAIRON_TORTURE_SEED=n repeats a run; CLAIRON_TORTURE_FAULTS=n makes it longer, and CLAIRON_TORTURE_PAUSE=s sets
# pauses longer than the relay's timeouts. CLAIRON_TEST_SHARDS=n sets the number of shards.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed amount);
use Clairon::Test::Torture;
use Test::More;

my $FAULTS  = $ENV{CLAIRON_TORTURE_FAULTS} // amount(10, 100);
my $SEED    = $ENV{CLAIRON_TORTURE_SEED} // int(rand(1_000_000));
my $WRITERS = 3;
srand $SEED;
note "seed $SEED, $FAULTS faults";

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE plain (id bigserial PRIMARY KEY, writer int, n int, owner text);
    CREATE TABLE acked (id bigserial PRIMARY KEY, writer int, n int, team text DEFAULT 't1');
    CREATE TABLE brief (id bigserial PRIMARY KEY, team text DEFAULT 't2');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2'), ('TEAM', 't2', 'absent'), ('TEAM', 't2', 'away');
    SELECT clairon.watch('plain', 'USER', 'owner');
    SELECT clairon.watch('acked', 'TEAM', 'team', ack_required => true, receipts => 'user');
    SELECT clairon.watch('brief', 'TEAM', 'team', ack_required => true, receipts => 'user', ttl => '1 s')});
my $store    = Clairon::Test::store(fsync => 'everysec');
my $to_store = Clairon::Test::proxy($store->{socket});
my $to_pg    = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port);
# One relay connects directly, the other relay through proxies that simulate a network.
my @relays = map { Clairon::Test::relay($pg, $store, conf => { %$_, 'receipts.sql' => 'true' }) } {}, {
    'store.url'     => $to_store->url('redis'),
    'feed.conninfo' => 'host=127.0.0.1 dbname=postgres user=relay port=' . $to_pg->port };

my $torture = Clairon::Test::Torture->new(pg => $pg, seed => $SEED, tables => [qw(plain acked brief)],
    pause => $ENV{CLAIRON_TORTURE_PAUSE} // 1, stored => sub { $store->stored });

# Each writer commits transactions of one to twenty rows for single users, some with a row for a group.
for my $writer (1 .. $WRITERS)
{
    my $n = 0;
    $torture->start_writer($writer, sub {
        my ($first, $last) = ($n + 1, $n + 1 + int rand 20);
        $n = $last;
        return "INSERT INTO plain (writer, n, owner) SELECT $writer, i, 'u' || i % 5 FROM generate_series($first, $last) i;"
          . (rand() < 0.4 ? "INSERT INTO acked (writer, n) VALUES ($writer, $last); INSERT INTO brief DEFAULT VALUES;" : '');
    });
}

sub restart_relays { $_->is_alive or $_->start for @relays; return }

# Repeats the command until the store accepts it.
sub execute_until_accepted
{
    my (@arguments) = @_;
    wait_until("the store accepts @arguments", sub { eval { $store->execute(@arguments); 1 } });
    return;
}

# The store rejects writes temporarily.
sub reject_writes
{
    my ($how, $again) = @_;
    execute_until_accepted(@$how);
    $torture->wait_rows(20);
    $torture->wait_random;
    execute_until_accepted(@$again);
    return;
}

$torture->run($FAULTS, $torture->common_faults(@relays),
    'the store is killed' => sub { $store->kill9; $torture->wait_rows(20); $store->start },
    'the store is paused' => sub { $torture->pause($store->pid) },
    'the store is full' => sub { reject_writes([qw(CONFIG SET maxmemory 1)], [qw(CONFIG SET maxmemory 0)]) },
    'the store is a replica' => sub {
        reject_writes([ qw(REPLICAOF 127.0.0.1), Clairon::Test::free_port() ], [qw(REPLICAOF NO ONE)]) },
    'the store lacks replicas' => sub {
        reject_writes([qw(CONFIG SET min-replicas-to-write 1)], [qw(CONFIG SET min-replicas-to-write 0)]) },
    'the store and the relays are killed' => sub {
        $_->kill9 for @relays, $store; $torture->wait_rows(20); $store->start; restart_relays() },
    'connections to the store are cut' => sub { $to_store->cut },
    'connections to PostgreSQL are cut' => sub { $to_pg->cut },
    'the network to the store stops' => sub { $to_store->freeze; $torture->wait_random; $to_store->thaw },
    'the network to PostgreSQL stops' => sub { $to_pg->freeze; $torture->wait_random; $to_pg->thaw },
    'the network stops, and data in transit is lost' => sub {
        $_->freeze for $to_store, $to_pg; $torture->wait_random; for ($to_store, $to_pg) { $_->cut; $_->thaw } },
    'the network is slow' => sub { $to_store->delay(0.05); $torture->wait_rows(60); $to_store->delay(0) });
$torture->stop;

my $rows = $torture->committed;
cmp_ok($rows, '>', 10 * $FAULTS, "writers commit $rows rows during $FAULTS faults");
wait_until("all $rows rows are stored", sub { $store->stored >= $rows });
$torture->check_stored_once($store->entries);
$torture->check_commit_order($_, $store->entries($_)) for $store->keys('stream');

# The notifications are pending for the correct users, and all notifications can be acknowledged.
my $acked = $pg->safe_psql('postgres', 'SELECT count(*) FROM acked');
wait_until('rows with ack_required are pending, except those that have expired', sub { $store->pending == $acked });
wait_until('the relays are ready', sub { !grep { ($_->get('/readyz'))[0] != 200 } @relays });
for my $i (0, 1)
{
    my $client = $relays[$i]->client('u' . ($i + 1));
    # Recently stored rows of the other table may still be delivered to u1.
    my $notifications = sub { grep { $_->{metadata}{source} eq 'acked' } $client->notifications };
    my $done = 0;
    while ($done < $acked)
    {
        $client->run_until('more notifications arrive', sub { $notifications->() > $done });
        my @notifications = $notifications->();
        $client->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
        $done = @notifications;
    }
    is($done, $acked, 'member u' . ($i + 1) . ' receives each row once');
}
wait_until('all acks are stored', sub { $store->pending == 0 });

# The key of the table is notification, user, outcome and round: two outcomes of a pair would be two rows.
my $outcomes = q{SELECT user_id || ' ' || outcome || ' ' || round || ' ' || count(*) FROM clairon.receipt GROUP BY user_id, outcome, round ORDER BY user_id, outcome, round};
my $brief    = $pg->safe_psql('postgres', 'SELECT count(*) FROM brief');
wait_until('each outcome is a row', sub { $pg->safe_psql('postgres', 'SELECT count(*) FROM clairon.receipt') >= 3 * ($acked + $brief) });
is($pg->safe_psql('postgres', $outcomes), join("\n", " acked 1 $acked", " unreached 1 $brief", "absent unreached 1 $brief", "away unreached 1 $brief", map { "u$_ acked 1 $acked" } 1, 2),
    'each pair and each notification has exactly one outcome');
is_deeply([ grep { /:(ack:|pending|left)/ } @{ $store->execute('KEYS', '*') } ], [],
    'no notification remains pending');
wait_confirmed($pg);
pass('the slot advances');

done_testing();
