# Tests that a client that was closed for a missing pong, and that sends on without closing its side, is disconnected.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Clock;
use Clairon::Test::RawSocket qw(PONG CLOSE);
use Test::More;

Clairon::Test::Clock->is_usable or plan skip_all => 'a relay with a sanitizer keeps its own clock';

my $store = Clairon::Test::store();
my $clock = Clairon::Test::Clock->new;
my $relay = $clock->start(sub { Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.ping' => '1h' }) });
my $raw   = Clairon::Test::RawSocket->user($relay, 'u1', exp => time + 86400);

$clock->advance(3601);
is($raw->next_message->{t}, 'ping', 'the relay sends a ping');
$clock->advance(3601);
my $frame = $raw->next_frame;
$frame = $raw->next_frame while $frame && $frame->{opcode} != CLOSE;
is(unpack('n', $frame->{payload}), 4102, 'the relay closes the connection of a client without a pong');
$raw->frame(PONG, 'late');
wait_until('the relay has closed the socket', sub { $relay->metric('clairon_gate_connections') == 0 }, 60);

done_testing();
