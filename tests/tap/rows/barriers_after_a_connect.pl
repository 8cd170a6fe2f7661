# Tests that a relay knows the position that the shard covers, which the last notification of a batch has, also if the relay
# has connected after that notification, and that a new epoch does not cover the positions of the former one.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # with several, notifications do not have the position
use Clairon::Test qw(wait_until token script_text);
use Clairon::Test::RawSocket;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}');
    CREATE TABLE pending (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('pending', 'USER', 'owner', operations => '{create}', ack_required => true)});
my $store = Clairon::Test::store();
my $first = Clairon::Test::relay($pg, $store);
my $id    = 0;

sub commit { my ($table) = @_; $id++; return (split /\n/, $pg->safe_psql('postgres', "INSERT INTO $table VALUES ($id, 'u1') RETURNING pg_current_xact_id()"))[0] }

# No WAL follows the transaction, so the feed stores no further position.
sub barrier
{
    my ($relay, $x) = @_;
    my $socket = Clairon::Test::RawSocket->new($relay);
    return $socket->request(GET => "/v1/barrier?x=$x", Authorization => 'Bearer ' . token(sub => 'u1'))->{status};
}

sub last_covered { return +{ @{ $store->execute('XREVRANGE', 'clairon:stream', '+', '-', 'COUNT', 1)->[0][1] } }->{covered} // 'none' }

my $client = $first->client('u1');
my $x;
for my $table ('pending', 't') # stored by a script, and by a transaction
{
    $x = commit($table);
    $client->wait_row($id);
    like(last_covered(), qr/\A[0-9a-f]{16}\.1\z/, "the last notification of a batch has the position: $table");
    is(barrier($first, $x), 200, "the relay that was connected: $table");
}

my $second = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay', 'rows.timeout' => '10s' });
is(barrier($second, $x), 200, 'a relay that has connected after the notification');

my $other = $second->client('u1');
$x = commit('t');
$other->wait_row($id);
my @blocked = map { /\bid=(\d+)/ } grep { /\bcmd=xread\b/ } split /\n/, $store->execute('CLIENT', 'LIST');
is(scalar @blocked, 2, 'each relay has a connection that reads the streams');
$store->execute('CLIENT', 'KILL', 'ID', $_) for @blocked;
wait_until('the relays have connected again', sub { 2 == grep { /\bcmd=xread\b/ } split /\n/, $store->execute('CLIENT', 'LIST') });
is(barrier($_, $x), 200, 'a relay that has lost this connection') for $first, $second;

# The scripts, on separate keys.
sub run_script { my ($name, $key, @args) = @_; return $store->execute('EVAL', script_text($name), 1, $key, @args) }
sub covered { return join ' ', map { @{ $_->[1] } } @{ $store->execute('XRANGE', 'c:covered', '-', '+') } }
my ($old, $new) = map { sprintf '%016x', $_ } 10, 20;
run_script('acquire', 'c:progress:s', 'one', 'system', 1, '', 1, 'postgres');
$store->execute('HSET', 'c:progress:s', 'read:one', $old);
$store->execute('RENAME', 'c:covered', 'c:moved');
run_script('history', 'c:stream', 'c');
is(covered(), '', 'a connect does not add the stream, which another node may have');
$store->execute('RENAME', 'c:moved', 'c:covered');
run_script('history', 'c:stream', 'c') for 1, 2;
is(covered(), "read $old timeline 1", 'a connect adds the position of the progress');
run_script('rewind', 'c:progress:s', 'c', 'one', 1, 'a', 'epoch', $new, '', 'a');
run_script('history', 'c:stream', 'c');
is(covered(), "reset $new", 'a new epoch does not cover it');
$store->execute('HSET', 'c:progress:s', 'read:one', sprintf '%016x', 30);
run_script('history', 'c:stream', 'c');
is(covered(), sprintf('read %016x timeline 1', 30), 'but later ones');

done_testing();
