# Tests that many sockets, including a slow one, receive a large burst completely and in order.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket qw(TEXT);
use Digest::MD5 qw(md5_hex);
use JSON ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my ($clients, $bursts, $rows) = (24, 30, 16);
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres',
    "CREATE TABLE news (id int PRIMARY KEY, body text); SELECT clairon.watch('news', 'ALL')");
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '100MB' });

# With a fixed receive buffer, the unread socket buffers several bursts and part of another.
sub reader
{
    my ($number) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay);
    setsockopt $raw->{link}, SOL_SOCKET, SO_RCVBUF, 65536 or die "setsockopt: $!\n";
    $raw->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => "u$number") });
    $raw->wait_message('connected');
    return $raw;
}

# Returns the body of a row, as computed by PostgreSQL.
sub body { my ($id) = @_; return md5_hex($id) x 300 }

# Returns the next lines of a socket; each WebSocket frame must contain one line.
sub next_messages
{
    my ($raw, $count) = @_;
    my @frames = map { $raw->next_frame // die "the relay closed the connection\n" } 1 .. $count;
    die "a frame that is not a text frame\n" if grep { $_->{opcode} != TEXT } @frames;
    return map { $_->{payload} } @frames;
}

my @readers = map { reader($_) } 1 .. $clients;
my $ids = 0;
for my $burst (1 .. $bursts)
{
    $pg->safe_psql('postgres', "INSERT INTO news SELECT $ids + i, repeat(md5(($ids + i)::text), 300) FROM generate_series(1, $rows) i");
    $ids += $rows;
    wait_until('the relay has read the burst', sub { $relay->metric('clairon_hub_notifications_total') == $ids });
}
cmp_ok($relay->metric('clairon_hub_delivered_total'), '<', $ids * $clients, 'the bursts are larger than the socket buffers');
my @first = next_messages($readers[0], $ids);
my @after = map { JSON::decode_json($_)->{n}{payload}{after} } @first;
is_deeply([ map { $_->{id} } @after ], [ 1 .. $ids ], 'a client receives all rows in order');
is_deeply([ grep { $_->{body} ne body($_->{id}) } @after ], [], 'a client receives the rows unchanged');
my $whole = join "\n", @first;
is_deeply([ grep { $whole ne join "\n", next_messages($readers[$_], $ids) } 1 .. $#readers ], [], 'all clients receive the same rows');
is($relay->metric('clairon_hub_delivered_total'), $ids * $clients, 'each row is delivered exactly once');
done_testing();
