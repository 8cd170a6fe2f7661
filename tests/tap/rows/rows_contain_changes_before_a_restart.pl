# Tests that a relay that has restarted sends rows only from a snapshot that contains the last transactions delivered before.
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

sub snapshot_without { my ($xid) = @_; return sprintf '%s:%s:%s', $xid, $xid + 1, $xid }
sub snapshot_with { my ($xid) = @_; return sprintf '%s:%s:', $xid + 1, $xid + 1 }

# A new connection after a restart receives its rows from a snapshot with that transaction, not from one without.
sub check_restart
{
    my ($xid, $what) = @_;
    $stub->set('t', snapshot => snapshot_without($xid));
    $relay->restart;
    my $client = $relay->client('u1');
    $client->send({ t => 'rows', r => 2, source => 't' });
    my $reply = sub { (grep { ($_->{r} // 0) == 2 } @{ $client->{messages} })[0] };
    $client->run_until('the relay has queried', sub { $reply->() || $relay->metric('clairon_rows_repeated_total') >= 2 });
    ok(!$reply->(), "rows without $what are not sent");
    $stub->set('t', snapshot => snapshot_with($xid));
    is($client->wait_for(sub { ($_[0]{r} // 0) == 2 })->{snapshot}, snapshot_with($xid), "rows with $what are sent");
    return;
}

my $client = $relay->client('u1');
my $x      = $pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1') RETURNING pg_current_xact_id()});
$client->wait_row(1);
my $published = Mojo::UserAgent->new->post($relay->url('/v1/notifications'),
    { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) },
    json => { payload => {}, routing => { audience => { type => 'USER', targets => ['u1'] } } })->result;
is($published->code, 201, 'a notification without a transaction follows');
check_restart($x, 'the last notification');

$x = $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u1') RETURNING pg_current_xact_id()});
wait_until('the membership is stored', sub { $store->execute('SISMEMBER', $store->shared('groups:u1'), 'ROLE:admin') });
check_restart($x, 'the last membership');

done_testing();
