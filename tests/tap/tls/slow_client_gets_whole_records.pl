# Tests that a slow client over TLS receives all data completely and in order, although the socket often accepts only a
# part of a record.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket qw(TEXT PING PONG);
use Clairon::Test::SecureSocket;
use JSON ();
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';

my $rows = 1200;
my $pg   = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, body text);
    SELECT clairon.watch('t', 'USER', '=u1')});
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key, 'gate.ping' => '10m', 'gate.slow_bytes' => '100MB' });
$relay->wait_for_log(qr/streaming from slot/);
my $raw = Clairon::Test::SecureSocket->user($relay, 'u1', $cert);

$pg->safe_psql('postgres', "INSERT INTO t SELECT i, repeat('x', 10000) FROM generate_series(1, $rows) i");
wait_until('all rows are stored', sub { $store->stored == $rows });
$raw->frame(PING, 'are you there') for 1 .. 3;

my (@ids, @pongs);
while (@ids < $rows || @pongs < 3)
{
    my $frame = $raw->next_frame // die 'the relay closed after row ' . ($ids[-1] // 0) . "\n";
    push @pongs, $frame->{payload} if $frame->{opcode} == PONG;
    next if $frame->{opcode} != TEXT;
    push @ids, map { $_->{n}{payload}{after}{id} } grep { $_->{t} eq 'msg' }
      map { JSON::decode_json($_) } split /\n/, $frame->{payload};
}
is(join(' ', @ids), join(' ', 1 .. $rows), 'the client receives every notification once and in order');
is_deeply(\@pongs, [ ('are you there') x 3 ], 'each WebSocket ping receives its reply between two text frames');

done_testing();
