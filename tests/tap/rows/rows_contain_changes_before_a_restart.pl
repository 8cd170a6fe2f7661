# Tests that a restarted relay sends rows only from a snapshot that contains the last transactions delivered before the
# restart.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::StubRows;
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s' });

# Snapshots that contain all transactions up to the last transaction; the first snapshot lacks `xid`.
sub snapshot_without { my ($xid, $last) = @_; return sprintf '%s:%s:%s', $xid, $last + 1, $xid }
sub snapshot_with { my ($xid) = @_; return sprintf '%s:%s:', $xid + 1, $xid + 1 }

# Checks that a new connection after a restart receives rows only from a snapshot that contains the transaction.
sub check_restart
{
    my ($what, $xid, $last) = @_;
    $last //= $xid;
    $stub->set('t', snapshot => snapshot_without($xid, $last));
    $relay->restart;
    my $client = $relay->client('u1');
    $client->send({ t => 'rows', r => 2, source => 't' });
    my $reply = sub { (grep { ($_->{r} // 0) == 2 } @{ $client->{messages} })[0] };
    $client->run_until('the relay has queried the database', sub { $reply->() || $relay->metric('clairon_rows_repeated_total') >= 2 });
    ok(!$reply->(), "rows are not sent from a snapshot without $what");
    $stub->set('t', snapshot => snapshot_with($last));
    is($client->wait_for(sub { ($_[0]{r} // 0) == 2 })->{snapshot}, snapshot_with($last),
        "rows are sent from a snapshot with $what");
    return;
}

my $client = $relay->client('u1');
my $x      = $pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1') RETURNING pg_current_xact_id()});
$client->wait_row(1);
my $published = Mojo::UserAgent->new->post($relay->url('/v1/notifications'),
    { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) },
    json => { payload => {}, routing => { audience => { type => 'USER', targets => ['u1'] } } })->result;
is($published->code, 201, 'a notification without a transaction follows');
check_restart('the last notification', $x);

$x = $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u1') RETURNING pg_current_xact_id()});
wait_until('the membership is stored', sub { $store->execute('SISMEMBER', $store->shared('groups:u1'), 'ROLE:admin') });
check_restart('the last membership', $x);

# Earlier transactions may become visible after later transactions, for example if they wait for a synchronous standby.
sub insert_row { my ($id) = @_; return $pg->safe_psql('postgres', "INSERT INTO t VALUES ($id, 'u1') RETURNING pg_current_xact_id()") }
sub add_member { my ($role) = @_; return $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('ROLE', '$role', 'u1') RETURNING pg_current_xact_id()") }
$client = $relay->client('u1');
my ($first, @later) = map { insert_row($_) } 2 .. 6;
$client->wait_row(6);
check_restart('an earlier notification', $first, $later[-1]);
($first, @later) = map { add_member($_) } qw(editor author);
wait_until('the memberships are stored', sub { $store->execute('SISMEMBER', $store->shared('groups:u1'), 'ROLE:author') });
check_restart('an earlier membership', $first, $later[-1]);

done_testing();
