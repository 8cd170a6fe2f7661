# Tests /readyz: any worker replies for the relay, a relay is ready once the slot exists, it stays ready while PostgreSQL
# is away, and it listens once its store is connected.
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'ALL')});
my $rows = 0;
sub insert { $pg->safe_psql('postgres', 'INSERT INTO t VALUES (' . ++$rows . ')'); return }

# Returns the different replies to several requests, each on a new connection, as "status feed".
sub replies
{
    my ($relay, $path) = @_;
    my %replies;
    for (1 .. (($relay->{settings}{'gate.workers'} // 1) > 1 ? 24 : 2))
    {
        my ($status, $body) = $relay->get($path // '/readyz');
        $replies{ $status ? "$status " . JSON::decode_json($body)->{feed} : 'refused' } = 1;
    }
    return join ', ', sort keys %replies;
}

# A failure takes one minute, because the transaction of a psql in the background must not last longer than the default.
sub wait_replies
{
    my ($relay, $path, $expected, $what) = @_;
    my $replies;
    ok(eval { wait_until($what, sub { ($replies = replies($relay, $path)) eq $expected }, 60); 1 }, $what) or diag("replies: $replies");
    return;
}

for my $workers (1, 3)
{
    # The new slot waits for this transaction.
    my $open = $pg->background_psql('postgres');
    $open->query_safe('BEGIN; SELECT pg_current_xact_id()');
    my $store = Clairon::Test::store();
    my %conf  = ('gate.workers' => $workers, 'feed.slot' => "slot_$workers");
    my $relay = Clairon::Test::relay($pg, $store, wait => 0, conf => \%conf);
    $relay->wait_for_log(qr/creating slot/);
    my $second = Clairon::Test::relay($pg, $store, wait => 0, conf => \%conf);
    $second->wait_for_log(qr/slot is being created by another process, waiting/);
    wait_replies($relay, '/readyz', '503 down', "$workers workers: before the slot exists, the relay is not ready");
    wait_replies($second, '/readyz', '503 down', "$workers workers: before the slot exists, a relay that waits for it is not ready");
    $open->query_safe('COMMIT');
    $open->quit;
    wait_until('the relay is ready', sub { ($relay->get('/readyz'))[0] == 200 });
    insert();
    wait_until("$workers workers: a row that is committed once the relay is ready is stored", sub { $store->entries == 1 });
    pass("$workers workers: a row that is committed once the relay is ready is stored");
    wait_replies($relay, '/readyz?need=feed', '200 streaming', "$workers workers: every worker reports that the feed streams");
    wait_replies($second, '/readyz?need=feed', '200 standby', "$workers workers: a relay in standby is ready and reports standby");
    $second->stop;

    $pg->stop('fast');
    wait_replies($relay, '/readyz', '200 down', "$workers workers: without PostgreSQL, the relay stays ready and reports that the feed is down");
    is(replies($relay, '/readyz?need=feed'), '503 down', "$workers workers: without PostgreSQL, ?need=feed returns 503");
    $relay->stop;
    $relay->start;
    wait_replies($relay, '/readyz', '200 down', "$workers workers: a relay that starts without PostgreSQL is ready if the store has the progress of the slot");
    is(replies($relay, '/readyz?need=feed'), '503 down', "$workers workers: a relay that starts without PostgreSQL has no feed");
    my $new = Clairon::Test::relay($pg, Clairon::Test::store(), wait => 0, conf => \%conf);
    $new->wait_for_log(qr/could not connect to PostgreSQL/);
    is(replies($new), '503 down', "$workers workers: at a first start without PostgreSQL, the relay is not ready");
    $new->stop;
    $pg->start;
    wait_replies($relay, '/readyz?need=feed', '200 streaming', "$workers workers: the feed streams again");

    $store->stop;
    wait_replies($relay, '/readyz', '503 down', "$workers workers: without the store, the relay is not ready");
    $relay->stop;
    $relay->start;
    $relay->wait_for_log(qr/started/, from => $relay->{start_mark});
    is(replies($relay), 'refused', "$workers workers: a relay does not listen before its store is connected");
    $store->start;
    wait_replies($relay, '/readyz', '200 streaming', "$workers workers: a relay listens once its store is connected");
    is($relay->stop, 0, "$workers workers: the relay stops");
    $pg->drop_slot("slot_$workers");
}

# A relay without the role feed does not depend on PostgreSQL; without the role gate it does.
my $store = Clairon::Test::store();
my $port  = free_port();
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate');
is(replies($gate), '200 off', 'a relay without the role feed is ready');
my $feed = Clairon::Test::relay($pg, $store, roles => 'feed', wait => 0,
    conf => { 'gate.admin_listen' => "127.0.0.1:$port", 'auth.hs256_secret_file' => undef });
sub status { return (eval { Clairon::Test::RawSocket->new({ port => $port })->request(GET => '/readyz') } // {})->{status} // 0 }
wait_until('the feed is ready', sub { status() == 200 });
$pg->stop('fast');
wait_until('a relay without the role gate is not ready without PostgreSQL', sub { status() == 503 });
pass('a relay without the role gate is not ready without PostgreSQL');
is(replies($gate), '200 off', 'a relay without the role feed stays ready without PostgreSQL');

done_testing();
