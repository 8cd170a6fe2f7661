# Tests a client that requests rows and does not read them: other clients do not wait, and the rows are released.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Clairon::Test::StubRows;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'rows.max_bytes' => '16MB', 'rows.timeout' => '60s', 'gate.slow_age' => '3s', 'gate.ping' => '10m' });
$stub->set('large', audience => 'ALL', row_count => 1500, width => 10000);
$stub->set('small');

sub held { return $relay->metric('clairon_rows_held_bytes') }

my $client = $relay->client('u1');
my $raw    = Clairon::Test::RawSocket->open($relay);
setsockopt $raw->{link}, SOL_SOCKET, SO_RCVBUF, 65536 or die "setsockopt: $!\n";
$raw->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'u2') });
$raw->wait_message('connected');
$raw->send_json({ t => 'rows', r => 2, source => 'large' });
wait_until('rows are in memory', sub { held() > 15_000_000 });
$client->send({ t => 'rows', r => 2, source => 'small' });
is($client->wait_for(sub { ($_[0]{r} // 0) == 2 })->{t}, 'rows',
    'another client receives its rows while unread rows are in memory');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
$client->wait_row(1);
pass('another client receives its notifications while unread rows are in memory');
wait_until('the connection is closed', sub { $relay->metric('clairon_gate_connections') == 1 });
wait_until('the client\'s rows are released', sub { held() == 0 });
pass('the connection of a client that does not read is closed, and its rows are released');

$client->send({ t => 'rows', r => 3, source => 'large' });
my $rows = 0;
my $last = 0;
while (!$last)
{
    my $page = $client->wait_for(sub { ($_[0]{r} // 0) == 3 && !$_[0]{is_counted} });
    $page->{is_counted} = 1;
    $rows += @{ $page->{rows} };
    $last = !$page->{more};
}
is($rows, 1500, 'another client reads the same list completely');
wait_until('the rows of the other client are released', sub { held() == 0 });
pass('read rows are released');

done_testing();
