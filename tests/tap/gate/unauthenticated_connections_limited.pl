# Tests that connections without a connect frame are limited and do not block other addresses.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket qw(CONTINUATION TEXT);
use Test::More;

use constant { SLOTS => 20, PER_ADDRESS => 5000 };
system('prlimit', '--pid', $$, '--nofile=' . (2 * PER_ADDRESS) . ':') == 0 or die "could not raise the limit of file descriptors";

my $store = Clairon::Test::store();
sub relay_with { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => {@_}) }
sub from { my ($relay, $address) = @_; return Clairon::Test::RawSocket->open($relay, 'X-Forwarded-For' => $address) }
sub status { return from(@_)->{response}{status} }

sub connected
{
    my ($raw, $user, %more) = @_;
    $raw->send_json({ t => 'connect', r => 1, token => token(sub => $user), %more });
    return $raw->wait_message('connected');
}

# The first frame must not exceed 20 kB.
my $relay = relay_with('gate.trusted_proxies' => '127.0.0.0/8', 'gate.max_connections' => SLOTS, 'gate.connect_timeout' => '10m');
for my $case ([ 'announced', sub { $_[0]->frame(TEXT, '{"t":', length => 20 * 1024 + 1) } ],
    [ 'in chunks', sub { $_[0]->frame(TEXT, '{' . ' ' x 16_000, final => 0); $_[0]->frame(CONTINUATION, ' ' x 6000, final => 0) } ])
{
    my ($name, $send) = @$case;
    my $raw = from($relay, '192.0.2.9');
    $send->($raw);
    is($raw->read_to_end->{code}, 1009, "a first frame over 20 kB, $name, is rejected");
}
my $large = from($relay, '192.0.2.9');
my @topics = map { sprintf 'topic.%024d', $_ } 1 .. 256;
is(connected($large, 'u0', topics => \@topics, token => token(sub => 'u0', pad => 'x' x 5900))->{user}, 'u0', 'the longest valid connect frame is accepted');
$large->text('{"t":"ping","pad":"' . 'x' x 40_000 . '"}');
isnt($large->next_message->{code} // 0, 1009, 'the limit of the first frame does not apply to later frames');
$large->disconnect;
wait_until('the connection is closed', sub { $relay->metric('clairon_gate_connections') == 0 });

# Idle connections of one address use all slots.
my @idle = map { from($relay, '192.0.2.1') } 1 .. SLOTS;
is(scalar(grep { $_->{response}{status} == 101 } @idle), SLOTS, 'idle connections use all slots');
my $early = from($relay, '203.0.113.1');
is($early->{response}{status}, 101, 'another address is accepted');
my @users;
for my $nth (1 .. SLOTS - 2)
{
    my $raw = from($relay, "203.0.113." . (10 + $nth));
    is(connected($raw, "u$nth")->{user}, "u$nth", "user $nth connects");
    push @users, $raw;
}
is($idle[0]->read_to_end->{code}, 1006, 'the oldest idle connection is closed');
is(connected($early, 'early')->{user}, 'early', 'the only connection of another address stays open');
push @users, $early;
push @users, from($relay, '203.0.113.99');
is(connected($users[-1], 'last')->{user}, 'last', 'an idle connection is evicted for a user on the last slot');
is(status($relay, '203.0.113.100'), 503, 'authenticated connections are not evicted');
is($relay->metric('clairon_gate_connections'), SLOTS, 'evicted connections are not counted');
$_->send_json({ t => 'ping', r => 1 }) for @users;
is($_->wait_message('pong')->{t}, 'pong', 'authenticated connections stay open') for @users;
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

# Upgrades count against request_rate until their token is verified.
$relay = relay_with('gate.trusted_proxies' => '127.0.0.0/8', 'gate.request_rate' => 2);
my %got;
$got{ status($relay, '192.0.2.1') }++ for 1 .. 40;
ok($got{429}, 'too many upgrades without a token are rejected');
is(($got{101} // 0) + $got{429}, 40, 'upgrades beyond the rate receive 429');
for my $nth (1 .. 12)
{
    my $raw = from($relay, '192.0.2.2');
    is(connected($raw, "u$nth")->{user}, "u$nth", 'upgrades with valid tokens are not limited by address');
}
is($relay->stop, 0, 'the relay with request_rate exits with status 0 on SIGTERM');

# The default limits apply.
$relay = relay_with('gate.trusted_proxies' => '127.0.0.2', 'gate.connect_timeout' => '10m');
@idle = map { Clairon::Test::RawSocket->open($relay) } 1 .. PER_ADDRESS + 1;
is(scalar(grep { $_->{response}{status} == 101 } @idle), PER_ADDRESS + 1, 'loopback addresses, which may be proxies, have no address limit');
is($relay->stop, 0, 'the relay with the default limits exits with status 0 on SIGTERM');
@idle = ();
$relay = relay_with('gate.trusted_proxies' => '127.0.0.0/8', 'gate.connect_timeout' => '10m', 'gate.connect_rate' => 0, 'gate.request_rate' => 0);
@idle = map { from($relay, '192.0.2.1') } 1 .. PER_ADDRESS;
is(scalar(grep { $_->{response}{status} == 101 } @idle), PER_ADDRESS, 'a client address may have 5000 connections');
is(status($relay, '192.0.2.1'), 429, 'connection 5001 of a client address is rejected');
like($relay->log_text, qr/gate\.max_per_address reached" address="?192\.0\.2\.1"? count=5000/, 'the log names the address');
is(status($relay, '192.0.2.2'), 101, 'the limit counts each address separately');
is($relay->stop, 0, 'SIGTERM ends the relay behind a trusted proxy with status 0');
done_testing();
